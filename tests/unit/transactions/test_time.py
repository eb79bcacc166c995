"""Timeouts: transactions that take too long are aborted, unused transactional ids are removed."""

from __future__ import annotations

import pytest

from ottla.transactions.shard import DECIDED_TOGETHER
from ottla.transactions.transaction import LAST_CLIENT_EPOCH, TransactionState
from ottla.wire.errors import ErrorCode

from .coordinator import A0, ID, Coordinator

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(transaction_version: int) -> None:
    coordinator = Coordinator(transaction_version)
    producer = coordinator.producer(timeout_ms=25_000)
    coordinator.add(producer, A0)
    coordinator.pass_time(25_000)
    assert coordinator.state() == TransactionState.ONGOING
    coordinator.pass_time(10_000)
    assert coordinator.state() == TransactionState.PREPARE_ABORT
    (effect,) = coordinator.effects
    assert (effect.is_commit, effect.producer_epoch) == (False, producer[1] + 1)
    coordinator.write_markers()
    assert coordinator.add(producer, A0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.transaction().producer_epoch == producer[1] + 1
    assert dict(coordinator.shard.counts) == {"aborted": 0, "timed_out": 1}


def test_a_client_learns_of_the_timeout_when_it_commits_and_goes_on_after_an_abort() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer(timeout_ms=1_000)
    coordinator.add(producer, A0)
    coordinator.pass_time(20_000)
    coordinator.write_markers()
    assert coordinator.end(producer, commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(producer, commit=False).producer_epoch == producer[1] + 1


def test_a_clock_check_comes_only_while_a_transaction_is_open() -> None:
    coordinator = Coordinator()
    assert coordinator.shard.deadline() is None
    producer = coordinator.producer()
    assert coordinator.shard.deadline() == 3_600_000
    coordinator.add(producer, A0)
    assert coordinator.shard.deadline() == 10_000
    coordinator.pass_time(10_000)
    assert coordinator.shard.deadline() == 20_000
    coordinator.end(producer, commit=True)
    assert coordinator.shard.deadline() == 3_600_000


def test_an_abort_that_needs_a_producer_id_comes_with_a_later_check() -> None:
    coordinator = Coordinator()
    coordinator.producer(timeout_ms=1_000)
    coordinator.add(coordinator.set_epoch(LAST_CLIENT_EPOCH), A0)
    kept, coordinator.producer_ids = coordinator.producer_ids, []
    assert coordinator.pass_time(20_000) == 0
    coordinator.producer_ids = kept
    assert coordinator.pass_time(10_000) == 1
    assert coordinator.state() == TransactionState.PREPARE_ABORT


def test_an_abort_that_could_not_be_written_comes_with_a_later_check() -> None:
    coordinator = Coordinator()
    coordinator.add(coordinator.producer(timeout_ms=1_000), A0)
    coordinator.now, coordinator.timestamp = 20_000, coordinator.timestamp + 20_000
    assert coordinator.shard.next_due(coordinator.now, coordinator.timestamp) is not None
    assert coordinator.shard.next_due(coordinator.now, coordinator.timestamp) is None
    assert coordinator.state() == TransactionState.ONGOING
    assert coordinator.pass_time(10_000) == 1


def test_many_timeouts_are_decided_in_portions() -> None:
    coordinator = Coordinator()
    for number in range(DECIDED_TOGETHER + 1):
        name = f"t{number}"
        coordinator.add(coordinator.producer(name, timeout_ms=1_000), A0, transactional_id=name)
    assert coordinator.pass_time(20_000) == 2
    assert len(coordinator.effects) == DECIDED_TOGETHER + 1


def test_an_unused_transactional_id_is_removed_with_a_tombstone() -> None:
    coordinator = Coordinator()
    coordinator.producer()
    coordinator.producer("busy")
    coordinator.pass_time(5 * DAY_MS)
    coordinator.add((1002, 0), A0, transactional_id="busy")
    coordinator.end((1002, 0), commit=True, transactional_id="busy")
    coordinator.write_markers()
    coordinator.pass_time(3 * DAY_MS)
    assert list(coordinator.shard.transactions) == ["busy"]
    assert coordinator.log[-1][1] is None
    coordinator.crash()
    assert list(coordinator.shard.transactions) == ["busy"]
    assert coordinator.add((1001, 0), A0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transactional_id_with_an_open_or_prepared_transaction_is_not_forgotten() -> None:
    coordinator = Coordinator(transaction_two_phase_commit_enable="true")
    coordinator.add(coordinator.producer(enable2_pc=True), A0)
    coordinator.pass_time(30 * DAY_MS)
    assert coordinator.state() == TransactionState.ONGOING
    coordinator.end((1001, 0), commit=True)
    coordinator.pass_time(30 * DAY_MS)
    assert coordinator.state() == TransactionState.PREPARE_COMMIT
    coordinator.write_markers()
    coordinator.pass_time(8 * DAY_MS)
    assert ID not in coordinator.shard.transactions
