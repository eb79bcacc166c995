"""Membership by the consumer protocol (KIP-848): one heartbeat carries everything, and the coordinator shares out.

    UNSUBSCRIBED --Subscribed--> JOINING (epoch 0, every field is sent)
    JOINING      --answered--> STABLE
    STABLE       --a target other than what is owned--> RELEASING (something is taken away) or TAKING
    RELEASING    --Released--> TAKING --Taken--> STABLE; the next heartbeat tells what is owned now
    any          --FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID--> LOSING --Released--> JOINING
    any          --max.poll.interval.ms without a poll--> EXPIRED (it has left) --Polled--> LOSING
    any          --Unsubscribed--> LEAVING --Released, the last heartbeat answered--> UNSUBSCRIBED
    any          --an error that will not pass--> FAILED

M1: at most one heartbeat is under way.
M2: the owned partitions are sent after they were released or taken, never before.
M3: after an unanswered heartbeat every field is sent again.
M4: as many Released and Taken come as were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ottla.client.core.codes import error_code
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
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
NO_EPOCH = -1


_BEATING = (State.JOINING, State.STABLE, State.RELEASING, State.TAKING)
_COMMITTING = (State.STABLE, State.RELEASING, State.TAKING, State.LEAVING)


class ConsumerMembership(Member):
    """One member of a consumer group, as one consumer sees it. It chooses its own member id, once."""

    def __init__(self, config: MembershipConfig, rng: Random, member_id: str) -> None:
        super().__init__(config, rng)
        self.member_id = member_id
        self._epoch = NO_EPOCH
        self._regex: str | None = None
        self._ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._target: dict[bytes, list[int]] | None = None
        self._next_owned: tuple[TopicPartition, ...] = ()
        self._sent: dict[str, object] = {}
        self._heartbeat: ConsumerGroupHeartbeatRequest | None = None
        self._heartbeat_interval_ms = 0

    # For the consumer

    @property
    def generation(self) -> int:
        return self._epoch if self.state in _COMMITTING and self._epoch != JOIN_EPOCH else NO_EPOCH

    @property
    def is_joining(self) -> bool:
        return self.state in (State.JOINING, State.LOSING)

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
                return self._handle_poll(now)
            case Responded(request, ConsumerGroupHeartbeatResponse() as response):
                return self._handle_response(response, now) if request is self._heartbeat else []
            case Unanswered(request):
                return self._handle_silence(now) if request is self._heartbeat else []
            case Refused(request, error):
                if self.state is State.LEAVING:
                    return self._finish_leaving()
                return self._fail(error) if request is self._heartbeat else []
            case Released() | Taken():
                return self._handle_performed(now)
            case TopicsKnown():
                self._learn(event.names)
                return self._reconcile(now)
            case Subscribed(topics, regex):
                return self._subscribe(topics, regex, now)
            case CommitRefused(code, generation):
                return self._handle_refused_commit(code, generation, now)
            case Unsubscribed():
                return self._leave()
            case Responded():
                return []
        raise TypeError(f"a membership does not know {event!r}")

    # Time

    def _tick(self, now: int) -> list[Effect]:
        if any(now >= due for due in self._poll_due()):
            return self._expire()
        if self.state in _BEATING and self._heartbeat is None and now >= self._heartbeat_at:
            return self._beat()
        return []

    def _handle_poll(self, now: int) -> list[Effect]:
        self._polled_at = now
        return self._lose(now) if self.state is State.EXPIRED else []

    def _expire(self) -> list[Effect]:
        """The application does not come back for more: others shall have its partitions."""
        farewell = self._farewell()
        self._heartbeat = None
        self.state = State.EXPIRED
        return [Send(farewell, self.config.request_timeout_ms)]

    # Heartbeats

    def _subscribe(self, topics: tuple[str, ...], regex: str | None, now: int) -> list[Effect]:
        self._topics, self._regex = tuple(sorted(set(topics))), regex
        if self.state is State.UNSUBSCRIBED:
            self._polled_at = now
            return self._begin_join(now)
        self._heartbeat_at = now
        return self._tick(now)

    def _begin_join(self, now: int) -> list[Effect]:
        self.state = State.JOINING
        self._epoch = JOIN_EPOCH
        self._sent = {}
        self._target = None
        self._heartbeat = None
        self._heartbeat_at = now
        return self._beat()

    def _beat(self) -> list[Effect]:
        """All fields while joining, later only those that changed since the last heartbeat."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self.config.group_instance_id,
        )
        told: dict[str, object] = {
            "rebalance_timeout_ms": self.config.max_poll_interval_ms,
            "subscribed_topic_names": list(self._topics),
            "topic_partitions": [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self._owned_by_id().items()
            ],
        }
        if self._regex is not None or self._sent.get("subscribed_topic_regex"):
            told["subscribed_topic_regex"] = self._regex or ""
        if self.config.client_rack is not None:
            told["rack_id"] = self.config.client_rack
        if self.config.group_remote_assignor is not None:
            told["server_assignor"] = self.config.group_remote_assignor
        for name, value in told.items():
            if name not in self._sent or self._sent[name] != value:
                setattr(request, name, value)
        self._sent = told
        self._heartbeat = request
        return [Send(request, self.config.request_timeout_ms)]

    def _owned_by_id(self) -> dict[bytes, list[int]]:
        by_id: dict[bytes, list[int]] = {}
        for topic, partition in sorted(self._owned):
            by_id.setdefault(self._ids[topic], []).append(partition)
        return by_id

    def _handle_silence(self, now: int) -> list[Effect]:
        self._heartbeat = None
        if self.state is State.LEAVING:
            return self._finish_leaving()
        self._sent = {}
        self._back_off(now)
        return [ForgetCoordinator()]

    def _back_off(self, now: int) -> None:
        self._heartbeat_at = now + self.config.backoff_ms(self._failure_count, self._rng)
        self._failure_count += 1

    def _handle_response(self, response: ConsumerGroupHeartbeatResponse, now: int) -> list[Effect]:
        self._heartbeat = None
        code = error_code(response.error_code)
        if self.state is State.LEAVING:
            return self._finish_leaving()
        if code is ErrorCode.NONE:
            return self._handle_heartbeat(response, now)
        self._sent = {}
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            return self._lose(now)
        if code in COORDINATOR_LOST or code.is_retriable:
            self._back_off(now)
            return [ForgetCoordinator()] if code in COORDINATOR_LOST else []
        return self._fail(KafkaError(code, response.error_message))

    def _handle_heartbeat(self, response: ConsumerGroupHeartbeatResponse, now: int) -> list[Effect]:
        self._failure_count = 0
        self._epoch = response.member_epoch
        self._heartbeat_interval_ms = response.heartbeat_interval_ms
        self._heartbeat_at = now + response.heartbeat_interval_ms
        if response.member_id:
            self.member_id = response.member_id
        if self.state is State.JOINING:
            self.state = State.STABLE
        if response.assignment is not None:
            self._target = {topic.topic_id: sorted(topic.partitions) for topic in response.assignment.topic_partitions}
        if self._is_changed():
            self._heartbeat_at = now
        return [*self._reconcile(now), *self._tick(now)]

    def _is_changed(self) -> bool:
        """Whether the subscription changed while the heartbeat was under way."""
        names, regex = self._sent.get("subscribed_topic_names"), self._sent.get("subscribed_topic_regex")
        return names != list(self._topics) or (regex or None) != (self._regex or None)

    # Reconciling

    def _learn(self, names: Mapping[bytes, str]) -> None:
        self._names.update(names)
        self._ids.update((name, topic_id) for topic_id, name in names.items())

    def _reconcile(self, now: int) -> list[Effect]:
        """Bring the owned partitions to the target, as far as the names of its topics are known."""
        if self._target is None or self.state is not State.STABLE:
            return []
        unknown = [topic_id for topic_id in self._target if topic_id not in self._names]
        effects: list[Effect] = [LearnTopics((), tuple(unknown))] if unknown else []
        wanted = {
            TopicPartition(self._names[topic_id], partition): None
            for topic_id, partitions in self._target.items()
            if topic_id in self._names
            for partition in partitions
        }
        if not unknown:
            self._target = None
        if wanted.keys() == self._owned.keys():
            if not unknown:
                # An unchanged assignment is acknowledged, too: the coordinator waits for it.
                self._sent.pop("topic_partitions", None)
                self._heartbeat_at = now
            return effects
        self._next_owned = tuple(sorted(wanted))
        gone = tuple(partition for partition in self._owned if partition not in wanted)
        if gone:
            self.state = State.RELEASING
            return [*effects, *self._release(gone)]
        return [*effects, *self._take()]

    def _take(self) -> list[Effect]:
        self.state = State.TAKING
        added = tuple(partition for partition in self._next_owned if partition not in self._owned)
        self._owned = dict.fromkeys(self._next_owned)
        self._asked_count += 1
        return [Take(added)]

    def _handle_performed(self, now: int) -> list[Effect]:
        if not self._has_performed_all():
            return []
        match self.state:
            case State.RELEASING:
                self._keep(self._next_owned)
                return self._take()
            case State.TAKING:
                return self._settle(now)
            case State.LOSING:
                self._owned = {}
                return self._begin_join(now)
            case State.LEAVING:
                self._owned = {}
                return self._say_goodbye()
            case State.FAILED:
                self._owned = {}
        return []

    def _settle(self, now: int) -> list[Effect]:
        """Report the owned partitions at once (M2): other members may wait for the released ones."""
        self.state = State.STABLE
        self._heartbeat_at = now
        again = self._reconcile(now)
        return [*again, *self._tick(now)]

    # Out of the group

    def _handle_refused_commit(self, code: ErrorCode, generation: int, now: int) -> list[Effect]:
        if code in COORDINATOR_LOST:
            return [ForgetCoordinator()]
        if code is ErrorCode.UNKNOWN_MEMBER_ID and generation == self.generation:
            return self._lose(now)
        return []

    def _lose(self, now: int) -> list[Effect]:
        """Other members may own these partitions now: the application is notified, and the member joins anew."""
        self._target = None
        self._heartbeat = None
        if not self._owned and not self._asked_count:
            return self._begin_join(now)
        self.state = State.LOSING
        return self._release(self.owned, is_lost=True) if self._owned else []

    def _leave(self) -> list[Effect]:
        if self.state in (State.UNSUBSCRIBED, State.LEAVING):
            return []
        is_out = self.state in (State.EXPIRED, State.LOSING, State.FAILED)
        if is_out:
            self._epoch = NO_EPOCH
        self.state = State.LEAVING
        self._heartbeat = None
        if self._owned:
            return self._release(self.owned, is_lost=is_out)
        return self._say_goodbye() if not self._asked_count else []

    def _farewell(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self.config.group_instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH,
            instance_id=self.config.group_instance_id,
        )

    def _say_goodbye(self) -> list[Effect]:
        if self._epoch == NO_EPOCH:
            return self._finish_leaving()
        self._heartbeat = self._farewell()
        self._epoch = NO_EPOCH
        return [Send(self._heartbeat, self.config.request_timeout_ms)]

    def _finish_leaving(self) -> list[Effect]:
        self.state = State.UNSUBSCRIBED
        self._epoch = NO_EPOCH
        self._heartbeat = None
        return [Left()]

    def _fail(self, error: KafkaError) -> list[Effect]:
        self.state = State.FAILED
        self._heartbeat = None
        return [*(self._release(self.owned, is_lost=True) if self._owned else []), Fail(error)]
