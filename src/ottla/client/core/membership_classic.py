"""Membership by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; one of the members shares out.

    UNSUBSCRIBED --Subscribed--> JOINING
    JOINING      --JoinGroup answered--> SYNCING (a follower) or ASSIGNING (the leader, until it knows the topics)
    ASSIGNING    --TopicsKnown--> SYNCING
    SYNCING      --SyncGroup answered--> RELEASING (cooperative, something was taken away) or TAKING
    RELEASING    --Released--> TAKING, --Taken--> STABLE, or JOINING again if something was released
    STABLE       --the group rebalances, subscription or topics changed--> PREPARING (eager: everything is released)
    PREPARING    --Released--> JOINING
    any          --the group does not know this member any more--> LOSING --Released--> JOINING
    any          --max.poll.interval.ms without a poll--> EXPIRED (it has left) --Polled--> LOSING
    any          --Unsubscribed--> LEAVING --Released, LeaveGroup answered--> UNSUBSCRIBED
    any          --an error that will not pass--> FAILED

C1: at most one JoinGroup or SyncGroup is under way; an answer to an older one is ignored.
C2: a partition is owned from its Take to its Released.
C3: heartbeats carry the generation of the last JoinGroup answered.
C4: as many Released and Taken come as were asked for; a state is left for what the last of them allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ottla.client.core.assignors import ASSIGNORS, NO_GENERATION
from ottla.client.core.codes import error_code
from ottla.client.core.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.core.membership import (
    COORDINATOR_LOST,
    CommitRefused,
    Effect,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    Left,
    Member,
    MembershipConfig,
    Polled,
    Refused,
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
from ottla.client.core.partitions import TopicPartition
from ottla.machine import Tick
from ottla.wire import Message, WireError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

JOIN_LAPSE_MS = 5_000
"""How much longer than the rebalance may take the answer to a JoinGroup is waited for."""


_IN_GENERATION = (State.PREPARING, State.ASSIGNING, State.SYNCING, State.RELEASING, State.TAKING, State.STABLE)
_JOINING = (State.JOINING, State.ASSIGNING, State.SYNCING, State.LOSING)


class ClassicMembership(Member):
    """One member of a classic group, as one consumer sees it."""

    def __init__(self, config: MembershipConfig, rng: Random) -> None:
        super().__init__(config, rng)
        self.member_id = ""
        self.is_leader = False
        self.protocol: str | None = None
        self._generation = NO_GENERATION
        self._joined_topics: tuple[str, ...] = ()
        self._previous: list[TopicPartition] | None = None
        self._previous_generation = NO_GENERATION
        self._assigned: list[TopicPartition] = []
        self._outstanding: Message | None = None
        self._heartbeat: HeartbeatRequest | None = None
        self._join_at = 0
        self._rejoins = False
        self._left_while_joining = False
        self._join_response: JoinGroupResponse | None = None
        self._group_topics: tuple[str, ...] = ()
        self._assigned_counts: dict[str, int] | None = None
        assignors = [ASSIGNORS[name] for name in config.partition_assignment_strategy]
        self.is_cooperative = all(assignor.is_cooperative for assignor in assignors)

    # For the consumer

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def is_joining(self) -> bool:
        return self.state in _JOINING or (self.state is State.LEAVING and self._left_while_joining)

    def deadline(self) -> int | None:
        times = self._poll_due()
        if self.state is State.JOINING and self._outstanding is None:
            times.append(self._join_at)
        if self.state in _IN_GENERATION and self._heartbeat is None:
            times.append(self._heartbeat_at)
        return min(times, default=None)

    def handle(self, event: object, now: int) -> list[Effect]:
        match event:
            case Tick():
                return self._tick(now)
            case Polled():
                return self._handle_poll(now)
            case Responded(request, response):
                return self._handle_response(request, response, now)
            case Unanswered(request):
                return self._handle_silence(request, now)
            case Refused(request, error):
                return self._handle_refusal(request, error)
            case Released() | Taken():
                return self._handle_performed(now)
            case TopicsKnown():
                return self._handle_topics(event, now)
            case Subscribed(topics):
                return self._subscribe(topics, now)
            case CommitRefused(code, generation):
                return self._handle_refused_commit(code, generation, now)
            case Unsubscribed():
                return self._leave()
        raise TypeError(f"a membership does not know {event!r}")

    # Time

    def _tick(self, now: int) -> list[Effect]:
        if any(now >= due for due in self._poll_due()):
            return self._expire()
        if self.state is State.JOINING and self._outstanding is None and now >= self._join_at:
            return self._join(now)
        if self.state in _IN_GENERATION and self._heartbeat is None and now >= self._heartbeat_at:
            self._heartbeat = HeartbeatRequest(
                group_id=self.config.group_id,
                generation_id=self._generation,
                member_id=self.member_id,
                group_instance_id=self.config.group_instance_id,
            )
            return [Send(self._heartbeat, min(self.config.request_timeout_ms, self.config.session_timeout_ms))]
        return []

    def _handle_poll(self, now: int) -> list[Effect]:
        self._polled_at = now
        if self.state is State.EXPIRED:
            return self._lose(now)
        return []

    def _expire(self) -> list[Effect]:
        """The application does not come back for more: others shall have its partitions. A static member only falls
        silent, so that its session decides."""
        effects: list[Effect] = []
        if self.config.group_instance_id is None and self.member_id:
            effects.append(Send(self._leave_request("max.poll.interval.ms passed"), self.config.request_timeout_ms))
        self._forget_generation(with_member_id=True)
        self.state = State.EXPIRED
        return effects

    # Subscribing and leaving

    def _subscribe(self, topics: tuple[str, ...], now: int) -> list[Effect]:
        self._topics = tuple(sorted(set(topics)))
        if self.state is State.UNSUBSCRIBED:
            self._polled_at = now
            return self._begin_join(now)
        if self.state is State.STABLE and self._topics != self._joined_topics:
            return self._prepare(now)
        return []

    def _leave(self) -> list[Effect]:
        if self.state in (State.UNSUBSCRIBED, State.LEAVING):
            return []
        was_failed = self.state is State.FAILED
        is_out = self.state in (State.EXPIRED, State.LOSING, State.FAILED)
        self._left_while_joining = self.state in _JOINING
        self.state = State.LEAVING
        self._outstanding = None
        if was_failed and not self._owned:
            return self._finish_leaving()
        if self._owned:
            return self._release(self.owned, is_lost=is_out)
        return self._say_goodbye() if not self._asked_count else []

    def _say_goodbye(self) -> list[Effect]:
        if self.config.group_instance_id is not None or not self.member_id:
            return self._finish_leaving()
        request = self._leave_request("the consumer unsubscribes or closes")
        self._outstanding = request
        return [Send(request, self.config.request_timeout_ms)]

    def _finish_leaving(self) -> list[Effect]:
        self._forget_generation(with_member_id=True)
        self.state = State.UNSUBSCRIBED
        self._previous = None
        return [Left()]

    def _leave_request(self, reason: str) -> LeaveGroupRequest:
        return LeaveGroupRequest(
            group_id=self.config.group_id,
            members=[
                MemberIdentity(member_id=self.member_id, group_instance_id=self.config.group_instance_id, reason=reason)
            ],
        )

    # Joining

    def _prepare(self, now: int) -> list[Effect]:
        """A rebalance begins for this member. Eager members come with empty hands; cooperative ones only give up what
        they no longer read."""
        self._outstanding = None
        self._rejoins = False
        if self.is_cooperative:
            wanted = set(self._topics)
            given_up = tuple(partition for partition in self._owned if partition.topic not in wanted)
        else:
            given_up = self.owned
        if given_up:
            self.state = State.PREPARING
            return self._release(given_up)
        return self._begin_join(now)

    def _begin_join(self, now: int) -> list[Effect]:
        self.state = State.JOINING
        self._outstanding = None
        self._join_at = now
        return self._join(now)

    def _join(self, now: int) -> list[Effect]:
        self._joined_topics = self._topics
        self._rejoins = False
        request = JoinGroupRequest(
            group_id=self.config.group_id,
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=self.config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self._subscription(name))
                for name in self.config.partition_assignment_strategy
            ],
        )
        self._outstanding = request
        return [Send(request, self.config.max_poll_interval_ms + JOIN_LAPSE_MS)]

    def _subscription(self, assignor: str) -> bytes:
        return encode_subscription(
            assignor,
            self._topics,
            owned=self._owned,
            generation=self._generation if assignor != "sticky" else self._previous_generation,
            rack_id=self.config.client_rack,
            previous=self._previous,
        )

    def _retry_join(self, now: int) -> list[Effect]:
        self.state = State.JOINING
        self._outstanding = None
        self._join_at = now + self.config.backoff_ms(self._failure_count, self._rng)
        self._failure_count += 1
        return []

    def _handle_response(self, request: Message, response: Message, now: int) -> list[Effect]:
        if isinstance(response, HeartbeatResponse):
            return self._handle_heartbeat(request, response, now) if request is self._heartbeat else []
        if request is not self._outstanding:
            return []  # C1
        self._outstanding = None
        match response:
            case JoinGroupResponse():
                return self._handle_joined(response, now)
            case SyncGroupResponse():
                return self._handle_synced(response, now)
            case LeaveGroupResponse():
                return self._finish_leaving()
        raise TypeError(f"a classic membership asked for no {response!r}")

    def _handle_silence(self, request: Message, now: int) -> list[Effect]:
        if request is self._heartbeat:
            self._heartbeat = None
            self._heartbeat_at = now + self.config.retry_backoff_ms
            return [ForgetCoordinator()]
        if request is not self._outstanding:
            return []
        self._outstanding = None
        if isinstance(request, LeaveGroupRequest):
            return self._finish_leaving()
        return [ForgetCoordinator(), *self._retry_join(now)]

    def _handle_refusal(self, request: Message, error: KafkaError) -> list[Effect]:
        if not isinstance(request, LeaveGroupRequest):
            return self._fail(error)
        return self._finish_leaving() if request is self._outstanding else []

    def _handle_joined(self, response: JoinGroupResponse, now: int) -> list[Effect]:
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            self._failure_count = 0
            self._generation = response.generation_id
            self.member_id = response.member_id
            self.protocol = response.protocol_name
            self.is_leader = response.leader == response.member_id
            self._assigned_counts = None
            self._heartbeat_at = now + self.config.heartbeat_interval_ms
            return self._lead(response) if self.is_leader else self._sync([])
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return self._begin_join(now)
        return self._handle_join_error(code, now)

    def _handle_join_error(self, code: ErrorCode, now: int) -> list[Effect]:
        """Handle an error of JoinGroup or SyncGroup: begin anew, or fail for good."""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._forget_generation(with_member_id=code is ErrorCode.UNKNOWN_MEMBER_ID)
            return self._lose(now)
        if code in COORDINATOR_LOST:
            return [ForgetCoordinator(), *self._retry_join(now)]
        if code is ErrorCode.REBALANCE_IN_PROGRESS or code.is_retriable:
            return self._retry_join(now)
        return self._fail(KafkaError(code))

    # Leading

    def _lead(self, response: JoinGroupResponse) -> list[Effect]:
        if self.protocol is None or self.protocol not in ASSIGNORS:
            message = f"the coordinator chose the assignor {self.protocol!r}, which no member of this client offers"
            return self._fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message))
        self._join_response = response
        topics: set[str] = set(self._joined_topics)
        for member in response.members:
            try:
                topics.update(decode_subscription(self.protocol, member.metadata).topics)
            except WireError as error:
                message = f"member {member.member_id} sent no subscription: {error}"
                return self._fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message))
        self._group_topics = tuple(sorted(topics))
        learn = LearnTopics(self._group_topics)
        if response.skip_assignment:
            return [learn, *self._sync([])]
        self.state = State.ASSIGNING
        return [learn]

    def _handle_topics(self, event: TopicsKnown, now: int) -> list[Effect]:
        counts = {
            topic: event.partition_counts[topic] for topic in self._group_topics if topic in event.partition_counts
        }
        if self.state is State.ASSIGNING:
            return self._share_out(counts) if event.is_answer else []
        if not self.is_leader or self.state is not State.STABLE:
            return []
        if self._assigned_counts is None:
            self._assigned_counts = counts
        return self._prepare(now) if counts != self._assigned_counts else []

    def _share_out(self, counts: Mapping[str, int]) -> list[Effect]:
        assert self._join_response is not None and self.protocol is not None
        members = {
            member.member_id: decode_subscription(self.protocol, member.metadata, member.group_instance_id)
            for member in self._join_response.members
        }
        self._join_response = None
        self._assigned_counts = dict(counts)
        assignments = ASSIGNORS[self.protocol].assign(members, counts)
        return self._sync(
            [
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
                for member_id, partitions in assignments.items()
            ]
        )

    # Syncing, releasing, taking

    def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> list[Effect]:
        self.state = State.SYNCING
        request = SyncGroupRequest(
            group_id=self.config.group_id,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=assignments,
        )
        self._outstanding = request
        return [Send(request, self.config.max_poll_interval_ms + JOIN_LAPSE_MS)]

    def _handle_synced(self, response: SyncGroupResponse, now: int) -> list[Effect]:
        code = error_code(response.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return self._prepare(now)
        if code is not ErrorCode.NONE:
            return self._handle_join_error(code, now)
        try:
            self._assigned = decode_assignment(response.assignment)
        except WireError as error:
            return self._fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"no assignment: {error}"))
        joined_topics = set(self._joined_topics)
        if any(partition.topic not in joined_topics for partition in self._assigned):
            # A static member that came back with other topics is given what it had. Its next JoinGroup has the group
            # share out anew.
            return self._retry_join(now)
        kept = set(self._assigned)
        gone = tuple(partition for partition in self._owned if partition not in kept)
        if gone:
            self.state = State.RELEASING
            return self._release(gone)
        return self._take()

    def _take(self) -> list[Effect]:
        self.state = State.TAKING
        added = tuple(sorted(partition for partition in set(self._assigned) if partition not in self._owned))
        self._owned.update(dict.fromkeys(added))
        self._previous, self._previous_generation = sorted(self._assigned), self._generation
        self._asked_count += 1
        return [Take(added)]

    def _handle_performed(self, now: int) -> list[Effect]:
        if not self._has_performed_all():
            return []
        match self.state:
            case State.RELEASING:
                self._keep(self._assigned)
                self._rejoins = True  # released partitions get their new owner in the next rebalance
                return self._take()
            case State.PREPARING:
                wanted = set(self._topics) if self.is_cooperative else set()
                self._owned = {partition: None for partition in self._owned if partition.topic in wanted}
                return self._begin_join(now)
            case State.TAKING:
                self.state = State.STABLE
                return self._prepare(now) if self._rejoins or self._topics != self._joined_topics else []
            case State.LOSING:
                self._owned = {}
                return self._begin_join(now)
            case State.LEAVING:
                self._owned = {}
                return self._say_goodbye()
            case State.FAILED:
                self._owned = {}
        return []

    # Joining and leaving

    def _handle_heartbeat(self, request: Message, response: HeartbeatResponse, now: int) -> list[Effect]:
        assert self._heartbeat is not None
        generation = self._heartbeat.generation_id
        self._heartbeat = None
        self._heartbeat_at = now + self.config.heartbeat_interval_ms
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            return []
        if code in COORDINATOR_LOST or code.is_retriable:
            self._heartbeat_at = now + self.config.retry_backoff_ms
            return [ForgetCoordinator()] if code in COORDINATOR_LOST else []
        return self._handle_member_error(code, generation, now)

    def _handle_refused_commit(self, code: ErrorCode, generation: int, now: int) -> list[Effect]:
        if code in COORDINATOR_LOST:
            return [ForgetCoordinator()]
        if code.is_retriable or code not in (
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            return []
        return self._handle_member_error(code, generation, now)

    def _handle_member_error(self, code: ErrorCode, generation: int, now: int) -> list[Effect]:
        if self.state not in _IN_GENERATION or generation != self._generation:
            return []
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is State.STABLE:
                return self._prepare(now)
            if self.state in (State.RELEASING, State.TAKING):
                self._rejoins = True
            return []
        if code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
            self._forget_generation(with_member_id=code is ErrorCode.UNKNOWN_MEMBER_ID)
            return self._lose(now)
        return self._fail(KafkaError(code))

    def _lose(self, now: int) -> list[Effect]:
        """Other members may own these partitions now: the application is notified, and the member joins anew."""
        if not self._owned and not self._asked_count:
            return self._begin_join(now)
        self.state = State.LOSING
        self._outstanding = None
        return self._release(self.owned, is_lost=True) if self._owned else []

    def _forget_generation(self, *, with_member_id: bool) -> None:
        self._generation = NO_GENERATION
        if with_member_id:
            self.member_id = ""
        self.is_leader = False
        self._outstanding = None
        self._heartbeat = None
        self._join_response = None

    def _fail(self, error: KafkaError) -> list[Effect]:
        lost = self._release(self.owned, is_lost=True) if self._owned else []
        self._forget_generation(with_member_id=True)
        self.state = State.FAILED
        return [*lost, Fail(error)]
