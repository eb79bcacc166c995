"""Keeps data coming: one fetch under way per broker, for all partitions there that have room for more.

A partition is fetched ahead of the application until about twice max.partition.fetch.bytes of it wait, so that the next
data is there when the last has been read (`core.fetch_turns` says when); when about fetch.max.bytes wait in all, only
partitions without data are fetched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.core.fetch_turns import FetchTurns
from ottla.client.core.fetching import FetchedBatches, FetchSession, FetchTarget
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import AssignedPartition, IsolationLevel, ResetKind, Subscription
from ottla.client.errors import ErrorCode, KafkaError, NetworkError, error_code, error_of, is_retriable
from ottla.client.metadata import Broker
from ottla.client.validation import PositionValidation
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.wire.primitives import ZERO_UUID

FETCH_LANE = "fetch"
AHEAD = 2
"""A partition is fetched until about so many times max.partition.fetch.bytes of it wait."""
FEW_BYTES = 16 * 1024
"""So few the application has at once: to ask for the next takes longer than to hand these out."""
NO_REPLICA = -1

_log = logging.getLogger("ottla.client")
_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Passing troubles that new metadata may end."""

Sent = dict[TopicPartition, tuple[AssignedPartition, int, int]]
"""The requested partitions: the state of each, with its seek count and offset at that time."""


class Fetcher:
    """The fetches of one consumer."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, subscription: Subscription, wake: Callable[[], None]
    ) -> None:
        self.error: KafkaError | None = None
        self.turns = FetchTurns(config.fetch_max_wait_ms)
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[int, FetchSession] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._attempts: dict[int, int] = {}
        self._isolation_level = IsolationLevel[config.isolation_level.upper()]
        self._validation = PositionValidation(cluster, subscription, config.retry_backoff_ms, self._validated)
        self._is_stopped = False
        self.is_awaited = False
        """Whether the application waits for records, and for nothing else."""
        self.gives_way = False
        """Whether the application has its few records first, and the next fetch leaves in a moment."""

    def _validated(self, error: KafkaError | None) -> None:
        self.error = error or self.error
        self._wake()
        self.pump()

    def _now(self) -> int:
        return int(self._loop.time() * 1000)

    # Asking

    def pump(self) -> None:
        """Begin a fetch at every broker that has none under way and leads partitions with room."""
        self.gives_way = False
        if self._is_stopped:
            return
        now = self._now()
        waiting = sum(state.fetched_size for state in self._subscription.assigned.values())
        ahead_bytes = AHEAD * self._config.max_partition_fetch_bytes
        room = ahead_bytes if waiting < self._config.fetch_max_bytes else 1
        wanting, holding = [], []
        for state in self._subscription.assigned.values():
            if state.is_damaged:
                state.is_damaged = False
                self._later(state, now)
            if state.wants_data(room, now):
                wanting.append(state)
                continue
            if state.fetched:
                holding.append(state)
            if state.retry_at > now:
                self._look_again(state.retry_at)
        if wanting:
            self._begin_where_none_is(wanting, holding, waiting < ahead_bytes, now)

    def _begin_where_none_is(
        self, wanting: list[AssignedPartition], holding: list[AssignedPartition], has_few: bool, now: int
    ) -> None:
        unsure = self._validation.needed(wanting)
        if unsure:
            self._validation.begin(unsure)
            wanting = [state for state in wanting if not state.is_fetching]
        wanted: dict[int, dict[TopicPartition, AssignedPartition]] = {}
        for state in wanting:
            node_id = self._node_of(state, now)
            if node_id == NO_REPLICA:
                self._cluster.request_update()
                self._later(state, now)
                self._look_again(state.retry_at)
            elif node_id not in self._tasks:
                wanted.setdefault(node_id, {})[state.partition] = state
        for node_id, states in wanted.items():
            there = [state for state in holding if self._node_of(state, now) == node_id]
            wait_ms = self.turns.wait_ms(node_id, list(states.values()), there, has_few, now)
            if wait_ms is not None:
                self.turns.asked(node_id, now)
                self._begin(node_id, states, wait_ms)
            elif self.turns.next_at(node_id) > now:
                self._look_again(self.turns.next_at(node_id))

    def _look_again(self, retry_at: int) -> None:
        if self._timer is None or self._timer.when() > (retry_at + 1) / 1000:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at((retry_at + 1) / 1000, self._again)

    def _node_of(self, state: AssignedPartition, now: int) -> int:
        if state.preferred_replica != NO_REPLICA:
            if now < state.preferred_until and state.preferred_replica in self._cluster.metadata.brokers:
                return state.preferred_replica
            state.preferred_replica = NO_REPLICA
        leader = self._cluster.leader(*state.partition)
        return NO_REPLICA if leader is None else leader

    def _later(self, state: AssignedPartition, now: int) -> None:
        state.retry_at = now + self._config.retry_backoff_ms

    def _again(self) -> None:
        self._timer = None
        self.pump()

    def _begin(self, node_id: int, states: dict[TopicPartition, AssignedPartition], wait_ms: int) -> None:
        """Put the request together at once: a seek before it is sent must not get into it."""
        topics = self._cluster.metadata.topics
        targets: dict[TopicPartition, FetchTarget] = {}
        sent: Sent = {}
        for partition, state in states.items():
            state.is_fetching = True
            info = topics.get(partition.topic)
            known = self._cluster.metadata.partition(*partition)
            leader_epoch = -1 if known is None else known.leader_epoch
            targets[partition] = FetchTarget(
                ZERO_UUID if info is None else info.topic_id,
                state.fetch_offset,
                leader_epoch,
                self._config.max_partition_fetch_bytes,
            )
            state.validated_epoch = leader_epoch  # it was, or nothing is known that could be compared
            sent[partition] = state, state.seek_count, state.fetch_offset
        session = self._sessions.setdefault(node_id, FetchSession())
        request = session.plan(targets)
        config = self._config
        request.max_wait_ms = wait_ms
        request.min_bytes = config.fetch_min_bytes
        request.max_bytes = config.fetch_max_bytes
        request.isolation_level = int(self._isolation_level)
        request.rack_id = config.client_rack or ""
        timeout_ms = config.request_timeout_ms + request.max_wait_ms
        # The request leaves now if it can: the broker answers while the last answer is decoded.
        answer = self._cluster.begin(
            node_id, request, lane=FETCH_LANE, timeout_ms=timeout_ms, max_version=session.max_version
        )
        task = self._tasks[node_id] = self._loop.create_task(
            self._fetch(node_id, session, request, timeout_ms, answer, sent)
        )
        if answer is not None:
            task.add_done_callback(lambda _: answer.cancel())

    async def _fetch(
        self,
        node_id: int,
        session: FetchSession,
        request: FetchRequest,
        timeout_ms: int,
        answer: asyncio.Future[FetchResponse] | None,
        sent: Sent,
    ) -> None:
        states = [state for state, _, _ in sent.values()]
        try:
            if answer is not None:
                response = await answer
            else:
                response = await self._cluster.send(
                    node_id, request, lane=FETCH_LANE, timeout_ms=timeout_ms, max_version=session.max_version
                )
            self._take_answer(node_id, session, response, sent)
        except KafkaError as error:
            self._failed(node_id, session, states, error)
        except asyncio.CancelledError:
            session.fail()
            raise
        finally:
            for state in states:
                state.is_fetching = False
            self._tasks.pop(node_id, None)
        if self.is_awaited and 0 < sum(state.fetched_size for state in states) <= FEW_BYTES:
            # The application's own work, such as sending records, runs before the next fetch.
            self.gives_way = True
            self._loop.call_soon(self._loop.call_soon, self._give_way)
        else:
            self.pump()

    def _give_way(self) -> None:
        if self.gives_way:
            self.pump()

    # Answers

    def _take_answer(self, node_id: int, session: FetchSession, response: FetchResponse, sent: Sent) -> None:
        answered = session.handle(response)
        self._attempts.pop(node_id, None)
        brokers = [Broker(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
        for partition, data in answered:
            if partition in sent:
                self._handle(node_id, partition, data, sent[partition], brokers)
        self._wake()

    def _handle(
        self,
        node_id: int,
        partition: TopicPartition,
        data: PartitionData,
        sent: tuple[AssignedPartition, int, int],
        brokers: list[Broker],
    ) -> None:
        state, seek_count, offset = sent
        if state.seek_count != seek_count or self._subscription.assigned.get(partition) is not state:
            return
        if data.error_code:
            self._handle_error(node_id, state, data, offset, brokers)
            return
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        is_committed = self._isolation_level is IsolationLevel.READ_COMMITTED
        state.readable_end = data.last_stable_offset if is_committed else data.high_watermark
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until = self._now() + self._config.metadata_max_age_ms
        if data.records:
            aborted = data.aborted_transactions if is_committed else None
            try:
                state.add(FetchedBatches(partition, data.records, offset, aborted, checks_crcs=self._config.check_crcs))
            except KafkaError as error:
                self._later(state, self._now())
                self.error = error

    def _handle_error(
        self, node_id: int, state: AssignedPartition, data: PartitionData, offset: int, brokers: list[Broker]
    ) -> None:
        code = error_code(data.error_code)
        was_follower = node_id == state.preferred_replica
        state.preferred_replica = NO_REPLICA
        self._later(state, self._now())
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # Records fetched before belong to the application still; the offset behind them is tried again later.
            if not was_follower and not state.fetched:
                self._out_of_range(state, offset)
        elif code in _ELSEWHERE:
            leader = data.current_leader
            if leader is not None and leader.leader_id >= 0:
                self._cluster.leader_moved(*state.partition, leader.leader_id, leader.leader_epoch, brokers)
            self._cluster.request_update()
        elif not code.is_retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self.error = error_of(code, f"{state.partition} at offset {offset}: {code.text}")
        _log.debug("fetch of %s at %d from %d: %s", state.partition, offset, node_id, code.name)

    def _out_of_range(self, state: AssignedPartition, offset: int) -> None:
        reset = self._subscription.default_reset
        if reset.kind is ResetKind.NONE:
            self.error = error_of(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{state.partition} has no offset {offset}, and auto.offset.reset is none",
            )
            return
        state.begin_reset(reset)

    def _failed(self, node_id: int, session: FetchSession, states: list[AssignedPartition], error: KafkaError) -> None:
        """No answer, or none that means anything: after a pause the broker is asked again, or another one."""
        session.fail()
        if isinstance(error, NetworkError):
            self._cluster.request_update()
        _log.debug("fetch from %d: %s", node_id, error)
        if not is_retriable(error):
            self.error = error
        now = self._now()
        for state in states:
            state.preferred_replica = NO_REPLICA
            if error.code not in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
                self._later(state, now)
        self._wake()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._validation.stop()
