"""Membership of a share group (KIP-932): the client chooses the member id, the coordinator the partitions, and a new
assignment takes effect at once. Members share partitions, so nothing has to be revoked before others may read it.

    UNSUBSCRIBED --Subscribed--> JOINING (epoch 0, the subscription is sent)
    JOINING      --answered--> STABLE
    any          --FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID--> JOINING, with no partitions
    any          --max.poll.interval.ms without a poll--> EXPIRED (it has left) --Polled--> JOINING
    any          --Unsubscribed--> LEAVING --the last heartbeat answered--> UNSUBSCRIBED
    any          --an error that is not retriable--> FAILED

S1: at most one heartbeat is under way.
S2: after an unanswered or refused heartbeat the whole subscription is sent again.
"""

from __future__ import annotations

from random import Random

from ottla.client.core.codes import error_code
from ottla.client.core.membership import (
    COORDINATOR_LOST,
    Effect,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    Left,
    Member,
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
from ottla.client.core.partitions import TopicPartition
from ottla.machine import Tick
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
NO_EPOCH = -1

_BEATING = (State.JOINING, State.STABLE)


class ShareMembership(Member):
    """One member of a share group, as one share consumer sees it."""

    def __init__(self, config: MembershipConfig, rng: Random, member_id: str) -> None:
        super().__init__(config, rng)
        self.member_id = member_id
        self._epoch = NO_EPOCH
        self._names: dict[bytes, str] = {}
        self._target: dict[bytes, list[int]] | None = None
        """The last assignment, until the names of all of its topics are known."""
        self._told: tuple[str, ...] | None = None
        """The subscription of the last successful heartbeat."""
        self._heartbeat: ShareGroupHeartbeatRequest | None = None

    @property
    def generation(self) -> int:
        return self._epoch if self.state is State.STABLE else NO_EPOCH

    @property
    def is_joining(self) -> bool:
        return self.state is State.JOINING

    @property
    def is_in_group(self) -> bool:
        """Whether a heartbeat that leaves has to be sent and answered before the member is gone."""
        return self.state in (*_BEATING, State.LEAVING)

    def deadline(self) -> int | None:
        times = self._poll_due()
        if self.state in _BEATING and self._heartbeat is None:
            times.append(self._heartbeat_at)
        return min(times, default=None)

    def handle(self, event: object, now: int) -> list[Effect]:
        match event:
            case Tick():
                return self._tick(now)
            case Polled():
                self._polled_at = now
                return self._begin_join(now) if self.state is State.EXPIRED else []
            case Responded(request, ShareGroupHeartbeatResponse() as response):
                return self._handle_response(response, now) if request is self._heartbeat else []
            case Unanswered(request):
                return self._handle_silence(now) if request is self._heartbeat else []
            case Refused(request, error):
                if request is not self._heartbeat:
                    return []
                return self._finish_leaving() if self.state is State.LEAVING else self._fail(error)
            case TopicsKnown():
                self._names.update(event.names)
                return self._assign(is_answer=event.is_answer)
            case Subscribed(topics, _):
                return self._subscribe(topics, now)
            case Unsubscribed():
                return self._leave()
            case Responded():
                return []
        raise TypeError(f"a share membership does not know {event!r}")

    # Time

    def _tick(self, now: int) -> list[Effect]:
        if any(now >= due for due in self._poll_due()):
            farewell = self._farewell()
            self._heartbeat = None
            self._owned = {}
            self.state = State.EXPIRED
            return [Send(farewell, self.config.request_timeout_ms)]
        if self.state in _BEATING and self._heartbeat is None and now >= self._heartbeat_at:
            return self._beat()
        return []

    # Heartbeats

    def _subscribe(self, topics: tuple[str, ...], now: int) -> list[Effect]:
        self._topics = tuple(sorted(set(topics)))
        if self.state is State.UNSUBSCRIBED:
            self._polled_at = now
            return self._begin_join(now)
        self._heartbeat_at = now
        return self._tick(now)

    def _begin_join(self, now: int) -> list[Effect]:
        had_partitions = bool(self._owned)
        self.state = State.JOINING
        self._epoch = JOIN_EPOCH
        self._told = self._target = self._heartbeat = None
        self._owned = {}
        self._heartbeat_at = now
        return [*([Take(())] if had_partitions else []), *self._beat()]

    def _beat(self) -> list[Effect]:
        request = ShareGroupHeartbeatRequest(
            group_id=self.config.group_id, member_id=self.member_id, member_epoch=self._epoch
        )
        if self._told is None:
            request.rack_id = self.config.client_rack
        if self._told != self._topics:
            request.subscribed_topic_names = list(self._topics)
        self._told = self._topics
        self._heartbeat = request
        return [Send(request, self.config.request_timeout_ms)]

    def _handle_silence(self, now: int) -> list[Effect]:
        self._heartbeat = None
        if self.state is State.LEAVING:
            return self._finish_leaving()
        self._told = None
        self._back_off(now)
        return [ForgetCoordinator()]

    def _back_off(self, now: int) -> None:
        self._heartbeat_at = now + self.config.backoff_ms(self._failure_count, self._rng)
        self._failure_count += 1

    def _handle_response(self, response: ShareGroupHeartbeatResponse, now: int) -> list[Effect]:
        self._heartbeat = None
        if self.state is State.LEAVING:
            return self._finish_leaving()
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            return self._handle_error(code, response.error_message, now)
        self._failure_count = 0
        self._epoch = response.member_epoch
        self._heartbeat_at = now + response.heartbeat_interval_ms
        self.state = State.STABLE
        if self._told != self._topics:
            self._heartbeat_at = now  # the subscription changed while the heartbeat was under way
        effects: list[Effect] = []
        if response.assignment is not None:
            self._target = {topic.topic_id: sorted(topic.partitions) for topic in response.assignment.topic_partitions}
            effects = self._assign(is_answer=False)
        return [*effects, *self._tick(now)]

    def _handle_error(self, code: ErrorCode, message: str | None, now: int) -> list[Effect]:
        self._told = None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            return self._begin_join(now)
        if code in COORDINATOR_LOST or code.is_retriable:
            self._back_off(now)
            return [ForgetCoordinator()] if code in COORDINATOR_LOST else []
        return self._fail(KafkaError(code, message))

    # Assignment

    def _assign(self, *, is_answer: bool) -> list[Effect]:
        """Own the target as far as the names of its topics are known; ask for the others once per assignment."""
        target = self._target
        if target is None or self.state is not State.STABLE:
            return []
        unknown = tuple(topic_id for topic_id in target if topic_id not in self._names)
        owned = {
            TopicPartition(self._names[topic_id], partition): None
            for topic_id, partitions in target.items()
            if topic_id in self._names
            for partition in partitions
        }
        if not unknown:
            self._target = None
        effects: list[Effect] = [LearnTopics((), unknown)] if unknown and not is_answer else []
        if owned.keys() != self._owned.keys():
            self._owned = owned
            effects.append(Take(tuple(owned)))
        return effects

    # Out of the group

    def _leave(self) -> list[Effect]:
        if self.state in (State.UNSUBSCRIBED, State.LEAVING):
            return []
        was_in_group = self.state in _BEATING
        self._owned = {}
        self._target = None
        self.state = State.LEAVING
        if not was_in_group:
            return self._finish_leaving()
        self._heartbeat = self._farewell()
        return [Send(self._heartbeat, self.config.request_timeout_ms)]

    def _farewell(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self.config.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )

    def _finish_leaving(self) -> list[Effect]:
        self.state = State.UNSUBSCRIBED
        self._epoch = NO_EPOCH
        self._heartbeat = self._told = None
        return [Left()]

    def _fail(self, error: KafkaError) -> list[Effect]:
        self.state = State.FAILED
        self._heartbeat = None
        self._owned = {}
        return [Fail(error)]
