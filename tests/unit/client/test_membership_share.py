"""The member of a share group (KIP-932) step by step."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.client.core.membership import (
    Effect,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    Left,
    MembershipConfig,
    Polled,
    Refused,
    Responded,
    Send,
    State,
    Subscribed,
    Take,
    TopicsKnown,
    Unanswered,
    Unsubscribed,
)
from ottla.client.core.membership_share import ShareMembership
from ottla.client.core.partitions import TopicPartition
from ottla.machine import Tick
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

T = b"t" * 16
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def membership(**settings: Any) -> ShareMembership:
    config = MembershipConfig(group_id="g", max_poll_interval_ms=30_000, **settings)
    return ShareMembership(config, Random(1), "me")


def beat_of(effects: list[Effect]) -> ShareGroupHeartbeatRequest:
    (request,) = [effect.request for effect in effects if isinstance(effect, Send)]
    assert isinstance(request, ShareGroupHeartbeatRequest)
    return request


def answer(epoch: int = 1, target: dict[bytes, list[int]] | None = None, **rest: Any) -> ShareGroupHeartbeatResponse:
    assignment = None
    if target is not None:
        assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=key, partitions=numbers) for key, numbers in target.items()]
        )
    return ShareGroupHeartbeatResponse(
        member_id="me", member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=assignment, **rest
    )


def joined(target: dict[bytes, list[int]] | None = None) -> ShareMembership:
    member = membership()
    member.handle(TopicsKnown({"t": 2}, {T: "t"}), 0)
    request = beat_of(member.handle(Subscribed(("t",)), 0))
    member.handle(Responded(request, answer(1, {T: [0, 1]} if target is None else target)), 10)
    return member


def test_the_first_heartbeat_tells_the_subscription_with_a_member_id_of_the_clients_choice() -> None:
    request = beat_of(membership(client_rack="a").handle(Subscribed(("u", "t", "t")), 0))
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "me", 0)
    assert (request.subscribed_topic_names, request.rack_id) == (["t", "u"], "a")


def test_later_heartbeats_tell_only_the_epoch() -> None:
    member = joined()
    assert member.deadline() == 5_010
    assert member.handle(Tick(), 5_009) == []
    request = beat_of(member.handle(Tick(), 5_010))
    assert (request.member_epoch, request.subscribed_topic_names, request.rack_id) == (1, None, None)
    assert member.handle(Tick(), 9_000) == []  # S1


def test_an_assignment_takes_effect_at_once() -> None:
    member = joined()
    assert list(member.owned) == [ZERO, ONE]
    request = beat_of(member.handle(Tick(), 5_010))
    assert member.handle(Responded(request, answer(2, {T: [1]})), 5_020) == [Take((ONE,))]
    assert list(member.owned) == [ONE]
    request = beat_of(member.handle(Tick(), 10_020))
    assert member.handle(Responded(request, answer(2)), 10_030) == []
    assert list(member.owned) == [ONE]


def test_topics_with_unknown_names_are_asked_for_once() -> None:
    member = membership()
    request = beat_of(member.handle(Subscribed(("t",)), 0))
    assert member.handle(Responded(request, answer(1, {T: [0]})), 0) == [LearnTopics((), (T,))]
    assert member.handle(TopicsKnown({}, {}, is_answer=True), 1) == []
    assert member.handle(TopicsKnown({"t": 1}, {T: "t"}), 2) == [Take((ZERO,))]


def test_a_fenced_member_joins_anew_without_partitions_and_with_the_same_id() -> None:
    for code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        member = joined()
        request = beat_of(member.handle(Tick(), 5_010))
        effects = member.handle(Responded(request, answer(error_code=code)), 5_020)
        assert effects[0] == Take(())
        again = beat_of(effects)
        assert (again.member_id, again.member_epoch, again.subscribed_topic_names) == ("me", 0, ["t"])
        assert member.owned == ()


def test_after_silence_everything_is_told_again_to_the_coordinator_that_is_found_then() -> None:
    member = joined()
    request = beat_of(member.handle(Tick(), 5_010))
    assert member.handle(Unanswered(request), 6_000) == [ForgetCoordinator()]
    assert list(member.owned) == [ZERO, ONE]
    at = member.deadline()
    assert at is not None and 6_000 < at < 6_200
    request = beat_of(member.handle(Tick(), at))
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ["t"])


def test_a_coordinator_that_loads_is_asked_again() -> None:
    member = joined()
    request = beat_of(member.handle(Tick(), 5_010))
    assert member.handle(Responded(request, answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)), 5_020) == []
    assert member.state is State.STABLE


def test_a_refusal_ends_the_membership() -> None:
    member = joined()
    request = beat_of(member.handle(Tick(), 5_010))
    response = answer(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED, error_message="full")
    (failed,) = member.handle(Responded(request, response), 5_020)
    assert isinstance(failed, Fail)
    assert failed.error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert member.owned == ()
    assert member.deadline() is None


def test_a_broker_without_share_groups_ends_the_membership() -> None:
    member = membership()
    request = beat_of(member.handle(Subscribed(("t",)), 0))
    error = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    assert member.handle(Refused(request, error), 1) == [Fail(error)]


def test_a_subscription_that_changes_under_way_is_told_at_once_after_the_answer() -> None:
    member = membership()
    request = beat_of(member.handle(Subscribed(("t",)), 0))
    assert member.handle(Subscribed(("t", "u")), 1) == []
    assert beat_of(member.handle(Responded(request, answer(1)), 2)).subscribed_topic_names == ["t", "u"]


def test_a_member_that_is_not_polled_leaves_and_joins_at_the_next_poll() -> None:
    member = joined()
    request = beat_of(member.handle(Tick(), 5_010))
    member.handle(Responded(request, answer(1)), 5_020)
    assert beat_of(member.handle(Tick(), 30_000)).member_epoch == -1
    assert member.has_expired
    assert member.owned == ()
    assert beat_of(member.handle(Polled(), 40_000)).member_epoch == 0


def test_leaving_sends_the_last_epoch_and_waits_for_its_answer() -> None:
    member = joined()
    request = beat_of(member.handle(Unsubscribed(), 100))
    assert request.member_epoch == -1
    assert member.handle(Responded(request, answer(-1)), 110) == [Left()]
    assert member.state is State.UNSUBSCRIBED
    assert member.handle(Unsubscribed(), 120) == []
