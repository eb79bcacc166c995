"""The shard as a whole: listing, describing, expiry, deleted topics, types of groups, what a restart brings back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.cluster import ImageChanges, TopicImage
from ottla.groups.records import GroupRecord
from ottla.groups.shard import MAX_EXAMINED_COUNT, MAX_TOMBSTONE_COUNT
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from ottla.wire.messages.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.wire.messages.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.share_group_metadata_key import ShareGroupMetadataKey
from ottla.wire.messages.records.share_group_metadata_value import ShareGroupMetadataValue
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.unit.groups.shard_driver import MINUTE_MS, START_TIMESTAMP, Shard, state_of, subscription, topic_id

NONE = ErrorCode.NONE
RETENTION = {"offsets_retention_minutes": "10", "offsets_retention_check_interval_ms": "1000"}


def consumer_heartbeat(
    shard: Shard,
    group: str = "g",
    *,
    member_id: str = "member",
    epoch: int = 0,
    topics: tuple[str, ...] = ("t",),
) -> ConsumerGroupHeartbeatResponse:
    """A consumer of the new protocol joins, stays or leaves."""
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch)
    if epoch == 0:
        request.rebalance_timeout_ms = 30_000
        request.subscribed_topic_names = list(topics)
        request.topic_partitions = []
    response: ConsumerGroupHeartbeatResponse = shard.append(
        shard.machine.consumer_group_heartbeat(request, shard.call(1))
    )
    return response


def listed(shard: Shard, states: list[str] | None = None, types: list[str] | None = None) -> list[ListedGroup]:
    request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
    decision = shard.machine.list_groups(request, shard.call(5))
    assert decision.reply is not None and not decision.records
    return decision.reply.groups


def describe(shard: Shard, *groups: str, version: int = 6) -> list[DescribedGroup]:
    reply = shard.machine.describe_groups(DescribeGroupsRequest(groups=list(groups)), shard.call(version)).reply
    assert reply is not None
    return reply.groups


def three_groups() -> Shard:
    shard = Shard()
    shard.commit("simple")
    shard.join("classic")
    consumer_heartbeat(shard, "modern")
    return shard


# Listing and describing.


def test_groups_are_listed_with_protocol_state_and_type() -> None:
    assert listed(three_groups()) == [
        ListedGroup(group_id="simple", protocol_type="", group_state="Empty", group_type="classic"),
        ListedGroup(group_id="classic", protocol_type="consumer", group_state="Stable", group_type="classic"),
        ListedGroup(group_id="modern", protocol_type="consumer", group_state="Stable", group_type="consumer"),
    ]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["stable"], [], ["classic", "modern"]),
        ([" EMPTY "], [], ["simple"]),
        (["Stable", "Empty"], ["CLASSIC"], ["simple", "classic"]),
        ([], ["consumer"], ["modern"]),
        (["nonsense"], [], []),
        ([], ["nonsense"], []),
        ([], [" classic"], []),
        ([], ["unknown"], []),
        ([""], [], []),
    ],
)
def test_filters_do_not_mind_case_and_an_unknown_one_matches_nothing(
    states: list[str], types: list[str], expected: list[str]
) -> None:
    assert [group.group_id for group in listed(three_groups(), states, types)] == expected


def test_a_group_that_is_not_there_is_dead_and_an_error_where_the_version_knows_one() -> None:
    shard = Shard()
    shard.commit("")

    assert describe(shard, "none", version=5) == [DescribedGroup(group_id="none", group_state="Dead")]
    assert describe(shard, "none", "", "none") == [
        DescribedGroup(
            group_id="none",
            group_state="Dead",
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message="Group none not found.",
        ),
        DescribedGroup(group_id="", group_state="Empty"),
        DescribedGroup(
            group_id="none",
            group_state="Dead",
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message="Group none not found.",
        ),
    ]


def test_each_describe_knows_only_its_type_of_group() -> None:
    shard = three_groups()

    [classic, modern] = describe(shard, "classic", "modern")
    assert (classic.group_state, len(classic.members)) == ("Stable", 1)
    assert (modern.group_state, modern.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert modern.error_message == "Group modern is not a classic group."
    request = ConsumerGroupDescribeRequest(group_ids=["modern", "classic", "none"])
    reply = shard.machine.consumer_group_describe(request, shard.call(1)).reply
    assert reply is not None
    assert [group.error_code for group in reply.groups] == [
        NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]


def test_groups_are_counted_by_type_and_state() -> None:
    shard = three_groups()

    assert shard.machine.group_counts() == {
        ("classic", "Empty"): 1,
        ("classic", "Stable"): 1,
        ("consumer", "Stable"): 1,
    }


def test_committed_offsets_are_there_for_metrics() -> None:
    shard = Shard()
    shard.commit("a", "t", 1, offset=5)
    shard.commit("b", "u", 2, offset=6)

    assert [(*place, value.offset) for *place, value in shard.machine.committed_offsets()] == [
        ("a", "t", 1, 5),
        ("b", "u", 2, 6),
    ]
    assert shard.machine.offset_count == 2


# Expiry.


def test_an_offset_of_a_simple_group_expires_after_its_retention_and_the_group_goes_with_its_last_one() -> None:
    shard = Shard(**RETENTION)
    shard.commit(partition=0)
    shard.pass_ms(MINUTE_MS)
    shard.commit(partition=1)

    assert shard.pass_ms(9 * MINUTE_MS - 1_000) == []
    written = shard.pass_ms(2_000)
    assert [record.key for record in written] == [OffsetCommitKey(group="g", topic="t", partition=0)]
    assert list(shard.fetch_all()) == [("t", 1)]
    written = shard.pass_ms(MINUTE_MS)
    assert [record.key for record in written] == [
        OffsetCommitKey(group="g", topic="t", partition=1),
        GroupMetadataKey(group="g"),
    ]
    assert shard.machine.state.groups == {}
    assert shard.machine.counts["offset-expiration"] == 2
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_an_offset_with_a_retention_of_its_own_expires_by_that() -> None:
    shard = Shard(**RETENTION)
    shard.commit(partition=0, version=4, retention_ms=5 * MINUTE_MS)
    shard.commit(partition=1, version=4, retention_ms=20 * MINUTE_MS)
    shard.commit(partition=2)

    shard.pass_ms(6 * MINUTE_MS)
    assert list(shard.fetch_all()) == [("t", 1), ("t", 2)]
    shard.pass_ms(6 * MINUTE_MS)
    assert list(shard.fetch_all()) == [("t", 1)]
    shard.pass_ms(9 * MINUTE_MS)
    assert shard.fetch_all() == {}


def test_a_retention_that_has_passed_already_expires_at_the_next_check() -> None:
    shard = Shard(**RETENTION)
    shard.commit(version=2, retention_ms=-7)

    shard.pass_ms(1_000)

    assert shard.machine.state.groups == {}


def test_offsets_of_a_group_expire_from_the_moment_when_its_last_member_left() -> None:
    shard = Shard(**RETENTION, group_min_session_timeout_ms="1", group_max_session_timeout_ms="99999999")
    member_id = shard.join()
    assert shard.commit(generation=1, member_id=member_id) == NONE
    for _ in range(60):
        shard.pass_ms(MINUTE_MS // 3)
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        reply = shard.machine.heartbeat(heartbeat, shard.call(3)).reply
        assert reply is not None and reply.error_code == NONE
    assert shard.fetch() == (10, NONE), "20 minutes old, but the topic has a subscription"
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    shard.append(shard.machine.leave_group(leave, shard.call(3)))
    assert shard.machine.state.groups["g"].state == "Empty"

    shard.pass_ms(9 * MINUTE_MS)
    assert shard.fetch() == (10, NONE)
    shard.restart()
    shard.pass_ms(2 * MINUTE_MS)

    assert shard.fetch() == (-1, NONE)
    assert shard.machine.state.groups == {}


def test_members_keep_offsets_of_what_they_read_and_lose_those_of_other_topics() -> None:
    shard = Shard(**RETENTION)
    shard.commit(topic="t")
    shard.commit(topic="u")
    member_id = shard.join(topics=("t",))
    for _ in range(33):
        shard.pass_ms(20_000)
        shard.machine.heartbeat(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), shard.call(3))

    assert list(shard.fetch_all()) == [("t", 0)]
    assert shard.machine.state.groups["g"].state == "Stable"


def test_nothing_expires_in_a_group_whose_members_are_no_consumers() -> None:
    shard = Shard(**RETENTION)
    shard.commit(topic="t")
    member_id = shard.join(protocol_type="connect")
    for _ in range(33):
        shard.pass_ms(20_000)
        shard.machine.heartbeat(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), shard.call(3))

    assert shard.fetch() == (10, NONE)


def test_consumer_groups_lose_only_offsets_of_topics_that_they_do_not_read() -> None:
    shard = Shard(**RETENTION)
    response = consumer_heartbeat(shard, topics=("t",))
    assert response.error_code == NONE
    assert shard.commit(topic="t", generation=response.member_epoch, member_id="member") == NONE
    assert shard.commit(topic="u", generation=response.member_epoch, member_id="member") == NONE
    for _ in range(33):
        shard.pass_ms(20_000)
        assert consumer_heartbeat(shard, epoch=response.member_epoch).error_code == NONE
    assert list(shard.fetch_all()) == [("t", 0)]

    consumer_heartbeat(shard, epoch=-1)
    shard.pass_ms(1_000)

    assert shard.fetch_all() == {}, "an empty consumer group goes by when offsets were committed"
    assert shard.machine.state.groups == {}
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    shard = Shard(**RETENTION)
    shard.commit()
    shard.delete_offsets()

    written = shard.pass_ms(1_000)

    assert [record.key for record in written] == [GroupMetadataKey(group="g")]
    assert shard.machine.state.groups == {}


def test_what_a_transaction_holds_does_not_expire() -> None:
    shard = Shard(**RETENTION)
    shard.commit(partition=0)
    shard.commit(partition=1)
    shard.commit_in_transaction(7, partition=0, offset=20)
    shard.commit_in_transaction(8, group="only pending", partition=0, offset=30)

    shard.pass_ms(11 * MINUTE_MS)

    assert list(shard.fetch_all()) == [("t", 0)]
    assert list(shard.machine.state.groups) == ["g", "only pending"]
    shard.end_transaction(7, is_commit=False)
    shard.end_transaction(8, is_commit=False)
    shard.pass_ms(1_000)
    assert shard.machine.state.groups == {}


def test_a_wall_clock_that_jumps_back_expires_nothing_early() -> None:
    shard = Shard(**RETENTION)
    shard.commit()
    shard.timestamp -= 100 * MINUTE_MS

    shard.pass_ms(50 * MINUTE_MS)

    assert shard.fetch() == (10, NONE)


def test_the_check_goes_on_for_ever_at_the_interval_that_is_set_now() -> None:
    shard = Shard(**RETENTION)
    assert shard.machine.deadline() == shard.now + 1_000
    shard.pass_ms(10_500)

    assert shard.machine.deadline() == shard.now + 500


def test_many_expired_offsets_go_in_batches_that_fit_into_the_log() -> None:
    shard = Shard(**RETENTION)
    for partition in range(2 * MAX_TOMBSTONE_COUNT + 10):
        shard.commit(partition=partition)
    shard.commit("other", partition=0)
    shard.move_to(shard.now + 11 * MINUTE_MS)

    sizes = [len(shard.step()) for _ in range(4)]

    assert sizes == [MAX_TOMBSTONE_COUNT, MAX_TOMBSTONE_COUNT, 10 + 1 + 2, 0]
    assert shard.machine.offset_count == 0
    assert shard.machine.state.groups == {}


def test_the_check_of_many_offsets_lets_requests_have_their_turn() -> None:
    shard = Shard(**RETENTION)
    for group in range(5):
        for partition in range(MAX_EXAMINED_COUNT // 2):
            shard.commit(f"group-{group}", partition=partition)
    shard.move_to(shard.now + 1_000)

    started_at = shard.now
    moments = []
    for _ in range(3):
        assert shard.step() == []
        moments.append(shard.now - started_at)

    assert moments == [0, 1, 2]
    assert shard.machine.deadline() == shard.now + 1_000


def test_as_many_expired_offsets_as_fit_take_their_group_with_them() -> None:
    shard = Shard(**RETENTION)
    for partition in range(MAX_TOMBSTONE_COUNT):
        shard.commit(partition=partition)

    shard.pass_ms(11 * MINUTE_MS)

    assert shard.machine.state.groups == {}


def test_a_group_that_goes_while_others_still_expire_is_passed_over() -> None:
    shard = Shard(**RETENTION)
    for partition in range(MAX_TOMBSTONE_COUNT + 1):
        shard.commit("a", partition=partition)
    shard.commit("b")
    shard.move_to(shard.now + 11 * MINUTE_MS)
    shard.step()

    assert shard.delete_groups("b") == {"b": NONE}
    shard.step()

    assert shard.machine.state.groups == {}


# Deleted topics.


def deleted(shard: Shard, *topics: TopicImage) -> list[GroupRecord]:
    decision = shard.machine.topics_deleted(topics, shard.call(0))
    shard.append(decision)
    return decision.records


def test_offsets_of_a_deleted_topic_go_and_their_groups_stay() -> None:
    shard = Shard()
    shard.commit("a", "t", 0)
    shard.commit("a", "u", 0)
    shard.commit("b", "t", 1)
    shard.commit_in_transaction(7, "c", "t", 2)
    shard.commit_in_transaction(7, "a", "t", 0)

    records = deleted(shard, shard.image.topics_by_name["t"])

    assert [record.key for record in records] == [
        OffsetCommitKey(group="a", topic="t", partition=0),
        OffsetCommitKey(group="b", topic="t", partition=1),
        OffsetCommitKey(group="c", topic="t", partition=2),
    ]
    assert [place[:3] for place in shard.machine.committed_offsets()] == [("a", "u", 0)]
    assert list(shard.machine.state.groups) == ["a", "b", "c"]
    shard.end_transaction(7, is_commit=True)
    assert shard.machine.offset_count == 1


def test_offsets_of_the_topics_next_life_stay() -> None:
    shard = Shard()
    shard.commit(partition=0, id=topic_id("t", 0))
    shard.commit(partition=1, id=topic_id("t", 1))
    shard.commit(partition=2, id=bytes(16))

    deleted(shard, TopicImage("t", topic_id("t", 0)))

    assert list(shard.fetch_all()) == [("t", 1)]


def test_many_offsets_of_deleted_topics_go_in_batches() -> None:
    shard = Shard()
    for partition in range(MAX_TOMBSTONE_COUNT + 5):
        shard.commit(partition=partition)
    shard.commit("other", "u")

    assert len(deleted(shard, *shard.image.topics_by_name.values())) == MAX_TOMBSTONE_COUNT
    assert len(shard.pass_ms(0)) == 6

    assert shard.machine.offset_count == 0
    assert shard.pass_ms(0) == []


def test_deleting_a_topic_without_committed_offsets_writes_no_records() -> None:
    shard = Shard()
    shard.commit(topic="u")

    assert deleted(shard, shard.image.topics_by_name["t"]) == []


# Types of groups.


def test_a_classic_client_becomes_a_member_of_a_consumer_group_that_has_members() -> None:
    shard = Shard()
    consumer_heartbeat(shard, "g")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )

    response: Any = shard.append(shard.machine.join_group(request, shard.call(3)))

    assert response.error_code == NONE
    assert shard.machine.state.groups["g"].type == "consumer"
    sync = SyncGroupRequest(group_id="g", member_id="nobody")
    heartbeat = HeartbeatRequest(group_id="g", member_id="nobody")
    for reply in (
        shard.machine.sync_group(sync, shard.call(3)).reply,
        shard.machine.heartbeat(heartbeat, shard.call(3)).reply,
    ):
        assert reply is not None and reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=response.member_id)])
    left: Any = shard.append(shard.machine.leave_group(leave, shard.call(3)))
    assert [member.error_code for member in left.members] == [NONE]


def test_an_empty_consumer_group_turns_classic_when_a_classic_client_joins_and_keeps_its_offsets() -> None:
    shard = Shard()
    response = consumer_heartbeat(shard, "g")
    shard.commit(generation=response.member_epoch, member_id="member", offset=5)
    consumer_heartbeat(shard, "g", epoch=-1)

    shard.join("g")

    assert shard.machine.state.groups["g"].type == "classic"
    assert shard.fetch() == (5, NONE)
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_a_simple_group_turns_into_a_consumer_group_and_keeps_its_offsets() -> None:
    shard = Shard()
    shard.commit(offset=5)

    assert consumer_heartbeat(shard).error_code == NONE

    assert shard.machine.state.groups["g"].type == "consumer"
    assert shard.fetch() == (5, NONE)
    assert shard.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_a_member_of_a_consumer_group_commits_and_fetches_with_its_epoch() -> None:
    shard = Shard()
    epoch = consumer_heartbeat(shard).member_epoch

    assert shard.commit(generation=epoch, member_id="member", version=9) == NONE
    assert shard.commit(generation=epoch, member_id="member", version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert shard.commit(generation=epoch + 1, member_id="member") == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit_in_transaction(7, generation=epoch + 1, member_id="member") == ErrorCode.ILLEGAL_GENERATION
    assert shard.fetch(member_id="member", epoch=epoch) == (10, NONE)
    assert shard.fetch(member_id="member", epoch=epoch + 1) == (-1, ErrorCode.STALE_MEMBER_EPOCH)
    assert shard.fetch(member_id="nobody", epoch=epoch) == (-1, ErrorCode.UNKNOWN_MEMBER_ID)
    assert shard.fetch() == (10, NONE)
    assert shard.delete_offsets().topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert shard.delete_groups("g") == {"g": ErrorCode.NON_EMPTY_GROUP}


def test_a_deleted_consumer_group_leaves_nothing() -> None:
    shard = Shard()
    response = consumer_heartbeat(shard)
    shard.commit(generation=response.member_epoch, member_id="member")
    consumer_heartbeat(shard, epoch=-1)

    assert shard.delete_groups("g") == {"g": NONE}

    assert shard.machine.state.groups == {}
    assert shard.machine.offset_count == 0
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_changes_of_the_cluster_reach_the_groups() -> None:
    shard = Shard()
    consumer_heartbeat(shard, topics=("later",))
    image = shard.image.copy()
    topic = TopicImage("later", topic_id("later"))
    image.topics_by_name["later"] = image.topics_by_id[topic.id] = topic

    shard.machine.metadata_changed(image, ImageChanges(topics_created={topic.id: topic}), shard.now)

    assert shard.machine.state.image is image


# Life.


def test_waiting_requests_are_refused_when_the_shard_is_unloaded() -> None:
    shard = Shard(group_initial_rebalance_delay_ms="3000")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )
    decision = shard.machine.join_group(request, shard.call(0, "waiter"))
    assert shard.append(decision) is None

    answers = shard.machine.unload(shard.call(0))

    assert [(answer.waiter, answer.response.error_code) for answer in answers] == [
        ("waiter", ErrorCode.NOT_COORDINATOR)
    ]
    assert shard.machine.deadline() is None


def test_a_shard_that_is_not_loaded_yet_expires_nothing() -> None:
    machine = Shard().new_machine()

    assert machine.deadline() is None
    machine.loaded(5, START_TIMESTAMP)
    assert machine.deadline() == 5 + 600_000


def test_records_of_kinds_that_this_shard_does_not_keep_are_passed_over() -> None:
    shard = Shard()

    shard.machine.replay(GroupRecord(ShareGroupMetadataKey(group_id="s"), ShareGroupMetadataValue()))
    shard.machine.replay(GroupRecord(ShareGroupMetadataKey(group_id="s"), None))

    assert shard.machine.state.groups == {}


def test_offsets_of_a_very_old_kafka_are_read() -> None:
    shard = Shard()
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=1)
    shard.machine.replay(GroupRecord(key, LegacyOffsetCommitValue(offset=4, metadata="m", commit_timestamp=9)))
    assert shard.fetch(partition=1) == (4, NONE)

    shard.machine.replay(GroupRecord(key, None))

    assert shard.machine.offset_count == 0


def test_tombstones_of_what_is_not_there_are_passed_over() -> None:
    shard = Shard()
    for key in (
        OffsetCommitKey(group="g", topic="t"),
        GroupMetadataKey(group="g"),
        ConsumerGroupMetadataKey(group_id="g"),
    ):
        shard.machine.replay(GroupRecord(key, None))

    assert shard.machine.state.groups == {}


# What was decided and what is replayed.


def random_step(shard: Shard, rng: Random) -> None:
    group, topic = rng.choice(("a", "b", "c")), rng.choice(("t", "u"))
    partition, producer_id = rng.randrange(3), rng.randrange(3)
    match rng.randrange(13):
        case 0 | 1 | 2:
            retention_ms = rng.choice((-1, -1, 3 * MINUTE_MS))
            metadata = rng.choice(("", "note", None))
            version = 2 if retention_ms != -1 else 9
            shard.commit(
                group,
                topic,
                partition,
                rng.randrange(100),
                version=version,
                retention_ms=retention_ms,
                metadata=metadata,
            )
        case 3 | 4:
            shard.commit_in_transaction(producer_id, group, topic, partition, rng.randrange(100))
        case 5:
            shard.end_transaction(producer_id, is_commit=rng.random() < 0.6)
        case 6:
            shard.delete_offsets(group, topic, partition)
        case 7:
            shard.delete_groups(group)
        case 8:
            shard.pass_ms(rng.randrange(3 * MINUTE_MS))
        case 9:
            deleted(shard, shard.image.topics_by_name[topic])
        case 10:
            if group not in shard.machine.state.groups or shard.machine.state.groups[group].is_empty:
                shard.join(group, topics=(topic,))
        case 11:
            consumer_heartbeat(shard, group, member_id=f"member-{partition}", topics=(topic,))
        case _:
            consumer_heartbeat(shard, group, member_id=f"member-{partition}", epoch=-1)


@pytest.mark.parametrize("seed", range(15))
def test_replay_of_what_was_decided_gives_the_same_state(seed: int) -> None:
    rng = Random(seed)
    shard = Shard(**RETENTION)
    for _ in range(120):
        random_step(shard, rng)
        if rng.random() < 0.2:
            assert state_of(shard.restarted()) == state_of(shard.machine)
        if rng.random() < 0.02:
            shard.restart()
    assert state_of(shard.restarted()) == state_of(shard.machine)


@pytest.mark.parametrize("seed", range(10))
def test_a_compacted_log_gives_the_same_offsets_and_groups(seed: int) -> None:
    """Compaction keeps the last record of each key; those of transactions that ended long ago count as plain ones."""
    rng = Random(seed)
    shard = Shard(**RETENTION)
    for _ in range(150):
        random_step(shard, rng)
    for producer_id in range(3):
        shard.end_transaction(producer_id, is_commit=True)
    expected = state_of(shard.machine)
    last = {entry[0]: index for index, entry in enumerate(shard.log) if len(entry) == 3}
    aborted = _aborted(shard.log)
    last_committed = {
        entry[0]: index for index, entry in enumerate(shard.log) if len(entry) == 3 and index not in aborted
    }
    assert last.keys() >= last_committed.keys()

    shard.log = [
        (entry[0], entry[1], -1)
        for index, entry in enumerate(shard.log)
        if len(entry) == 3 and last_committed.get(entry[0]) == index
    ]

    compacted = state_of(shard.restarted())
    assert compacted[0] == expected[0]
    assert compacted[3] == expected[3]


def _aborted(log: list[Any]) -> set[int]:
    """The indexes of records that belong to aborted transactions."""
    open_records: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for index, entry in enumerate(log):
        if len(entry) == 2:
            records = open_records.pop(entry[0], [])
            if not entry[1]:
                aborted.update(records)
        elif entry[2] >= 0:
            open_records.setdefault(entry[2], []).append(index)
    return aborted


# Hostile input.


@pytest.mark.parametrize("seed", range(20))
def test_any_request_is_answered(seed: int) -> None:
    rng = Random(seed)
    shard = Shard()
    numbers = (0, 1, -1, 2**31 - 1, -(2**31))
    texts = ("", "g", "t", "x" * 32_767, "😀", "\x00", "é" * 16_000)
    for _ in range(60):
        group, topic, member_id = (rng.choice(texts) for _ in range(3))
        index, generation = rng.choice(numbers), rng.choice(numbers)
        long = rng.choice((*numbers, 2**63 - 1, -(2**63)))
        match rng.randrange(8):
            case 0:
                shard.commit(
                    group,
                    topic,
                    index,
                    long,
                    version=rng.randrange(2, 11),
                    generation=generation,
                    member_id=member_id,
                    retention_ms=long,
                    metadata=rng.choice((*texts, None)),
                    leader_epoch=index,
                )
            case 1:
                shard.commit_in_transaction(
                    long, group, topic, index, long, generation=generation, member_id=member_id
                ) if long >= 0 else None
            case 2:
                shard.fetch(group, topic, index, member_id=member_id, epoch=generation, is_stable=True)
            case 3:
                shard.delete_offsets(group, topic, index, index)
            case 4:
                shard.delete_groups(group, group, topic)
            case 5:
                describe(shard, group, version=rng.randrange(7))
            case 6:
                listed(shard, [member_id], [topic])
            case _:
                shard.end_transaction(rng.choice((0, 1, 2**31 - 1)), is_commit=True)
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_a_consumer_heartbeat_from_nowhere_is_answered() -> None:
    shard = Shard()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=5,
        topic_partitions=[ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=b"?" * 16, partitions=[-1])],
    )

    reply = shard.machine.consumer_group_heartbeat(request, shard.call(1)).reply

    assert reply is not None and reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
