"""InitProducerId with a transactional id."""

from __future__ import annotations

import pytest

from ottla.machine import Call
from ottla.transactions.transaction import LAST_CLIENT_EPOCH, NO_TIMEOUT_MS, TransactionState
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

from .coordinator import A0, A1, ID, Coordinator


def test_a_new_transactional_id_gets_a_fresh_producer_id_and_epoch_0() -> None:
    coordinator = Coordinator()
    assert coordinator.producer() == (1001, 0)
    assert coordinator.state() == TransactionState.EMPTY


def test_the_next_client_with_the_same_id_gets_the_next_epoch() -> None:
    coordinator = Coordinator()
    producer_id, _ = coordinator.producer()
    assert coordinator.producer() == (producer_id, 1)
    assert coordinator.add((producer_id, 0), A0) == ErrorCode.PRODUCER_FENCED


def test_ids_differ_between_transactional_ids() -> None:
    coordinator = Coordinator()
    assert coordinator.producer("one")[0] != coordinator.producer("two")[0]


@pytest.mark.parametrize("transactional_id", ["", None, "x" * 32768, "\u00e9" * 20000])
def test_an_empty_transactional_id_and_one_too_long_for_a_record_are_invalid_requests(
    transactional_id: str | None,
) -> None:
    response = Coordinator().init(transactional_id)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_outside_the_brokers_bounds_is_refused(timeout_ms: int) -> None:
    assert Coordinator().init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert Coordinator().init(timeout_ms=900_000).error_code == ErrorCode.NONE


def test_an_ongoing_transaction_is_aborted_first_and_the_client_told_to_come_again() -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.producer()
    coordinator.add((producer_id, epoch), A0, A1)
    assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.state() == TransactionState.PREPARE_ABORT
    (effect,) = coordinator.effects
    assert (effect.is_commit, effect.producer_epoch, effect.partitions) == (False, epoch + 1, (A0, A1))
    assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.producer() == (producer_id, epoch + 2)


def test_with_protocol_version_1_fencing_raises_the_epoch_of_the_marker_once() -> None:
    coordinator = Coordinator(transaction_version=1)
    producer = coordinator.producer()
    coordinator.add(producer, A0, version=3)
    coordinator.init()
    (effect,) = coordinator.effects
    assert (effect.producer_epoch, effect.transaction_version) == (1, 0)
    coordinator.write_markers()
    assert coordinator.producer() == (producer[0], 2)


def test_a_client_that_recovers_gets_the_next_epoch_and_the_same_one_for_its_retry() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    recovered = coordinator.producer(expected=producer)
    assert recovered == (producer[0], 1)
    assert coordinator.producer(expected=producer) == recovered
    assert coordinator.producer(expected=recovered) == (producer[0], 2)


def test_a_client_that_recovers_is_fenced_when_another_one_has_begun_meanwhile() -> None:
    coordinator = Coordinator()
    old = coordinator.producer()
    coordinator.producer()
    assert coordinator.init(expected=old).error_code == ErrorCode.PRODUCER_FENCED
    assert coordinator.init(expected=old, version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_client_whose_recovery_could_not_be_written_does_not_share_the_epoch_of_another_one() -> None:
    coordinator = Coordinator()
    old = coordinator.producer()
    request = InitProducerIdRequest(
        transactional_id=ID, transaction_timeout_ms=60_000, producer_id=old[0], producer_epoch=old[1]
    )
    refused = coordinator.shard.init_producer_id(request, Call(0, 0, 5))
    assert refused.reply.producer_epoch == 1, "its record finds no room, and it is not told"
    assert coordinator.producer() == (old[0], 1)
    assert coordinator.init(expected=old).error_code == ErrorCode.PRODUCER_FENCED


def test_a_client_with_a_foreign_producer_id_is_fenced() -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.producer()
    assert coordinator.init(expected=(producer_id + 1, epoch)).error_code == ErrorCode.PRODUCER_FENCED


def test_an_old_client_that_recovers_does_not_abort_the_transaction_of_the_new_one() -> None:
    coordinator = Coordinator()
    old = coordinator.producer()
    new = coordinator.producer()
    coordinator.add(new, A0)
    assert coordinator.init(expected=old).error_code == ErrorCode.PRODUCER_FENCED
    assert coordinator.state() == TransactionState.ONGOING


def test_a_client_whose_transactional_id_was_forgotten_begins_anew() -> None:
    assert Coordinator().producer(expected=(7, 3)) == (1001, 0)


def test_a_producer_id_whose_epochs_ran_out_is_replaced() -> None:
    coordinator = Coordinator()
    coordinator.producer()
    old = coordinator.set_epoch(LAST_CLIENT_EPOCH)
    new = coordinator.producer()
    assert new == (1002, 0)
    assert coordinator.add(old, A0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_retry_of_a_recovery_that_replaced_the_producer_id_gets_the_same_answer() -> None:
    coordinator = Coordinator()
    coordinator.producer()
    old = coordinator.set_epoch(LAST_CLIENT_EPOCH)
    new = coordinator.producer(expected=old)
    assert new == (1002, 0)
    assert coordinator.producer(expected=old) == new
    assert coordinator.init(expected=(old[0], LAST_CLIENT_EPOCH - 1)).error_code == ErrorCode.PRODUCER_FENCED


def test_fencing_at_the_last_epoch_leads_to_a_new_producer_id() -> None:
    coordinator = Coordinator()
    coordinator.producer()
    old = coordinator.set_epoch(LAST_CLIENT_EPOCH)
    coordinator.add(old, A0)
    assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.effects[0].producer_epoch == LAST_CLIENT_EPOCH + 1
    coordinator.write_markers()
    assert coordinator.producer() == (1002, 1)


def test_without_a_producer_id_at_hand_the_client_waits() -> None:
    coordinator = Coordinator()
    coordinator.producer_ids = []
    assert coordinator.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# --- two-phase commit (KIP-939)


def two_phase() -> Coordinator:
    return Coordinator(transaction_two_phase_commit_enable="true")


def test_two_phase_commit_must_be_enabled() -> None:
    assert Coordinator().init(enable2_pc=True).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert Coordinator().init(keep_prepared_txn=True).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_two_phase_transaction_has_no_timeout() -> None:
    coordinator = two_phase()
    producer = coordinator.producer(timeout_ms=5, enable2_pc=True)
    assert coordinator.transaction().timeout_ms == NO_TIMEOUT_MS
    coordinator.add(producer, A0)
    assert coordinator.pass_time(30 * 24 * 3_600_000) == 0
    assert coordinator.state() == TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_client_that_takes_over_learns_of_the_prepared_transaction_and_ends_it(commit: bool) -> None:
    coordinator = two_phase()
    old = coordinator.producer(enable2_pc=True)
    coordinator.add(old, A0)
    for take_over in range(1, 4):
        response = coordinator.init(enable2_pc=True, keep_prepared_txn=True)
        assert response.error_code == ErrorCode.NONE
        assert (response.producer_id, response.producer_epoch) == (old[0], old[1] + take_over)
        assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == old
        coordinator.crash()
    new = old[0], old[1] + 3
    assert coordinator.add(old, A1) == ErrorCode.PRODUCER_FENCED
    assert coordinator.add(new, A1) == ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(old, commit=commit).error_code == ErrorCode.PRODUCER_FENCED
    ended = coordinator.end(new, commit=commit)
    assert ended.error_code == ErrorCode.NONE
    assert (ended.producer_id, ended.producer_epoch) == (old[0], old[1] + 4)
    (effect,) = coordinator.effects
    assert (effect.is_commit, effect.producer_id, effect.producer_epoch) == (commit, old[0], old[1] + 1)
    coordinator.write_markers()
    again = coordinator.end(new, commit=commit)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, old[1] + 4)
    assert coordinator.add((ended.producer_id, ended.producer_epoch), A0) == ErrorCode.NONE


@pytest.mark.parametrize("start_epoch", [LAST_CLIENT_EPOCH - 1, LAST_CLIENT_EPOCH - 2])
def test_a_take_over_at_the_last_epochs_leads_to_a_new_producer_id(start_epoch: int) -> None:
    coordinator = two_phase()
    coordinator.producer(enable2_pc=True)
    old = coordinator.set_epoch(start_epoch)
    coordinator.add(old, A0)
    for _ in range(2):
        response = coordinator.init(enable2_pc=True, keep_prepared_txn=True)
        assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == old
    client = response.producer_id, response.producer_epoch
    ended = coordinator.end(client, commit=True)
    assert coordinator.effects[0].producer_id == old[0]
    assert coordinator.effects[0].producer_epoch == start_epoch + 1
    coordinator.write_markers()
    transaction = coordinator.transaction()
    assert transaction.producer_id == ended.producer_id == 1002
    assert transaction.producer_epoch + LAST_CLIENT_EPOCH + 1 - start_epoch == 3
    again = coordinator.end(client, commit=True)
    assert (again.error_code, again.producer_id) == (ErrorCode.NONE, ended.producer_id)


def test_taking_over_without_an_ongoing_transaction_is_a_plain_beginning() -> None:
    coordinator = two_phase()
    coordinator.producer(enable2_pc=True)
    response = coordinator.init(enable2_pc=True, keep_prepared_txn=True)
    assert (response.error_code, response.producer_epoch, response.ongoing_txn_producer_id) == (ErrorCode.NONE, 1, -1)


def test_taking_over_with_an_expected_epoch_is_an_invalid_request() -> None:
    coordinator = two_phase()
    producer = coordinator.producer(enable2_pc=True)
    response = coordinator.init(enable2_pc=True, keep_prepared_txn=True, expected=producer)
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_taking_over_needs_records_that_can_hold_it() -> None:
    coordinator = Coordinator(transaction_version=1, transaction_two_phase_commit_enable="true")
    coordinator.producer()
    assert coordinator.init(keep_prepared_txn=True).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_kept_transaction_is_aborted_by_a_client_that_does_not_keep_it() -> None:
    coordinator = two_phase()
    old = coordinator.producer(enable2_pc=True)
    coordinator.add(old, A0)
    kept = coordinator.producer(enable2_pc=True, keep_prepared_txn=True)
    assert coordinator.init(enable2_pc=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(kept, commit=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.state() == TransactionState.COMPLETE_ABORT
    assert coordinator.end(kept, commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    assert coordinator.producer() == (old[0], 3)
    assert ID in coordinator.shard.transactions
