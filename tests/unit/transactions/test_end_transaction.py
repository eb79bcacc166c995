"""EndTxn, the markers it leads to, and the end of the transaction."""

from __future__ import annotations

import pytest

from ottla.transactions.transaction import LAST_CLIENT_EPOCH, TransactionState
from ottla.wire.errors import ErrorCode

from .coordinator import A0, A1, B0, ID, Coordinator

COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
PREPARE = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_decided_told_to_all_partitions_and_then_complete(commit: bool) -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.producer()
    coordinator.add((producer_id, epoch), A0, B0)
    response = coordinator.end((producer_id, epoch), commit=commit)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, producer_id, epoch + 1)
    assert coordinator.state() == PREPARE[commit]
    (effect,) = coordinator.effects
    assert effect.is_commit == commit
    assert (effect.producer_id, effect.producer_epoch, effect.transaction_version) == (producer_id, epoch + 1, 2)
    assert effect.partitions == (A0, B0)
    coordinator.write_markers([A0])
    assert coordinator.state() == PREPARE[commit]
    coordinator.write_markers([B0])
    assert coordinator.state() == COMPLETE[commit]
    assert not coordinator.transaction().partitions


def test_before_version_5_the_epoch_stays() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, A0, version=3)
    response = coordinator.end(producer, commit=True, version=4)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, -1, -1)
    (effect,) = coordinator.effects
    assert ((effect.producer_id, effect.producer_epoch), effect.transaction_version) == (producer, 0)
    coordinator.write_markers()
    assert coordinator.add(producer, A0, version=3) == ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_a_retry_is_answered_with_the_same_epoch_once_the_markers_are_written(commit: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, A0)
    first = coordinator.end(producer, commit=commit)
    assert coordinator.end(producer, commit=commit).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(producer, commit=not commit).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    again = coordinator.end(producer, commit=commit)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first.producer_id, first.producer_epoch)
    assert coordinator.end(producer, commit=not commit).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_before_version_5_a_retry_is_known_by_the_state(commit: bool) -> None:
    coordinator = Coordinator(transaction_version=1)
    producer = coordinator.producer()
    assert coordinator.end(producer, commit=commit, version=4).error_code == ErrorCode.INVALID_TXN_STATE
    coordinator.add(producer, A0, version=3)
    coordinator.end(producer, commit=commit, version=4)
    assert coordinator.end(producer, commit=commit, version=4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.end(producer, commit=commit, version=4).error_code == ErrorCode.NONE
    assert coordinator.end(producer, commit=not commit, version=4).error_code == ErrorCode.INVALID_TXN_STATE


def test_from_version_5_an_empty_transaction_may_be_aborted_but_not_committed() -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.producer()
    assert coordinator.end((producer_id, epoch), commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    for expected_epoch in (1, 2, 3):
        response = coordinator.end((producer_id, epoch), commit=False)
        assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, expected_epoch)
        assert coordinator.state() == TransactionState.COMPLETE_ABORT
        epoch = response.producer_epoch
    assert not coordinator.effects


def test_an_empty_transaction_is_aborted_also_after_a_commit() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, A0)
    ended = coordinator.end(producer, commit=True)
    coordinator.write_markers()
    next_one = ended.producer_id, ended.producer_epoch
    assert coordinator.end(next_one, commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(next_one, commit=False).producer_epoch == ended.producer_epoch + 1


def test_the_epoch_that_fits_no_transaction_is_fenced() -> None:
    coordinator = Coordinator()
    producer_id, _ = coordinator.producer()
    coordinator.producer()
    coordinator.add((producer_id, 1), A0)
    for epoch in (0, 2, -1):
        assert coordinator.end((producer_id, epoch), commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert coordinator.end((producer_id, 0), commit=True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.end((producer_id, 0), commit=True, version=2).error_code == ErrorCode.PRODUCER_FENCED


def test_an_unknown_or_foreign_producer_is_told_so() -> None:
    coordinator = Coordinator()
    assert coordinator.end((1, 0), commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer_id, epoch = coordinator.producer()
    for version in (1, 5):
        response = coordinator.end((producer_id + 9, epoch), commit=True, version=version)
        assert response.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end((1, 0), commit=True, transactional_id="").error_code == ErrorCode.INVALID_REQUEST


def test_the_last_epoch_ends_with_a_new_producer_id_and_its_retry_gets_the_same() -> None:
    coordinator = Coordinator()
    coordinator.producer()
    old = coordinator.set_epoch(LAST_CLIENT_EPOCH)
    coordinator.add(old, A0)
    response = coordinator.end(old, commit=True)
    assert (response.producer_id, response.producer_epoch) == (1002, 0)
    assert coordinator.effects[0].producer_epoch == LAST_CLIENT_EPOCH + 1
    assert coordinator.effects[0].producer_id == old[0]
    coordinator.write_markers()
    again = coordinator.end(old, commit=True)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (ErrorCode.NONE, 1002, 0)
    assert coordinator.end(old, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    coordinator.crash()
    assert coordinator.end(old, commit=True).producer_id == 1002
    assert coordinator.add((1002, 0), A0) == ErrorCode.NONE
    assert coordinator.add(old, A0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_markers_of_an_earlier_transaction_complete_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, A0)
    ended = coordinator.end(producer, commit=True)
    late = coordinator.effects[0]
    coordinator.write_markers()
    following = ended.producer_id, ended.producer_epoch
    coordinator.add(following, A0)
    coordinator.end(following, commit=True)
    decision = coordinator.shard.markers_written(ID, late.producer_id, late.producer_epoch, late.partitions, 0)
    assert not decision.records
    assert coordinator.state() == TransactionState.PREPARE_COMMIT


def test_markers_of_an_unknown_transactional_id_are_passed_over() -> None:
    assert not Coordinator().shard.markers_written("nobody", 1, 0, [A0], 0).records


def test_a_crash_while_markers_are_written_writes_all_of_them_again() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, A0, A1)
    coordinator.end(producer, commit=True)
    coordinator.write_markers([A0])
    coordinator.crash()
    (effect,) = coordinator.effects
    assert (effect.partitions, effect.is_commit, effect.coordinator_epoch) == ((A0, A1), True, 1)
    assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.state() == TransactionState.COMPLETE_COMMIT
    coordinator.crash()
    assert not coordinator.effects


def test_a_version_5_end_on_a_cluster_with_the_oldest_records_keeps_the_epoch() -> None:
    coordinator = Coordinator(transaction_version=0)
    producer = coordinator.producer()
    coordinator.add(producer, A0)
    assert coordinator.end(producer, commit=True).error_code == ErrorCode.NONE
    coordinator.write_markers()
    assert coordinator.transaction().producer_epoch == producer[1]
