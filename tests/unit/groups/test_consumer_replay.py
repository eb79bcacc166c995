"""Records of consumer groups: what they add up to after a restart, whatever compaction left of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.groups import GroupRecord
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_member import STABLE, UNKNOWN_STATE, ConsumerMember
from ottla.groups.consumer_records import group_tombstones, member_tombstones
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.wire.messages.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.wire.messages.records.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from tests.unit.groups.consumer_driver import GROUP, Consumer, Coordinator, settle

A = b"a" * 16


def current(member_id: str, epoch: int, partitions: list[int], **fields: Any) -> tuple[Message, Message]:
    topics = [TopicPartitions(topic_id=A, partitions=partitions, **fields)] if partitions else []
    return (
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch, previous_member_epoch=epoch - 1, state=0, assigned_partitions=topics
        ),
    )


def test_a_restarted_coordinator_knows_what_it_knew() -> None:
    coordinator = Coordinator(topics={"t": 6, "u": 2})
    members = [
        Consumer(coordinator, "a", ["t"], assignor="range"),
        Consumer(coordinator, "b", ["t", "u"], instance="i"),
        Consumer(coordinator, "c", regex="u"),
    ]
    settle(members)
    before = coordinator.group
    coordinator.restart()
    after = coordinator.group
    assert after is not before
    for name in ("epoch", "metadata_hash", "assignment_epoch", "assignment_timestamp", "members", "targets"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.partition_epochs == before.partition_epochs
    assert after.static_members == before.static_members
    assert after.subscriptions.resolved == before.subscriptions.resolved
    assert after.subscriptions.names == before.subscriptions.names
    settle(members)
    assert coordinator.group.epoch == before.epoch, "no assignment changes"


def test_only_the_last_record_of_each_key_is_needed() -> None:
    coordinator = Coordinator(topics={"t": 6})
    members = [Consumer(coordinator, id, ["t"]) for id in "abc"]
    settle(members)
    members[1].leave()
    settle([members[0], members[2]])
    before = coordinator.group.members
    latest = dict(coordinator.written)
    order = {key: index for index, (key, _) in enumerate(coordinator.written)}
    coordinator.written = [(key, latest[key]) for key in sorted(latest, key=lambda key: order[key])]
    coordinator.restart()
    assert coordinator.group.members == before
    coordinator.written = [(key, value) for key, value in coordinator.written if value is not None]
    coordinator.restart()
    assert coordinator.group.members == before


def test_sessions_begin_anew_after_a_restart() -> None:
    coordinator = Coordinator(topics={"t": 2})
    member = Consumer(coordinator, "a", ["t"])
    settle([member])
    coordinator.now += 40_000
    coordinator.restart()
    coordinator.advance(44_000)
    assert "a" in coordinator.group.members
    coordinator.advance(1000)
    assert coordinator.group.state == "Empty"


def test_a_member_that_had_to_revoke_still_has_to_after_a_restart() -> None:
    coordinator = Coordinator(topics={"t": 2})
    coordinator.heartbeat("a", 0, topics=["t"], rebalance_ms=10_000)
    coordinator.heartbeat("b", 0, topics=["t"])
    coordinator.heartbeat("a", 2)
    coordinator.restart()
    coordinator.advance(9_999)
    assert "a" in coordinator.group.members
    coordinator.advance(1)
    assert "a" not in coordinator.group.members


def test_a_deleted_group_is_gone() -> None:
    coordinator = Coordinator(topics={"t": 1})
    member = Consumer(coordinator, "a", ["t"])
    member.beat()
    with pytest.raises(KafkaError) as caught:
        coordinator.group.check_delete()
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    member.leave()
    coordinator.group.check_delete()
    for record in coordinator.group.tombstones():
        coordinator.consumer.replay(record.key, record.value)
    assert GROUP not in coordinator.state.groups


def test_tombstones_of_what_is_not_there_are_passed_over() -> None:
    coordinator = Coordinator()
    for record in (*group_tombstones(GROUP, ["a"], ["x"]), *member_tombstones(GROUP, "b")):
        coordinator.consumer.replay(record.key, record.value)
    assert not coordinator.state.groups
    coordinator.heartbeat("a", 0)
    for record in member_tombstones(GROUP, "b"):
        coordinator.consumer.replay(record.key, record.value)
    assert list(coordinator.group.members) == ["a"]


def test_a_group_with_all_its_members_can_be_taken_away_by_its_tombstones() -> None:
    coordinator = Coordinator(topics={"t": 3})
    settle([Consumer(coordinator, "a", ["t"]), Consumer(coordinator, "b", regex="t")])
    for record in coordinator.group.tombstones():
        coordinator.consumer.replay(record.key, record.value)
    assert not coordinator.state.groups


def test_what_kafka_4_0_wrote_of_partitions_is_taken_away_with_the_next_change() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    value = ConsumerGroupPartitionMetadataValue(topics=[TopicMetadata(topic_id=A, topic_name="t", num_partitions=1)])
    coordinator.consumer.replay(key, value)
    assert coordinator.group.has_partition_metadata
    coordinator.heartbeat("b", 0, topics=["t"])
    assert "-PartitionMetadata" in coordinator.kinds
    assert not coordinator.group.has_partition_metadata


def test_records_without_epochs_of_partitions_mean_the_members_epoch() -> None:
    coordinator = Coordinator()
    coordinator.consumer.replay(*current("a", 5, [0, 1], assignment_epochs=None))
    coordinator.consumer.replay(*current("b", 6, [2, 3], assignment_epochs=[4]))
    coordinator.consumer.replay(*current("c", 7, [4, 5], assignment_epochs=[6, 7]))
    assert coordinator.member("a").assigned == {A: {0: 5, 1: 5}}
    assert coordinator.member("b").assigned == {A: {2: 6, 3: 6}}
    assert coordinator.member("c").assigned == {A: {4: 6, 5: 7}}


def test_a_state_that_is_not_known_is_kept_as_such() -> None:
    coordinator = Coordinator()
    key, value = current("a", 5, [])
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    value.state = 9
    coordinator.consumer.replay(key, value)
    assert coordinator.member("a").state == UNKNOWN_STATE


def test_a_partition_may_change_its_owner_in_records_only_to_a_later_epoch() -> None:
    coordinator = Coordinator()
    coordinator.consumer.replay(*current("a", 5, [0]))
    coordinator.consumer.replay(*current("b", 6, [0]))
    assert coordinator.group.partition_epoch(A, 0) == 6
    coordinator.consumer.replay(*current("a", 6, []))
    assert coordinator.group.partition_epoch(A, 0) == 6, "it is no longer a's to give up"
    with pytest.raises(AssertionError, match="I1"):
        coordinator.consumer.replay(*current("c", 6, [0]))


def test_offsets_that_were_there_first_do_not_stand_in_the_way() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    written = coordinator.written
    fresh = Coordinator()
    fresh.classic.create_group(GROUP)
    fresh.written = written
    from ottla.groups import decode_record

    for key, value in written:
        record = decode_record(key, value)
        assert isinstance(record, GroupRecord)
        fresh.consumer.replay(record.key, record.value)
    assert isinstance(fresh.state.groups[GROUP], ConsumerGroup)


# what the group is asked about offsets


def commit(group: ConsumerGroup, member_id: str, epoch: int, **fields: object) -> object:
    options: dict[str, object] = {"is_transactional": False, "api_version": 9} | fields
    return group.check_offset_commit(member_id, None, epoch, **options)  # type: ignore[arg-type]


def test_an_empty_group_takes_commits_without_a_member() -> None:
    assert commit(ConsumerGroup(GROUP), "", -1) is None


def test_a_member_commits_in_its_epoch() -> None:
    group = ConsumerGroup(GROUP)
    group.update_member(ConsumerMember("a", epoch=4, assigned={A: {0: 3, 1: 4}}, pending_revocation={A: {2: 2}}))
    assert commit(group, "a", 4) is None
    with pytest.raises(KafkaError) as caught:
        commit(group, "b", 4)
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError) as caught:
        commit(group, "a", 5)
    assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(KafkaError) as caught:
        commit(group, "", -1)
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_of_an_earlier_epoch_counts_for_partitions_that_it_has_had_since() -> None:
    group = ConsumerGroup(GROUP)
    group.update_member(ConsumerMember("a", epoch=4, assigned={A: {0: 3, 1: 4}}, pending_revocation={A: {2: 2}}))
    check = commit(group, "a", 3)
    assert callable(check)
    check("t", A, 0)
    check("t", A, 2)
    for partition in (1, 3):
        with pytest.raises(KafkaError) as caught:
            check("t", A, partition)
        assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH


def test_versions_that_do_not_know_epochs_are_refused_unless_the_member_is_classic() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    with pytest.raises(KafkaError) as caught:
        commit(coordinator.group, "a", 2, api_version=8)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert commit(coordinator.group, "a", 2, api_version=0, is_transactional=True) is None
    assert commit(coordinator.group, "", -1, is_transactional=True) is None


def test_an_offset_fetch_names_a_member_in_its_epoch_or_no_member() -> None:
    group = ConsumerGroup(GROUP)
    group.update_member(ConsumerMember("a", epoch=4, state=STABLE))
    group.check_offset_fetch(None, -1)
    group.check_offset_fetch("a", 4)
    for member_id, epoch, code in (("a", 3, ErrorCode.STALE_MEMBER_EPOCH), ("b", 4, ErrorCode.UNKNOWN_MEMBER_ID)):
        with pytest.raises(KafkaError) as caught:
            group.check_offset_fetch(member_id, epoch)
        assert caught.value.code is code


def test_offsets_of_subscribed_topics_are_kept() -> None:
    coordinator = Coordinator(topics={"t": 1, "u": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    assert coordinator.group.is_subscribed_to("t")
    assert not coordinator.group.is_subscribed_to("u")
    assert coordinator.group.expiry_base(77) == 77
    coordinator.group.check_offset_delete()


def test_describe_groups_does_not_know_it() -> None:
    with pytest.raises(KafkaError) as caught:
        ConsumerGroup(GROUP).describe()
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("seed", range(5))
def test_random_prefixes_of_the_log_can_always_be_replayed(seed: int) -> None:
    rng = Random(seed)
    coordinator = Coordinator(topics={"t": 5, "u": 3})
    members = [Consumer(coordinator, id, ["t", "u"]) for id in "abcd"]
    for _ in range(60):
        member = rng.choice(members)
        if member.epoch and rng.random() < 0.1:
            member.leave()
        else:
            member.beat()
    whole = coordinator.written
    for length in range(0, len(whole), 7):
        coordinator.written = whole[:length]
        coordinator.restart()
