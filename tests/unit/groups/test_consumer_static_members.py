"""Static members of consumer groups: an instance id outlives the process, and the partitions wait for the next one."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode
from tests.unit.groups.consumer_driver import Consumer, Coordinator, settle


def code(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions() -> None:
    coordinator = Coordinator(topics={"t": 2})
    members = [Consumer(coordinator, id, ["t"], instance=f"i-{id}") for id in "ab"]
    settle(members)
    response = coordinator.heartbeat("a", -2, instance="i-a")
    assert (code(response), response.member_epoch) == (ErrorCode.NONE, -2)
    assert coordinator.kinds == ["CurrentMemberAssignment"]
    members[1].beat()
    assert len(members[1].partitions) == 1
    assert coordinator.group.epoch == 3, "no assignment changes"


def test_its_successor_gets_the_same_partitions_without_a_new_epoch() -> None:
    coordinator = Coordinator(topics={"t": 4})
    members = [Consumer(coordinator, id, ["t"], instance=f"i-{id}") for id in "ab"]
    settle(members)
    before = members[0].partitions
    coordinator.heartbeat("a", -2, instance="i-a")
    successor = Consumer(coordinator, "a2", ["t"], instance="i-a")
    assert successor.beat() is ErrorCode.NONE
    assert successor.partitions == before
    assert coordinator.group.epoch == 3
    assert coordinator.kinds == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "MemberMetadata",
        "TargetAssignmentMember",
        "CurrentMemberAssignment",
        "CurrentMemberAssignment",
    ]
    assert list(coordinator.group.members) == ["b", "a2"]
    assert coordinator.group.static_members["i-a"] == "a2"
    assert coordinator.group.state == "Stable"


def test_the_same_process_may_come_back_under_its_old_id() -> None:
    coordinator = Coordinator(topics={"t": 2})
    member = Consumer(coordinator, "a", ["t"], instance="i")
    member.beat()
    coordinator.heartbeat("a", -2, instance="i")
    member.lose_all()
    assert member.beat() is ErrorCode.NONE
    assert len(member.partitions) == 2
    coordinator.advance(44_000)
    assert "a" in coordinator.group.members


def test_an_instance_id_in_use_is_not_released() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"], instance="i")
    assert code(coordinator.heartbeat("b", 0, topics=["t"], instance="i")) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_replaced_static_member_is_fenced() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"], instance="i")
    coordinator.heartbeat("a", -2, instance="i")
    coordinator.heartbeat("b", 0, topics=["t"], instance="i")
    assert code(coordinator.heartbeat("a", 2, instance="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert code(coordinator.heartbeat("a", -1, instance="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert code(coordinator.heartbeat("a", -2, instance="i")) is ErrorCode.FENCED_INSTANCE_ID


def test_an_unused_instance_id_is_unknown() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"])
    for epoch in (2, -1, -2):
        assert code(coordinator.heartbeat("a", epoch, instance="i")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_in_time_is_fenced() -> None:
    coordinator = Coordinator(topics={"t": 2})
    members = [Consumer(coordinator, id, ["t"], instance=f"i-{id}") for id in "ab"]
    settle(members)
    coordinator.heartbeat("a", -2, instance="i-a")
    for _ in range(9):
        coordinator.advance(5000)
        members[1].beat()
    settle(members[1:])
    assert list(coordinator.group.members) == ["b"]
    assert len(members[1].partitions) == 2


def test_a_successor_with_another_subscription_makes_a_new_epoch() -> None:
    coordinator = Coordinator(topics={"t": 1, "u": 1})
    coordinator.heartbeat("a", 0, topics=["t"], instance="i")
    coordinator.heartbeat("a", -2, instance="i")
    response = coordinator.heartbeat("b", 0, topics=["u"], instance="i")
    assert response.member_epoch == 3
    assert response.assignment is not None
    assert [topic.topic_id for topic in response.assignment.topic_partitions] == [coordinator.topic_id("u")]
    assert coordinator.group.targets.keys() == {"b"}


def test_offsets_of_the_predecessor_may_be_committed_in_any_epoch_by_the_successor() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"], instance="i")
    coordinator.heartbeat("a", -2, instance="i")
    assert coordinator.member("a").assigned == {coordinator.topic_id("t"): {0: 0}}


def test_a_successor_that_is_refused_does_not_stop_the_clock_of_its_predecessor() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.heartbeat("a", 0, topics=["t"], instance="i")
    coordinator.heartbeat("a", -2, instance="i")
    refused = coordinator.heartbeat("b", 0, regex="(", instance="i")
    assert code(refused) is ErrorCode.INVALID_REGULAR_EXPRESSION
    coordinator.advance(45_000)
    assert coordinator.group.is_empty
