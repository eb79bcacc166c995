"""AddPartitionsToTxn and AddOffsetsToTxn, and the question of a partition's leader."""

from __future__ import annotations

from ottla.transactions import TopicPartition
from ottla.transactions.transaction import TransactionState
from ottla.wire.errors import ErrorCode

from .coordinator import A0, A1, B0, ID, START, Coordinator


def test_the_first_partition_begins_the_transaction_and_others_join_it() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.pass_time(10)
    assert coordinator.add(producer, A0) == ErrorCode.NONE
    coordinator.pass_time(10)
    assert coordinator.add(producer, B0, A1) == ErrorCode.NONE
    transaction = coordinator.transaction()
    assert transaction.state == TransactionState.ONGOING
    assert set(transaction.partitions) == {A0, A1, B0}
    assert transaction.start_timestamp == START + 10
    assert transaction.last_update_timestamp == START + 20


def test_partitions_that_are_in_the_transaction_already_cost_no_record() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, A0, A1)
    written = len(coordinator.log)
    assert coordinator.add(producer, A1) == ErrorCode.NONE
    assert len(coordinator.log) == written


def test_offsets_of_a_group_are_a_partition_like_any_other() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    offsets = TopicPartition("__consumer_offsets", 7)
    assert coordinator.add(producer, offsets, version=3) == ErrorCode.NONE
    coordinator.end(producer, commit=True, version=4)
    assert coordinator.effects[0].partitions == (offsets,)


def test_producers_that_may_not_add_partitions() -> None:
    coordinator = Coordinator()
    assert coordinator.add((1, 0), A0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add((1, 0), A0, transactional_id="") == ErrorCode.INVALID_REQUEST
    producer_id, epoch = coordinator.producer()
    assert coordinator.add((producer_id + 1, epoch), A0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add((producer_id, epoch + 1), A0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.add((producer_id, epoch + 1), A0, version=2) == ErrorCode.PRODUCER_FENCED
    assert coordinator.add((producer_id, epoch + 1), A0, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.state() == TransactionState.EMPTY


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    coordinator = Coordinator()
    producer = coordinator.producer()
    coordinator.add(producer, A0)
    ended = coordinator.end(producer, commit=True)
    following = ended.producer_id, ended.producer_epoch
    assert coordinator.add(following, A0) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.add(producer, A0) == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.add(producer, A0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.add(following, A0) == ErrorCode.NONE


def test_a_leader_learns_which_partitions_are_in_the_transaction() -> None:
    coordinator = Coordinator()
    producer_id, epoch = coordinator.producer()
    verify = coordinator.shard.verify_partitions
    assert verify(ID, producer_id, epoch, [A0]) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
    coordinator.add((producer_id, epoch), A0)
    written = len(coordinator.log)
    assert verify(ID, producer_id, epoch, [A0, A1]) == {A0: ErrorCode.NONE, A1: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify(ID, producer_id + 1, epoch, [A0]) == {A0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert verify(ID, producer_id, epoch + 1, [A0]) == {A0: ErrorCode.PRODUCER_FENCED}
    assert verify("other", producer_id, epoch, [A0]) == {A0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert verify("", producer_id, epoch, [A0]) == {A0: ErrorCode.INVALID_REQUEST}
    coordinator.end((producer_id, epoch), commit=True, version=4)
    assert verify(ID, producer_id, epoch, [A0]) == {A0: ErrorCode.CONCURRENT_TRANSACTIONS}
    coordinator.write_markers()
    assert verify(ID, producer_id, epoch, [A0]) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
    assert len(coordinator.log) == written + 2
