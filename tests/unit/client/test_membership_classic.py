"""The classic member step by step: what it sends, asks of the application and makes of every answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.client.core.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
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
from ottla.client.core.membership_classic import ClassicMembership
from ottla.client.core.partitions import TopicPartition
from ottla.machine import Tick
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


def membership(*strategy: str, **settings: Any) -> ClassicMembership:
    config = MembershipConfig(
        group_id="g",
        session_timeout_ms=10_000,
        heartbeat_interval_ms=1_000,
        max_poll_interval_ms=30_000,
        partition_assignment_strategy=strategy or ("range",),
        **settings,
    )
    return ClassicMembership(config, Random(1))


def sent(effects: list[Effect]) -> Message:
    (request,) = [effect.request for effect in effects if isinstance(effect, Send)]
    return request


def join_answer(protocol: str = "range", *, generation: int = 1, leader: str = "other") -> JoinGroupResponse:
    return JoinGroupResponse(generation_id=generation, protocol_name=protocol, leader=leader, member_id="me")


def sync_answer(*partitions: TopicPartition) -> SyncGroupResponse:
    return SyncGroupResponse(assignment=encode_assignment(partitions))


def join(
    member: ClassicMembership, *partitions: TopicPartition, now: int = 0, generation: int = 1, protocol: str = "range"
) -> list[Effect]:
    """Answer the JoinGroup under way and the SyncGroup after it."""
    request = member._outstanding
    assert isinstance(request, JoinGroupRequest)
    effects = member.handle(Responded(request, join_answer(protocol, generation=generation)), now)
    return member.handle(Responded(sent(effects), sync_answer(*partitions)), now)


def stable(member: ClassicMembership, *partitions: TopicPartition, protocol: str = "range") -> ClassicMembership:
    member.handle(Subscribed(("t",)), 0)
    assert join(member, *partitions, protocol=protocol) == [Take(partitions)]
    assert member.handle(Taken(), 0) == []
    assert member.state is State.STABLE
    return member


def beat(member: ClassicMembership, code: ErrorCode, now: int = 1_000) -> list[Effect]:
    request = sent(member.handle(Tick(), now))
    assert isinstance(request, HeartbeatRequest)
    return member.handle(Responded(request, HeartbeatResponse(error_code=code)), now)


def test_a_new_member_joins_again_with_the_id_it_is_given() -> None:
    member = membership()
    first = sent(member.handle(Subscribed(("t",)), 0))
    assert isinstance(first, JoinGroupRequest) and first.member_id == ""
    required = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1")
    second = sent(member.handle(Responded(first, required), 5))
    assert isinstance(second, JoinGroupRequest) and second.member_id == "me-1"


def test_a_follower_syncs_with_nothing_and_takes_what_it_is_given() -> None:
    member = membership()
    request = sent(member.handle(Subscribed(("t",)), 0))
    sync = sent(member.handle(Responded(request, join_answer(generation=3)), 0))
    assert isinstance(sync, SyncGroupRequest) and sync.assignments == [] and sync.generation_id == 3
    assert member.handle(Responded(sync, sync_answer(ZERO, ONE)), 0) == [Take((ZERO, ONE))]
    assert member.owned == (ZERO, ONE)


def test_the_leader_learns_the_topics_of_all_members_and_shares_out() -> None:
    member, other = membership(), membership()
    request = sent(member.handle(Subscribed(("t",)), 0))
    others = sent(other.handle(Subscribed(("t", "u")), 0))
    assert isinstance(request, JoinGroupRequest) and isinstance(others, JoinGroupRequest)
    answer = join_answer(leader="me")
    answer.members = [
        JoinGroupResponseMember(member_id="me", metadata=request.protocols[0].metadata),
        JoinGroupResponseMember(member_id="you", metadata=others.protocols[0].metadata),
    ]
    assert member.handle(Responded(request, answer), 0) == [LearnTopics(("t", "u"))]
    sync = sent(member.handle(TopicsKnown({"t": 2, "u": 1}, {}, is_answer=True), 0))
    assert isinstance(sync, SyncGroupRequest)
    given = {each.member_id: decode_assignment(each.assignment) for each in sync.assignments}
    assert given == {"me": [ZERO], "you": [ONE, TopicPartition("u", 0)]}


@pytest.mark.parametrize("protocol", [None, "of-another-client"])
def test_a_leader_whose_assignor_is_not_there_fails(protocol: str | None) -> None:
    member = membership()
    request = sent(member.handle(Subscribed(("t",)), 0))
    answer = join_answer(leader="me")
    answer.protocol_name = protocol
    (failed,) = member.handle(Responded(request, answer), 0)
    assert isinstance(failed, Fail) and failed.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_leader_rejoins_when_a_topic_grows() -> None:
    member = membership()
    request = sent(member.handle(Subscribed(("t",)), 0))
    assert isinstance(request, JoinGroupRequest)
    answer = join_answer(leader="me")
    answer.members = [JoinGroupResponseMember(member_id="me", metadata=request.protocols[0].metadata)]
    member.handle(Responded(request, answer), 0)
    assert member.handle(TopicsKnown({}, {}), 0) == []
    sync = sent(member.handle(TopicsKnown({"t": 1}, {}, is_answer=True), 0))
    member.handle(Responded(sync, sync_answer(ZERO)), 0)
    member.handle(Taken(), 0)
    assert member.handle(TopicsKnown({"t": 1}, {}), 10) == []
    assert member.handle(TopicsKnown({"t": 2}, {}), 20) == [Release((ZERO,))]


def test_an_eager_member_releases_everything_before_it_joins_again() -> None:
    member = stable(membership(), ZERO, ONE)
    assert beat(member, ErrorCode.REBALANCE_IN_PROGRESS) == [Release((ZERO, ONE))]
    again = sent(member.handle(Released(), 1_100))
    assert isinstance(again, JoinGroupRequest) and again.member_id == "me"
    assert member.owned == ()


def test_a_member_that_waits_for_its_application_still_sends_heartbeats() -> None:
    member = stable(membership(), ZERO)
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.deadline() == 2_000
    assert beat(member, ErrorCode.REBALANCE_IN_PROGRESS, now=2_000) == []


def test_a_cooperative_member_keeps_its_partitions_and_tells_that_it_owns_them() -> None:
    member = stable(membership("cooperative-sticky"), ZERO, ONE, protocol="cooperative-sticky")
    again = sent(beat(member, ErrorCode.REBALANCE_IN_PROGRESS))
    assert isinstance(again, JoinGroupRequest)
    told = decode_subscription("cooperative-sticky", again.protocols[0].metadata)
    assert (told.owned, told.generation) == ([ZERO, ONE], 1)


def test_a_cooperative_member_releases_what_was_taken_away_takes_what_is_new_and_joins_again() -> None:
    member = stable(membership("cooperative-sticky"), ZERO, ONE, protocol="cooperative-sticky")
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    assert join(member, ONE, TWO, generation=2, protocol="cooperative-sticky") == [Release((ZERO,))]
    assert member.handle(Released(), 0) == [Take((TWO,))]
    assert isinstance(sent(member.handle(Taken(), 0)), JoinGroupRequest)
    assert member.owned == (ONE, TWO)


def test_range_and_cooperative_sticky_together_are_eager() -> None:
    member = stable(membership("range", "cooperative-sticky"), ZERO)
    assert beat(member, ErrorCode.REBALANCE_IN_PROGRESS) == [Release((ZERO,))]


def test_sticky_tells_what_it_had_before_it_released_it() -> None:
    member = stable(membership("sticky"), ZERO, ONE, protocol="sticky")
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    again = sent(member.handle(Released(), 1_100))
    assert isinstance(again, JoinGroupRequest)
    told = decode_subscription("sticky", again.protocols[0].metadata)
    assert (told.owned, told.generation) == ([ZERO, ONE], 1)


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_a_member_the_group_no_longer_knows_loses_everything_and_joins_anew(code: ErrorCode, member_id: str) -> None:
    member = stable(membership(), ZERO)
    assert beat(member, code) == [Release((ZERO,), is_lost=True)]
    assert member.generation == -1
    again = sent(member.handle(Released(), 1_100))
    assert isinstance(again, JoinGroupRequest) and again.member_id == member_id


def test_what_is_lost_while_the_application_still_releases_is_waited_for_twice() -> None:
    member = stable(membership(), ZERO)
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    assert beat(member, ErrorCode.UNKNOWN_MEMBER_ID, now=2_000) == [Release((ZERO,), is_lost=True)]
    assert member.handle(Released(), 2_100) == []
    assert isinstance(sent(member.handle(Released(), 2_200)), JoinGroupRequest)


def test_a_heartbeat_of_an_older_generation_loses_nothing() -> None:
    member = stable(membership("cooperative-sticky"), ZERO, protocol="cooperative-sticky")
    old = sent(member.handle(Tick(), 1_000))
    assert member.handle(CommitRefused(ErrorCode.REBALANCE_IN_PROGRESS, 1), 1_000) != []
    join(member, ZERO, generation=2, protocol="cooperative-sticky")
    member.handle(Taken(), 1_000)
    assert member.handle(Responded(old, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)), 1_100) == []
    assert member.owned == (ZERO,)


def test_a_fenced_static_member_fails() -> None:
    member = stable(membership(group_instance_id="i"), ZERO)
    lost, failed = beat(member, ErrorCode.FENCED_INSTANCE_ID)
    assert lost == Release((ZERO,), is_lost=True)
    assert isinstance(failed, Fail) and failed.error.code is ErrorCode.FENCED_INSTANCE_ID
    assert member.deadline() is None


def test_a_coordinator_that_moved_is_looked_for_and_the_member_stays() -> None:
    member = stable(membership(), ZERO)
    assert beat(member, ErrorCode.NOT_COORDINATOR) == [ForgetCoordinator()]
    assert member.owned == (ZERO,) and member.state is State.STABLE
    assert member.deadline() == 1_100


def test_an_unanswered_join_is_tried_again_after_a_pause_that_grows() -> None:
    member = membership()
    effects = member.handle(Subscribed(("t",)), 0)
    pauses = []
    now = 0
    for _ in range(4):
        assert member.handle(Unanswered(sent(effects)), now) == [ForgetCoordinator()]
        at = member.deadline()
        assert at is not None
        pauses.append(at - now)
        assert member.handle(Tick(), at - 1) == []
        effects, now = member.handle(Tick(), at), at
    assert pauses == sorted(pauses) and 80 <= pauses[0] <= 120 and pauses[-1] >= 640


def test_an_answer_to_an_older_join_is_ignored() -> None:
    member = membership()
    first = sent(member.handle(Subscribed(("t",)), 0))
    member.handle(Unanswered(first), 0)
    assert member.handle(Responded(first, join_answer()), 1) == []


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_GROUP_ID,
    ],
)
def test_a_join_that_can_never_succeed_fails_the_membership(code: ErrorCode) -> None:
    member = membership()
    request = sent(member.handle(Subscribed(("t",)), 0))
    (failed,) = member.handle(Responded(request, JoinGroupResponse(error_code=code)), 0)
    assert isinstance(failed, Fail) and failed.error.code is code


def test_an_application_that_does_not_poll_leaves_and_loses_its_partitions_when_it_comes_back() -> None:
    member = stable(membership(), ZERO)
    for now in range(1_000, 30_000, 1_000):
        beat(member, ErrorCode.NONE, now)
    farewell = sent(member.handle(Tick(), 30_000))
    assert isinstance(farewell, LeaveGroupRequest) and farewell.members[0].member_id == "me"
    assert member.deadline() is None
    assert member.handle(Polled(), 50_000) == [Release((ZERO,), is_lost=True)]
    assert isinstance(sent(member.handle(Released(), 50_000)), JoinGroupRequest)


def test_a_static_member_that_does_not_poll_only_falls_silent() -> None:
    member = stable(membership(group_instance_id="i"), ZERO)
    assert member.handle(Tick(), 30_000) == []
    assert member.state is State.EXPIRED


def test_polls_keep_the_member_in_the_group() -> None:
    member = stable(membership(), ZERO)
    member.handle(Polled(), 20_000)
    assert isinstance(sent(member.handle(Tick(), 31_000)), HeartbeatRequest)
    member.is_polling = True
    assert member.handle(Tick(), 90_000) == []


def test_a_changed_subscription_rebalances() -> None:
    member = stable(membership(), ZERO)
    assert member.handle(Subscribed(("t",)), 10) == []
    assert member.handle(Subscribed(("t", "u")), 10) == [Release((ZERO,))]


def test_a_cooperative_member_releases_topics_it_no_longer_reads_before_it_joins() -> None:
    member = stable(membership("cooperative-sticky"), ZERO, protocol="cooperative-sticky")
    assert member.handle(Subscribed(("u",)), 10) == [Release((ZERO,))]
    assert isinstance(sent(member.handle(Released(), 10)), JoinGroupRequest)


def test_leaving_releases_says_goodbye_and_ends() -> None:
    member = stable(membership(), ZERO)
    assert member.handle(Unsubscribed(), 10) == [Release((ZERO,))]
    farewell = sent(member.handle(Released(), 20))
    assert isinstance(farewell, LeaveGroupRequest)
    assert member.handle(Responded(farewell, LeaveGroupResponse()), 30) == [Left()]
    assert member.deadline() is None


def test_a_member_that_leaves_in_the_middle_of_a_join_cannot_commit() -> None:
    member = stable(membership("cooperative-sticky"), ZERO, protocol="cooperative-sticky")
    assert not member.is_joining
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.handle(Unsubscribed(), 1_100) == [Release((ZERO,))]
    assert member.is_joining


def test_a_static_member_leaves_without_a_word() -> None:
    member = stable(membership(group_instance_id="i"), ZERO)
    member.handle(Unsubscribed(), 10)
    assert member.handle(Released(), 20) == [Left()]


def test_a_refused_commit_tells_of_a_rebalance_as_well() -> None:
    member = stable(membership(), ZERO)
    assert member.handle(CommitRefused(ErrorCode.REBALANCE_IN_PROGRESS, 1), 10) == [Release((ZERO,))]


def test_a_sync_that_a_rebalance_overtook_joins_again() -> None:
    member = membership()
    request = sent(member.handle(Subscribed(("t",)), 0))
    sync = sent(member.handle(Responded(request, join_answer()), 0))
    refused = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(sent(member.handle(Responded(sync, refused), 0)), JoinGroupRequest)


def test_a_static_member_that_came_back_with_other_topics_joins_again_for_what_it_reads_now() -> None:
    member = membership(group_instance_id="instance")
    member.handle(Subscribed(("u",)), 0)
    assert join(member, ZERO) == []
    assert member.owned == ()
    deadline = member.deadline()
    assert deadline is not None
    request = sent(member.handle(Tick(), deadline))
    assert isinstance(request, JoinGroupRequest) and request.member_id == "me"
    of_u = TopicPartition("u", 0)
    assert join(member, of_u, generation=2, now=deadline) == [Take((of_u,))]
