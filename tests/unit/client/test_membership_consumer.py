"""The member of a consumer group (KIP-848) step by step: one heartbeat for everything."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.client.core.membership import (
    CommitRefused,
    Effect,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    Left,
    MembershipConfig,
    Polled,
    Release,
    Released,
    Responded,
    Send,
    State,
    Subscribed,
    Take,
    Taken,
    TopicsKnown,
    Unanswered,
    Unsubscribed,
)
from ottla.client.core.membership_consumer import ConsumerMembership
from ottla.client.core.partitions import TopicPartition
from ottla.machine import Tick
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

T, U = b"t" * 16, b"u" * 16
ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


def membership(**settings: Any) -> ConsumerMembership:
    config = MembershipConfig(group_id="g", max_poll_interval_ms=30_000, **settings)
    return ConsumerMembership(config, Random(1), "me")


def beat_of(effects: list[Effect]) -> ConsumerGroupHeartbeatRequest:
    (request,) = [effect.request for effect in effects if isinstance(effect, Send)]
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return request


def answer(epoch: int = 1, target: dict[bytes, list[int]] | None = None, **rest: Any) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if target is not None:
        assignment = Assignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in target.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id="me", member_epoch=epoch, heartbeat_interval_ms=1_000, assignment=assignment, **rest
    )


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[bytes, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: list(each.partitions) for each in request.topic_partitions}


def joined(member: ConsumerMembership, target: dict[bytes, list[int]] | None = None) -> list[Effect]:
    member.handle(TopicsKnown({}, {T: "t"}), 0)
    first = beat_of(member.handle(Subscribed(("t",)), 0))
    return member.handle(Responded(first, answer(1, target)), 0)


def stable(member: ConsumerMembership, *numbers: int) -> ConsumerMembership:
    partitions = tuple(TopicPartition("t", number) for number in numbers)
    assert joined(member, {T: list(numbers)}) == [Take(partitions)]
    acknowledged = beat_of(member.handle(Taken(), 0))
    assert owned(acknowledged) == {T: list(numbers)}
    member.handle(Responded(acknowledged, answer(1)), 0)
    assert member.state is State.STABLE and member.deadline() == 1_000
    return member


def test_joining_tells_everything() -> None:
    member = membership(client_rack="r", group_remote_assignor="uniform", group_instance_id="i")
    request = beat_of(member.handle(Subscribed(("u", "t")), 0))
    assert (request.member_id, request.member_epoch, request.instance_id, request.rack_id) == ("me", 0, "i", "r")
    assert request.subscribed_topic_names == ["t", "u"] and request.topic_partitions == []
    assert (request.rebalance_timeout_ms, request.server_assignor) == (30_000, "uniform")


def test_later_heartbeats_tell_only_what_changed() -> None:
    member = stable(membership(), 0)
    request = beat_of(member.handle(Tick(), 1_000))
    assert request == ConsumerGroupHeartbeatRequest(group_id="g", member_id="me", member_epoch=1)


def test_what_is_taken_away_is_released_before_the_coordinator_hears_of_it() -> None:
    member = stable(membership(), 0, 1)
    request = beat_of(member.handle(Tick(), 1_000))
    assert member.handle(Responded(request, answer(2, {T: [1, 2]})), 1_000) == [Release((ZERO,))]
    waiting = beat_of(member.handle(Tick(), 2_000))
    assert owned(waiting) is None
    member.handle(Responded(waiting, answer(2)), 2_000)
    assert member.handle(Released(), 2_100) == [Take((TWO,))]
    assert owned(beat_of(member.handle(Taken(), 2_200))) == {T: [1, 2]}


def test_losing_all_of_a_target_ends_with_nothing_owned() -> None:
    member = stable(membership(), 0)
    request = beat_of(member.handle(Tick(), 1_000))
    assert member.handle(Responded(request, answer(2, {})), 1_000) == [Release((ZERO,))]
    assert member.handle(Released(), 1_100) == [Take(())]
    assert owned(beat_of(member.handle(Taken(), 1_100))) == {}
    assert member.owned == ()


def test_a_target_equal_to_what_is_owned_is_acknowledged_at_once() -> None:
    member = stable(membership(), 0)
    request = beat_of(member.handle(Tick(), 1_000))
    effects = member.handle(Responded(request, answer(2, {T: [0]})), 1_000)
    assert owned(beat_of(effects)) == {T: [0]}


def test_a_topic_whose_name_is_not_known_is_asked_for_and_then_taken() -> None:
    member = membership()
    effects = joined(member, {T: [0], U: [3]})
    assert effects == [LearnTopics((), (U,)), Take((ZERO,))]
    member.handle(Taken(), 0)
    assert member.handle(TopicsKnown({}, {U: "u"}), 10) == [Take((TopicPartition("u", 3),))]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_anew_under_the_same_id(code: ErrorCode) -> None:
    member = stable(membership(), 0)
    request = beat_of(member.handle(Tick(), 1_000))
    effects = member.handle(Responded(request, ConsumerGroupHeartbeatResponse(error_code=code)), 1_000)
    assert effects == [Release((ZERO,), is_lost=True)]
    assert member.deadline() == 30_000
    again = beat_of(member.handle(Released(), 1_100))
    assert (again.member_epoch, again.member_id, again.topic_partitions) == (0, "me", [])


def test_a_member_fenced_while_it_releases_waits_for_both() -> None:
    member = stable(membership(), 0, 1)
    request = beat_of(member.handle(Tick(), 1_000))
    member.handle(Responded(request, answer(2, {T: [1]})), 1_000)
    request = beat_of(member.handle(Tick(), 2_000))
    fenced = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert member.handle(Responded(request, fenced), 2_000) == [Release((ZERO, ONE), is_lost=True)]
    assert member.handle(Released(), 2_100) == []
    assert beat_of(member.handle(Released(), 2_200)).member_epoch == 0


def test_after_an_unanswered_heartbeat_everything_is_told_again() -> None:
    member = stable(membership(), 0)
    request = beat_of(member.handle(Tick(), 1_000))
    assert member.handle(Unanswered(request), 5_000) == [ForgetCoordinator()]
    at = member.deadline()
    assert at is not None and 5_080 <= at <= 5_120
    request = beat_of(member.handle(Tick(), at))
    assert request.subscribed_topic_names == ["t"] and owned(request) == {T: [0]} and request.member_epoch == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    ],
)
def test_errors_that_will_not_pass_fail_the_membership(code: ErrorCode) -> None:
    member = membership()
    request = beat_of(member.handle(Subscribed(("t",)), 0))
    refused = ConsumerGroupHeartbeatResponse(error_code=code, error_message="why")
    (failed,) = member.handle(Responded(request, refused), 0)
    assert isinstance(failed, Fail) and failed.error.code is code and failed.error.message == "why"
    assert member.deadline() is None


def test_a_coordinator_that_moved_is_looked_for() -> None:
    member = stable(membership(), 0)
    request = beat_of(member.handle(Tick(), 1_000))
    moved = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert member.handle(Responded(request, moved), 1_000) == [ForgetCoordinator()]
    assert member.owned == (ZERO,)


def test_a_changed_subscription_is_told_at_once() -> None:
    member = stable(membership(), 0)
    assert beat_of(member.handle(Subscribed(("t", "u")), 100)).subscribed_topic_names == ["t", "u"]


def test_a_subscription_changed_during_a_heartbeat_is_told_right_after_it() -> None:
    member = stable(membership(), 0)
    request = beat_of(member.handle(Tick(), 1_000))
    assert member.handle(Subscribed(("u",)), 1_010) == []
    assert beat_of(member.handle(Responded(request, answer(1)), 1_020)).subscribed_topic_names == ["u"]


def test_a_regular_expression_is_the_brokers_to_match() -> None:
    member = membership()
    request = beat_of(member.handle(Subscribed((), "t.*"), 0))
    assert request.subscribed_topic_regex == "t.*" and request.subscribed_topic_names == []
    member.handle(Responded(request, answer(1)), 0)
    request = beat_of(member.handle(Subscribed(("t",)), 10))
    assert request.subscribed_topic_regex == "" and request.subscribed_topic_names == ["t"]


def test_an_application_that_does_not_poll_leaves_and_loses_its_partitions_when_it_comes_back() -> None:
    member = stable(membership(), 0)
    assert beat_of(member.handle(Tick(), 30_000)).member_epoch == -1
    assert member.deadline() is None and member.generation == -1
    assert member.handle(Polled(), 40_000) == [Release((ZERO,), is_lost=True)]
    assert beat_of(member.handle(Released(), 40_000)).member_epoch == 0


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_leaving_releases_and_says_goodbye(instance_id: str | None, epoch: int) -> None:
    member = stable(membership(group_instance_id=instance_id), 0)
    assert member.handle(Unsubscribed(), 10) == [Release((ZERO,))]
    farewell = beat_of(member.handle(Released(), 20))
    assert farewell.member_epoch == epoch
    assert member.handle(Responded(farewell, answer(epoch)), 30) == [Left()]
    assert member.deadline() is None


def test_a_commit_with_an_unknown_member_id_means_the_group_has_lost_this_member() -> None:
    member = stable(membership(), 0)
    assert member.handle(CommitRefused(ErrorCode.STALE_MEMBER_EPOCH, 1), 10) == []
    assert member.handle(CommitRefused(ErrorCode.UNKNOWN_MEMBER_ID, 1), 10) == [Release((ZERO,), is_lost=True)]
