"""Acquires records for a share consumer and sends its acknowledgements: one request under way per broker.

Records are fetched only while the application waits in poll: acquisition locks of records that nothing processes would
run out. Acknowledgements leave with the next ShareFetch to their broker, or with ShareAcknowledge if they cannot wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.share_acknowledgements import Acknowledgements
from ottla.client.core.share_fetching import AcquiredBatches, TakenRecords
from ottla.client.core.share_session import SESSION_LOST, ShareSession, TopicIdPartition, has_renewals
from ottla.client.errors import ErrorCode, KafkaError, NetworkError, error_code, error_of, is_retriable
from ottla.client.fetcher import FETCH_LANE
from ottla.client.metadata import Broker
from ottla.client.share_consumer_config import ShareConsumerConfig
from ottla.wire.messages import share_fetch
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from ottla.wire.messages.share_fetch import ShareFetchResponse
from ottla.wire.primitives import ZERO_UUID

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
NO_LOCK = 2**62

_log = logging.getLogger("ottla.client")
_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Passing troubles that new metadata may end. The locks of records from that broker are lost."""

Results = dict[TopicPartition, KafkaError | None]
Finished = Callable[[TopicPartition, Acknowledgements, KafkaError | None], None]


class _Source:
    """One broker that records are acquired from."""

    def __init__(self, node_id: int, session: ShareSession) -> None:
        self.node_id = node_id
        self.session = session
        self.pending: dict[TopicIdPartition, Acknowledgements] = {}
        """Acknowledgements that have not been sent."""
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None
        self.retry_at = 0
        self.failure_count = 0

    def take_pending(self) -> dict[TopicIdPartition, Acknowledgements]:
        taken, self.pending = self.pending, {}
        return taken


class ShareFetcher:
    """The share sessions of one share consumer."""

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        member_id: str,
        *,
        wake: Callable[[], None],
        finished: Finished,
    ) -> None:
        self.error: KafkaError | None = None
        self.acquisition_lock_timeout_ms: int | None = None
        self._cluster = cluster
        self._config = config
        self._member_id = member_id
        self._wake = wake
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._sources: dict[int, _Source] = {}
        self._acquired: deque[AcquiredBatches] = deque()
        self._partitions: dict[TopicIdPartition, TopicPartition] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_node_id = -1
        self._is_stopped = False

    def _now(self) -> int:
        return int(self._loop.time() * 1000)

    # Records

    def collect(self, max_count: int) -> list[tuple[AcquiredBatches, TakenRecords]]:
        """Acquired records until there are max_count or more. Those whose locks have ended are left out: other members
        may have them."""
        now, count = self._now(), 0
        collected = []
        while self._acquired and count < max_count:
            first = self._acquired[0]
            if now >= first.expires_at:
                _log.debug("%s: acquired records were not handed out in time", first.partition)
                self._acquired.popleft()
                continue
            taken = first.take(max_count - count)
            if taken.error is not None:
                self.error = taken.error
            count += len(taken.records)
            collected.append((first, taken))
            if first.is_empty:
                self._acquired.popleft()
        return collected

    def pump(self, owned: Iterable[TopicPartition]) -> None:
        """Begin a ShareFetch at every broker that leads some of these and has no request under way."""
        if self._is_stopped:
            return
        now = self._now()
        wanted: dict[int, list[TopicIdPartition]] = {}
        for partition in owned:
            info = self._cluster.metadata.topics.get(partition.topic)
            leader_id = self._cluster.leader(*partition)
            if info is None or info.topic_id == ZERO_UUID or leader_id is None or leader_id < 0:
                self._cluster.request_update()
                self._look_again(now + self._config.retry_backoff_ms)
                continue
            one = TopicIdPartition(info.topic_id, partition.partition)
            self._partitions[one] = partition
            wanted.setdefault(leader_id, []).append(one)
        for node_id in self._turns(wanted):
            source = self._source(node_id)
            if source.retry_at > now:
                self._look_again(source.retry_at)
            elif source.task is None:
                source.task = self._loop.create_task(self._fetch(source, wanted[node_id]))
                source.task.add_done_callback(self._fetch_ended(source))
        self.flush(without=wanted)

    def _turns(self, wanted: Mapping[int, object]) -> list[int]:
        """All brokers; with a strict limit on records one after the other."""
        nodes = sorted(wanted)
        if not self._config.is_strict:
            return nodes
        if any(source.task is not None for source in self._sources.values()) or not nodes:
            return []
        now = self._now()
        ready = [node_id for node_id in nodes if self._source(node_id).retry_at <= now] or nodes
        self._last_node_id = next((node_id for node_id in ready if node_id > self._last_node_id), ready[0])
        return [self._last_node_id]

    def _source(self, node_id: int) -> _Source:
        source = self._sources.get(node_id)
        if source is None:
            session = ShareSession(self._config.group_id, self._member_id)
            source = self._sources[node_id] = _Source(node_id, session)
        return source

    def _look_again(self, at: int) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(max(0.001, (at - self._now()) / 1000), self._rang)

    def _rang(self) -> None:
        self._timer = None
        self._wake()

    def _fetch_ended(self, source: _Source) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            source.task = None
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("share fetch from %d: %r", source.node_id, error, exc_info=error)
                self.error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a defect of the client: {error!r}")
            self._wake()

        return ended

    async def _fetch(self, source: _Source, wanted: list[TopicIdPartition]) -> None:
        async with source.lock:
            session = source.session
            if has_renewals(source.pending):
                await self._acknowledge(source, self._config.request_timeout_ms)
            acknowledged = source.take_pending()
            if acknowledged and not session.is_open:
                self._lost(acknowledged)
                acknowledged = {}
            request = session.plan_fetch(wanted, acknowledged)
            request.max_wait_ms = self._config.fetch_max_wait_ms
            request.min_bytes = self._config.fetch_min_bytes
            request.max_bytes = self._config.fetch_max_bytes
            request.max_records = request.batch_size = self._config.max_poll_records
            request.share_acquire_mode = RECORD_LIMIT if self._config.is_strict else BATCH_OPTIMIZED
            timeout_ms = self._config.request_timeout_ms
            try:
                response = await self._cluster.send(source.node_id, request, lane=FETCH_LANE, timeout_ms=timeout_ms)
                session.handle(response.error_code, response.error_message)
            except KafkaError as error:
                self._failed(source, error)
                self._finish(acknowledged, dict.fromkeys(acknowledged, error))
                return
            source.failure_count = 0
            self._handle_fetch(source, response, acknowledged)

    def _failed(self, source: _Source, error: KafkaError) -> None:
        """The next request opens a new session, after a pause unless only the session was lost."""
        source.session.fail()
        _log.debug("share session with %d: %s", source.node_id, error)
        if isinstance(error, NetworkError):
            self._cluster.request_update()
        if error.code in SESSION_LOST:
            return
        if not is_retriable(error):
            self.error = error_of(error.code, error.message) if type(error) is KafkaError else error
        source.failure_count += 1
        source.retry_at = self._now() + int(self._cluster.retry_backoff.pause_ms(source.failure_count))

    def _handle_fetch(
        self,
        source: _Source,
        response: ShareFetchResponse,
        acknowledged: dict[TopicIdPartition, Acknowledgements],
    ) -> None:
        if response.acquisition_lock_timeout_ms > 0:
            self.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms
        lock_ms = self.acquisition_lock_timeout_ms or NO_LOCK
        brokers = [Broker(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
        errors: dict[TopicIdPartition, KafkaError | None] = dict.fromkeys(acknowledged)
        for topic in response.responses:
            for data in topic.partitions:
                one = TopicIdPartition(topic.topic_id, data.partition_index)
                partition = self._partitions.get(one)
                if data.acknowledge_error_code and one in errors:
                    errors[one] = error_of(data.acknowledge_error_code, data.acknowledge_error_message)
                if partition is None:
                    continue
                if data.error_code:
                    self._handle_error(source, partition, data, brokers)
                elif data.acquired_records:
                    try:
                        self._acquired.append(
                            AcquiredBatches(
                                partition,
                                topic.topic_id,
                                source.node_id,
                                data.records or b"",
                                data.acquired_records,
                                expires_at=self._now() + lock_ms,
                                checks_crcs=self._config.check_crcs,
                            )
                        )
                    except KafkaError as error:
                        self.error = error
        self._finish(acknowledged, errors)

    def _handle_error(
        self, source: _Source, partition: TopicPartition, data: share_fetch.PartitionData, brokers: list[Broker]
    ) -> None:
        code = error_code(data.error_code)
        source.failure_count += 1
        source.retry_at = self._now() + int(self._cluster.retry_backoff.pause_ms(source.failure_count))
        if code in _ELSEWHERE:
            leader = data.current_leader
            if leader.leader_id > 0 or leader.leader_epoch > 0:
                self._cluster.leader_moved(*partition, leader.leader_id, leader.leader_epoch, brokers)
            self._cluster.request_update()
        elif not code.is_retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self.error = error_of(code, f"{partition}: {data.error_message or code.text}")
        _log.debug("share fetch of %s from %d: %s", partition, source.node_id, code.name)

    # Acknowledgements

    def add(self, one: TopicIdPartition, node_id: int, acknowledgements: Acknowledgements) -> None:
        """Send these with the next request to their broker."""
        if acknowledgements:
            self._source(node_id).pending.setdefault(one, {}).update(acknowledgements)

    def flush(self, *, without: Iterable[int] = ()) -> None:
        """Send pending acknowledgements, except to brokers that the next fetch goes to."""
        left_out = set(without)
        for node_id, source in self._sources.items():
            if source.pending and (node_id not in left_out or (self._config.is_strict and source.task is None)):
                self._begin(self._acknowledge_alone(source, self._config.default_api_timeout_ms))

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def commit(self, timeout_ms: int) -> Results:
        """Send all pending acknowledgements and wait for the answers."""
        sources = [source for source in self._sources.values() if source.pending]
        done = await asyncio.gather(*(self._acknowledge_alone(source, timeout_ms) for source in sources))
        return {partition: error for results in done for partition, error in results.items()}

    async def _acknowledge_alone(self, source: _Source, timeout_ms: int) -> Results:
        async with source.lock:
            return await self._acknowledge(source, timeout_ms)

    async def _acknowledge(self, source: _Source, timeout_ms: int, *, is_last: bool = False) -> Results:
        """ShareAcknowledge, again for partitions with a passing error; the caller holds the source's lock."""
        ends_at = self._now() + timeout_ms
        results: Results = {}
        attempt = 0
        acknowledged = source.take_pending()
        while acknowledged or is_last:
            if not source.session.is_open:
                results.update(self._lost(acknowledged))
                break
            request = source.session.plan_acknowledge(acknowledged, is_last=is_last)
            left_ms = max(1, min(ends_at - self._now(), self._config.request_timeout_ms))
            try:
                response: ShareAcknowledgeResponse = await self._cluster.send(
                    source.node_id, request, lane=FETCH_LANE, timeout_ms=left_ms
                )
                source.session.handle(response.error_code, response.error_message)
            except KafkaError as error:
                if is_last and error.code is ErrorCode.SHARE_SESSION_NOT_FOUND and not acknowledged:
                    break
                self._failed(source, error)
                results.update(self._finish(acknowledged, dict.fromkeys(acknowledged, error)))
                break
            if response.acquisition_lock_timeout_ms > 0:
                self.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms
            errors = self._errors_of(response, acknowledged)
            again = {
                one: acknowledged[one]
                for one, error in errors.items()
                if error is not None and is_retriable(error) and error.code not in _ELSEWHERE
            }
            attempt += 1
            pause_ms = self._cluster.retry_backoff.pause_ms(attempt)
            if is_last or self._now() + pause_ms >= ends_at:
                again = {}
            done = {one: of_one for one, of_one in acknowledged.items() if one not in again}
            results.update(self._finish(done, errors))
            acknowledged = again
            if is_last:
                break
            if again:
                await asyncio.sleep(pause_ms / 1000)
        self._wake()
        return results

    def _errors_of(
        self, response: ShareAcknowledgeResponse, acknowledged: Mapping[TopicIdPartition, Acknowledgements]
    ) -> dict[TopicIdPartition, KafkaError | None]:
        errors: dict[TopicIdPartition, KafkaError | None] = dict.fromkeys(acknowledged)
        for topic in response.responses:
            for data in topic.partitions:
                one = TopicIdPartition(topic.topic_id, data.partition_index)
                if data.error_code and one in errors:
                    errors[one] = error = error_of(data.error_code, data.error_message)
                    if error.code in _ELSEWHERE:
                        self._cluster.request_update()
        return errors

    def _lost(self, acknowledged: Mapping[TopicIdPartition, Acknowledgements]) -> Results:
        """The session that acquired these records is gone, so the broker has released them."""
        error = KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.SHARE_SESSION_NOT_FOUND.text)
        return self._finish(acknowledged, dict.fromkeys(acknowledged, error))

    def _finish(
        self,
        acknowledged: Mapping[TopicIdPartition, Acknowledgements],
        errors: Mapping[TopicIdPartition, KafkaError | None],
    ) -> Results:
        results: Results = {}
        for one, acknowledgements in acknowledged.items():
            partition = self._partitions[one]
            results[partition] = errors[one]
            self._finished(partition, acknowledgements, errors[one])
        return results

    # The end

    async def close(self, timeout_ms: int) -> None:
        """Send what is acknowledged and close every session: brokers release what is not acknowledged."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._acquired.clear()

        async def close_one(source: _Source) -> None:
            async with source.lock:
                if source.session.is_open:
                    await self._acknowledge(source, timeout_ms, is_last=True)
                source.session.fail()

        await asyncio.gather(*(close_one(source) for source in self._sources.values()))

    async def stop(self) -> None:
        tasks = [*self._tasks, *(source.task for source in self._sources.values() if source.task is not None)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
