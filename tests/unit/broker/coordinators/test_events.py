"""What an operator reads of what coordinators write."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.broker.coordinators.events import events, log_records
from ottla.groups.records import GroupRecord
from ottla.transactions.records import TransactionRecord
from ottla.transactions.transaction import TransactionState
from ottla.wire.messages.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.records.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from ottla.wire.messages.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.wire.messages.records.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from ottla.wire.messages.records.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.messages.records.streams_group_metadata_value import StreamsGroupMetadataValue
from ottla.wire.messages.records.transaction_log_key import TransactionLogKey
from ottla.wire.messages.records.transaction_log_value import PartitionsSchema, TransactionLogValue


def lines(*records: Any, is_due: bool = False) -> list[str]:
    return [text for text, _ in events(records, is_due=is_due)]


def classic(generation: int, *members: str) -> GroupRecord:
    value = GroupMetadataValue(
        generation=generation, protocol="range", members=[MemberMetadata(member_id=member) for member in members]
    )
    return GroupRecord(GroupMetadataKey(group="g"), value)


def consumer(epoch: int | None) -> GroupRecord:
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch)
    return GroupRecord(ConsumerGroupMetadataKey(group_id="g"), value)


def member(id: str, *, is_gone: bool = False) -> GroupRecord:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id=id)
    return GroupRecord(key, None if is_gone else ConsumerGroupMemberMetadataValue())


def transaction(state: TransactionState) -> TransactionRecord:
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=state,
        transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 1])],
    )
    return TransactionRecord(TransactionLogKey(transactional_id="etl"), value)


def test_the_generations_of_a_classic_group() -> None:
    assert lines(classic(1, "a")) == ["group g: generation 1 (1 member, protocol range)"]
    assert lines(classic(2, "a", "b")) == ["group g: generation 2 (2 members, protocol range)"]
    assert lines(classic(3)) == ["group g: generation 3 (no members)"]
    assert lines(GroupRecord(GroupMetadataKey(group="g"), None)) == ["group g: removed"]


def test_the_epochs_of_a_consumer_group_and_why_they_came() -> None:
    assert lines(member("a"), consumer(1)) == ["group g: epoch 1 (joined or changed: a)"]
    assert lines(member("a", is_gone=True), member("b"), consumer(2)) == [
        "group g: epoch 2 (joined or changed: b; left: a)"
    ]
    assert lines(*(member(str(n), is_gone=True) for n in range(7)), consumer(3)) == [
        "group g: epoch 3 (left: 0, 1, 2, 3, 4 and 2 more)"
    ]
    assert lines(consumer(4)) == ["group g: epoch 4"]
    assert lines(consumer(None)) == ["group g: removed"]


def test_the_epochs_of_a_streams_group() -> None:
    joined = GroupRecord(StreamsGroupMemberMetadataKey(group_id="g", member_id="a"), StreamsGroupMemberMetadataValue())
    epoch = GroupRecord(StreamsGroupMetadataKey(group_id="g"), StreamsGroupMetadataValue(epoch=2))
    assert lines(joined, epoch) == ["group g: epoch 2 (joined or changed: a)"]
    assert lines(epoch._replace(value=None)) == ["group g: removed"]


def test_a_transaction_that_its_timeout_aborts() -> None:
    aborted = transaction(TransactionState.PREPARE_ABORT)
    assert lines(aborted, is_due=True) == [
        "transaction of etl: aborted, its timeout of 60000 ms passed (producer 7, epoch 3, 2 partitions)"
    ]
    assert lines(aborted, is_due=False) == [], "its producer aborted it"
    assert lines(transaction(TransactionState.COMPLETE_ABORT), is_due=True) == []


def test_commits_of_offsets_are_no_events(caplog: pytest.LogCaptureFixture) -> None:
    commit = GroupRecord(OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=1))
    with caplog.at_level(logging.INFO, "ottla.coordinators"):
        log_records([commit], is_due=False)
        assert caplog.messages == []
        log_records([commit._replace(value=None), GroupRecord(GroupMetadataKey(group="g"), None)], is_due=False)
        assert caplog.messages == ["group g: removed"]
        caplog.clear()
        log_records([classic(1, "a")], is_due=False)
    (logged,) = caplog.records
    assert logged.name == "ottla.coordinators"
    assert logged.__dict__["fields"] == {"event": "group_rebalanced", "group": "g", "generation": 1, "members": 1}
