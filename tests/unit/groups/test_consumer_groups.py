"""ConsumerGroupHeartbeat: joining, staying, leaving, and every way to be refused."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups.consumer_member import STABLE, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from tests.unit.groups.consumer_driver import GROUP, Consumer, Coordinator, settle

JOINED = [
    "MemberMetadata",
    "Metadata",
    "TargetAssignmentMember",
    "TargetAssignmentMetadata",
    "CurrentMemberAssignment",
]
LEFT = ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata"]


def code(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


def test_the_first_member_gets_all_partitions_at_once() -> None:
    coordinator = Coordinator(topics={"t": 3})
    response = coordinator.heartbeat("a", 0, topics=["t"])
    assert code(response) is ErrorCode.NONE
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a", 2, 5000)
    assert response.assignment is not None
    (topic,) = response.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (coordinator.topic_id("t"), [0, 1, 2])
    assert coordinator.kinds == JOINED
    assert coordinator.group.state == "Stable"


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_says_nothing() -> None:
    coordinator = Coordinator(topics={"t": 3})
    coordinator.heartbeat("a", 0, topics=["t"])
    response = coordinator.heartbeat("a", 2)
    assert coordinator.last == []
    assert (response.member_epoch, response.assignment) == (2, None)


def test_a_heartbeat_with_everything_in_it_is_answered_with_the_assignment() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    owned = {coordinator.topic_id("t"): [0]}
    response = coordinator.heartbeat("a", 2, topics=["t"], rebalance_ms=60_000, owned=owned)
    assert response.assignment is not None
    assert coordinator.last == []


def test_a_second_member_waits_until_the_first_has_given_up_its_share() -> None:
    coordinator = Coordinator(topics={"t": 4})
    topic_id = coordinator.topic_id("t")
    coordinator.heartbeat("a", 0, topics=["t"])
    second = coordinator.heartbeat("b", 0, topics=["t"])
    assert second.member_epoch == 3
    assert second.assignment is not None and second.assignment.topic_partitions == []
    assert coordinator.member("b").state == UNRELEASED_PARTITIONS
    assert coordinator.group.state == "Reconciling"

    told = coordinator.heartbeat("a", 2)
    assert told.member_epoch == 2, "it stays in its epoch until it has revoked"
    assert told.assignment is not None and told.assignment.topic_partitions[0].partitions == [0, 1]
    assert coordinator.member("a").state == UNREVOKED_PARTITIONS
    coordinator.heartbeat("b", 3)
    assert coordinator.member("b").assigned == {}, "partitions that are still to be revoked are not free"

    revoked = coordinator.heartbeat("a", 2, owned={topic_id: [0, 1]})
    assert revoked.member_epoch == 3
    assert coordinator.member("a").state == STABLE
    got = coordinator.heartbeat("b", 3)
    assert got.assignment is not None and got.assignment.topic_partitions[0].partitions == [2, 3]
    assert coordinator.group.state == "Stable"


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    coordinator = Coordinator(topics={"t": 4})
    members = [Consumer(coordinator, id, ["t"]) for id in "ab"]
    settle(members)
    members[0].leave()
    assert coordinator.kinds == LEFT
    assert coordinator.group.state == "Assigning"
    response = coordinator.heartbeat("b", members[1].epoch)
    assert response.assignment is not None
    assert response.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    coordinator = Coordinator(topics={"t": 1})
    member = Consumer(coordinator, "a", ["t"])
    member.beat()
    member.leave()
    assert coordinator.group.state == "Empty"
    assert coordinator.group.is_empty
    assert coordinator.group.metadata_hash == 0
    member.beat()
    assert member.partitions == {(coordinator.topic_id("t"), 0)}


def test_a_members_answer_to_leaving_repeats_what_it_said() -> None:
    coordinator = Coordinator()
    coordinator.heartbeat("a", 0)
    response = coordinator.heartbeat("a", -1)
    assert (code(response), response.member_id, response.member_epoch) == (ErrorCode.NONE, "a", -1)


def test_a_member_may_be_subscribed_to_nothing() -> None:
    coordinator = Coordinator(topics={"t": 1})
    response = coordinator.heartbeat("a", 0, topics=[])
    assert (code(response), response.member_epoch) == (ErrorCode.NONE, 1)
    assert coordinator.kinds == ["MemberMetadata", "CurrentMemberAssignment"]
    assert coordinator.group.state == "Stable"


def test_version_0_gets_an_id_from_the_coordinator() -> None:
    coordinator = Coordinator(topics={"t": 1})
    response = coordinator.heartbeat("", 0, topics=["t"], version=0)
    assert response.member_id is not None and len(response.member_id) == 22
    assert response.member_id in coordinator.group.members


def test_a_join_that_is_sent_twice_is_one() -> None:
    coordinator = Coordinator(topics={"t": 2})
    coordinator.heartbeat("a", 0, topics=["t"])
    again = coordinator.heartbeat("a", 0, topics=["t"])
    assert (code(again), again.member_epoch) == (ErrorCode.NONE, 2)
    assert again.assignment is not None and again.assignment.topic_partitions[0].partitions == [0, 1]
    assert coordinator.last == []


def test_a_new_subscription_takes_partitions_away_and_gives_others() -> None:
    coordinator = Coordinator(topics={"t": 2, "u": 2})
    member = Consumer(coordinator, "a", ["t"])
    member.beat()
    told = coordinator.heartbeat("a", 2, topics=["u"])
    assert told.member_epoch == 2
    assert coordinator.member("a").state == UNREVOKED_PARTITIONS
    response = coordinator.heartbeat("a", 2, owned={})
    assert response.member_epoch == 3
    assert response.assignment is not None
    assert [topic.topic_id for topic in response.assignment.topic_partitions] == [coordinator.topic_id("u")]


def test_a_topic_that_does_not_exist_yet_is_assigned_when_it_does() -> None:
    coordinator = Coordinator()
    member = Consumer(coordinator, "a", ["later"])
    member.beat()
    assert member.partitions == set()
    topic_id = coordinator.create_topic("later", 2)
    settle([member])
    assert member.partitions == {(topic_id, 0), (topic_id, 1)}
    assert coordinator.group.epoch == 3


def test_new_partitions_are_assigned() -> None:
    coordinator = Coordinator(topics={"t": 1})
    member = Consumer(coordinator, "a", ["t"])
    member.beat()
    coordinator.add_partitions("t", 3)
    settle([member])
    assert len(member.partitions) == 3


def test_a_deleted_topic_is_taken_away_and_a_new_one_of_its_name_assigned() -> None:
    coordinator = Coordinator(topics={"t": 2})
    member = Consumer(coordinator, "a", ["t"])
    member.beat()
    coordinator.delete_topic("t")
    settle([member])
    assert member.partitions == set()
    topic_id = coordinator.create_topic("t", 1)
    settle([member])
    assert member.partitions == {(topic_id, 0)}


def test_a_new_leader_of_a_partition_is_no_reason_for_a_new_epoch() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    coordinator.change_leader("t")
    coordinator.heartbeat("a", 2)
    assert coordinator.last == []


def test_a_topic_that_the_group_does_not_read_is_none_of_its_business() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    coordinator.create_topic("other", 1)
    coordinator.heartbeat("a", 2)
    assert coordinator.last == []


def test_most_members_decide_which_assignor_is_used() -> None:
    coordinator = Coordinator(topics={"t": 4, "u": 4})
    for id in "abc":
        coordinator.heartbeat(id, 0, topics=["t", "u"], assignor="uniform" if id == "a" else "range")
    assert coordinator.group.server_assignor() == "range"
    (described,) = coordinator.consumer.describe([GROUP])
    assert described.assignor_name == "range"
    assert coordinator.group.targets["a"] == {
        coordinator.topic_id("t"): (0, 1),
        coordinator.topic_id("u"): (0, 1),
    }


def test_the_first_assignor_of_the_settings_is_the_default() -> None:
    coordinator = Coordinator(topics={"t": 1}, group_consumer_assignors="range,uniform")
    coordinator.heartbeat("a", 0, topics=["t"])
    assert coordinator.consumer.describe([GROUP])[0].assignor_name == "range"


def test_a_groups_own_settings_count() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.group_settings = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "50000"}
    response = coordinator.heartbeat("a", 0, topics=["t"])
    assert response.heartbeat_interval_ms == 7000
    coordinator.advance(49_999)
    assert "a" in coordinator.group.members
    coordinator.advance(1)
    assert "a" not in coordinator.group.members


def test_members_that_join_together_are_assigned_in_bulk() -> None:
    coordinator = Coordinator(topics={"t": 4}, group_consumer_assignment_interval_ms=1000)
    members = [Consumer(coordinator, id, ["t"]) for id in "abcd"]
    for member in members:
        member.beat()
    assert coordinator.group.assignment_epoch == 2, "the first one was assigned at once"
    assert coordinator.group.epoch == 5
    assert coordinator.group.state == "Assigning"
    coordinator.advance(999)
    members[0].beat()
    assert coordinator.group.assignment_epoch == 2
    coordinator.advance(1)
    members[3].beat()
    assert coordinator.group.assignment_epoch == 5, "the first heartbeat after the interval assigns for all"
    settle(members)
    assert sorted(len(member.partitions) for member in members) == [1, 1, 1, 1]


def test_a_clock_that_is_set_back_does_not_hold_an_assignment_up() -> None:
    coordinator = Coordinator(topics={"t": 2}, group_consumer_assignment_interval_ms=1000)
    coordinator.heartbeat("a", 0, topics=["t"])
    coordinator.timestamp -= 3_600_000
    coordinator.heartbeat("b", 0, topics=["t"])
    assert coordinator.group.assignment_epoch == 3


# deadlines


def test_a_member_that_is_not_heard_of_is_fenced_when_its_session_is_over() -> None:
    coordinator = Coordinator(topics={"t": 2})
    members = [Consumer(coordinator, id, ["t"]) for id in "ab"]
    settle(members)
    for _ in range(9):
        coordinator.advance(5000)
        members[1].beat()
    assert list(coordinator.group.members) == ["b"]
    settle(members[1:])
    assert len(members[1].partitions) == 2
    assert members[0].beat() is ErrorCode.UNKNOWN_MEMBER_ID
    settle(members)
    assert len(members[0].partitions) == 1


def test_a_member_that_does_not_revoke_in_time_is_fenced() -> None:
    coordinator = Coordinator(topics={"t": 2})
    coordinator.heartbeat("a", 0, topics=["t"], rebalance_ms=10_000)
    coordinator.heartbeat("b", 0, topics=["t"])
    for _ in range(2):
        coordinator.heartbeat("a", 2)
        coordinator.advance(5000)
    assert list(coordinator.group.members) == ["b"]
    response = coordinator.heartbeat("b", 3)
    assert response.assignment is not None and response.assignment.topic_partitions[0].partitions == [0, 1]


def test_a_member_that_revoked_in_time_is_not_fenced() -> None:
    coordinator = Coordinator(topics={"t": 2})
    coordinator.heartbeat("a", 0, topics=["t"], rebalance_ms=10_000)
    coordinator.heartbeat("b", 0, topics=["t"])
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned={coordinator.topic_id("t"): [0]})
    coordinator.advance(20_000)
    assert list(coordinator.group.members) == ["a", "b"]


# refusals


def request(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    values: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": [],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**(values | fields))


@pytest.mark.parametrize(
    ("fields", "version", "message"),
    [
        ({"member_id": ""}, 1, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 1}, 0, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, 0, "MemberId can't be empty."),
        ({"group_id": ""}, 1, "GroupId can't be empty."),
        ({"instance_id": ""}, 1, "InstanceId can't be empty."),
        ({"rack_id": ""}, 1, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, 1, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, 1, "TopicPartitions must be empty when (re-)joining."),
        ({"subscribed_topic_names": None}, 1, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"member_epoch": -2}, 1, "InstanceId can't be null."),
        ({"member_epoch": -3}, 1, "MemberEpoch is invalid."),
        ({"member_id": "x" * 32768}, 1, "MemberId is longer than 32767 bytes."),
        ({"group_id": "ä" * 32767}, 1, "GroupId is longer than 32767 bytes."),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, object], version: int, message: str) -> None:
    coordinator = Coordinator()
    response = coordinator.send(coordinator.consumer.heartbeat, request(**fields), version)
    assert code(response) is ErrorCode.INVALID_REQUEST
    assert response.error_message.startswith(message)
    assert not coordinator.state.groups


def test_an_assignor_that_the_coordinator_does_not_have_is_refused() -> None:
    response = Coordinator().heartbeat("a", 0, assignor="mine")
    assert code(response) is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert response.error_message == "ServerAssignor mine is not supported. Supported assignors: uniform, range."


@pytest.mark.parametrize("epoch", [1, -1])
def test_a_group_that_is_not_there_is_not_found(epoch: int) -> None:
    assert code(Coordinator().heartbeat("a", epoch)) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [1, -1])
def test_a_member_that_is_not_there_is_unknown(epoch: int) -> None:
    coordinator = Coordinator()
    coordinator.heartbeat("a", 0)
    assert code(coordinator.heartbeat("b", epoch)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_epoch_that_was_never_given_is_fenced() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    assert code(coordinator.heartbeat("a", 3)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(coordinator.heartbeat("a", 1)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_taken_from_a_member_that_owns_no_more_than_it_should() -> None:
    coordinator = Coordinator(topics={"t": 4})
    topic_id = coordinator.topic_id("t")
    settle([Consumer(coordinator, "a", ["t"])])
    coordinator.heartbeat("b", 0, topics=["t"])
    coordinator.heartbeat("a", 2)
    coordinator.heartbeat("a", 2, owned={topic_id: [0, 1]})
    assert coordinator.member("a").epoch == 3
    # the answer was lost: it says the same again
    again = coordinator.heartbeat("a", 2, owned={topic_id: [0]})
    assert (code(again), again.member_epoch) == (ErrorCode.NONE, 3)
    assert code(coordinator.heartbeat("a", 2, owned={topic_id: [2]})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(coordinator.heartbeat("a", 2, owned={b"x" * 16: [0]})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(coordinator.heartbeat("a", 2)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_full_group_refuses_new_members() -> None:
    coordinator = Coordinator(group_consumer_max_size=1)
    coordinator.heartbeat("a", 0)
    assert code(coordinator.heartbeat("b", 0)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code(coordinator.heartbeat("a", 0)) is ErrorCode.NONE


def test_a_write_that_fails_changes_nothing_and_is_made_up_for() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    coordinator.add_partitions("t", 2)
    coordinator.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code(coordinator.heartbeat("a", 2)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.group.epoch == 2
    coordinator.heartbeat("a", 2)
    assert coordinator.group.epoch == 3, "the topics are looked at again"


def test_a_member_whose_leaving_cannot_be_written_stays_and_its_session_runs_on() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    coordinator.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code(coordinator.heartbeat("a", -1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.advance(44_999)
    assert "a" in coordinator.group.members
    coordinator.advance(1)
    assert coordinator.group.is_empty


# describing


def test_a_described_group_shows_what_members_have_and_are_to_have() -> None:
    coordinator = Coordinator(topics={"t": 2})
    coordinator.heartbeat("a", 0, topics=["t"], rack="r", client_id="first")
    coordinator.heartbeat("b", 0, topics=["t"])
    coordinator.heartbeat("a", 2, client_id="first")
    (group,) = coordinator.consumer.describe([GROUP])
    assert (group.group_id, group.group_state, group.error_code) == (GROUP, "Reconciling", 0)
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    first, second = group.members
    assert (first.member_id, first.rack_id, first.client_id, first.client_host) == ("a", "r", "first", "/127.0.0.1")
    assert (first.member_epoch, first.member_type, first.subscribed_topic_names) == (2, 1, ["t"])
    assert first.assignment.topic_partitions[0].partitions == [0, 1], "what it has to give up it may still have"
    assert first.target_assignment.topic_partitions[0].partitions == [0]
    assert first.target_assignment.topic_partitions[0].topic_name == "t"
    assert second.assignment.topic_partitions == []


def test_a_group_of_another_type_or_none_is_described_as_not_found() -> None:
    coordinator = Coordinator()
    coordinator.classic.create_group("classic")
    missing, classic = coordinator.consumer.describe(["nothing", "classic"])
    assert missing.error_code == classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert missing.group_state == classic.group_state == ""
    assert classic.error_message == "Group classic is not a consumer group."


def test_the_group_epoch_is_written_with_the_hash_of_its_topics() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    value = coordinator.last[1].value
    assert isinstance(value, ConsumerGroupMetadataValue)
    assert (value.epoch, value.metadata_hash) == (2, coordinator.group.metadata_hash)
    assert value.metadata_hash != 0
