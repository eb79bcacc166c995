"""Sends a producer's batches to the leaders of their partitions, and deals with the answers.

Nothing here waits: `wake` arranges for one run of `_run` soon, which sends whatever may be sent now and sets a timer
for what may be sent later; an answer, new metadata or a connection wakes it again. The decisions are in
`core.accumulator` (when), `core.sequences` (under which numbers) and `Transactions` (whether at all)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.connection import Connection
from ottla.client.core.accumulator import Accumulator, Batch, PartitionQueue
from ottla.client.core.sequences import Sequences
from ottla.client.errors import (
    AuthenticationError,
    ClientClosed,
    ConfigError,
    ErrorCode,
    KafkaError,
    NetworkError,
    RecordTooLarge,
    RequestTimedOut,
    TransactionAborted,
    error_of,
)
from ottla.client.metadata import Broker
from ottla.client.transactions import Transactions
from ottla.records import Compression
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.primitives import ZERO_UUID

_log = logging.getLogger("ottla.client")

PRODUCE = 0
LAST_VERSION_WITH_NAMES = 12
LAST_VERSION_BEFORE_TRANSACTIONS_V2 = 11
REQUEST_OVERHEAD = 512


class Sender:
    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: Accumulator,
        sequences: Sequences,
        transactions: Transactions | None,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._sequences = sequences
        self._transactions = transactions
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight: dict[int, int] = {}
        self._waiting_for: dict[int, asyncio.Task[None]] = {}
        self._identifying: asyncio.Task[None] | None = None
        self._compression = Compression[config.compression_type.upper()]
        self._level: int | None = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: config.compression_lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }.get(self._compression)
        self._is_closed = False
        self.failure: KafkaError | None = None
        """The error that makes all further sending pointless."""
        cluster.on_change(lambda _: self.wake())
        cluster.on_failure(self.fail_all)
        if transactions is not None:
            transactions.wake = self.wake

    def wake(self) -> None:
        """Something may have become ready: look soon, once for all that happens until then."""
        if self._soon is None and not self._is_closed:
            self._soon = self._loop.call_soon(self._run)

    async def close(self) -> None:
        """Stop sending; batches that are not done fail."""
        self._is_closed = True
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()
        tasks = list(self._waiting_for.values())
        if self._identifying is not None:
            tasks.append(self._identifying)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def fail_all(self, error: KafkaError) -> None:
        """Give up every batch that is not done."""
        for batch in self._accumulator.incomplete():
            self._give_up(batch, error)

    def drop_unsent(self, error: KafkaError) -> None:
        """Give up every batch that is not on the wire."""
        for batch in self._accumulator.incomplete():
            if not batch.is_on_wire:
                self._give_up(batch, error)

    async def drained(self) -> None:
        """Wait until every batch that exists now is done; nothing lingers meanwhile."""
        self._accumulator.close_all()
        batches = self._accumulator.incomplete()
        if not batches:
            return
        done: asyncio.Future[None] = self._loop.create_future()
        left = len(batches)

        def one_done(_: Batch) -> None:
            nonlocal left
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        for batch in batches:
            batch.callbacks.append(one_done)
        self.wake()
        await done

    # Sending

    def _run(self) -> None:
        self._soon = None
        if self._is_closed:
            return
        now = self._loop.time() * 1000
        self._expire(now)
        failure = self.failure
        if failure is None and self._transactions is not None:
            failure = self._transactions.fatal_error
        if failure is not None:
            self.fail_all(failure)
            return
        if self._transactions is not None and (error := self._transactions.abortable_error) is not None:
            self.drop_unsent(TransactionAborted(f"the transaction failed: {error}"))
        ready = self._accumulator.ready(now)
        if ready:
            self._send_ready(ready, now)
        deadline = self._accumulator.deadline(now)
        if deadline is not None:
            self._look_again_at(max(deadline, now + 1) / 1000)

    def _look_again_at(self, when: float) -> None:
        """A timer that is set for an earlier moment stays: to look once more costs less than to set another each time
        something is sent."""
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._run_later)

    def _run_later(self) -> None:
        self._timer = None
        if self._soon is None:
            self._run()

    def _send_ready(self, ready: list[PartitionQueue], now: float) -> None:
        if self._config.enable_idempotence and not self._sequences.has_id:
            self._identify()
            return
        by_node: dict[int, list[PartitionQueue]] = {}
        transactions = self._transactions
        for queue in ready:
            leader = self._cluster.leader(*queue.partition)
            if leader is None:
                self._cluster.request_update()
            elif transactions is None or transactions.may_send(queue.partition):
                by_node.setdefault(leader, []).append(queue)
        for node_id, queues in by_node.items():
            connection = self._cluster.ready(node_id)
            if connection is None or connection.is_full:
                self._wait_for(node_id, connection)
                continue
            limit = self._config.max_in_flight_requests_per_connection
            while queues and self._in_flight.get(node_id, 0) < limit and not connection.is_full:
                batches, queues = self._take(queues)
                if not batches:
                    break
                self._send(node_id, connection, batches, now)
                still = set(self._accumulator.ready(now))
                queues = queues + [batch.queue for batch in batches if batch.queue in still]

    def _take(self, queues: list[PartitionQueue]) -> tuple[list[Batch], list[PartitionQueue]]:
        """The first batch of as many queues as fit one request, and the queues that do not fit."""
        batches: list[Batch] = []
        size = REQUEST_OVERHEAD
        for index, queue in enumerate(queues):
            first = queue.batches[0]
            if batches and size + first.size > self._config.max_request_size:
                return batches, queues[index:]
            if self._config.enable_idempotence and not self._sequences.prepare(queue):
                if not self._sequences.has_id:
                    self._identify()
                continue
            size += first.size
            batches.append(self._accumulator.take(queue))
        return batches, []

    def _send(self, node_id: int, connection: Connection, batches: list[Batch], now: float) -> None:
        topics: dict[str, TopicProduceData] = {}
        has_ids = True
        for batch in batches:
            name, partition = batch.queue.partition
            data = topics.get(name)
            if data is None:
                info = self._cluster.metadata.topics.get(name)
                topic_id = ZERO_UUID if info is None else info.topic_id
                has_ids = has_ids and topic_id != ZERO_UUID
                data = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            if batch.encoded is None:
                batch.encoded = batch.records.build(
                    compression=self._compression,
                    level=self._level,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    base_sequence=batch.base_sequence,
                    is_transactional=batch.is_transactional,
                )
            data.partition_data.append(PartitionProduceData(index=partition, records=batch.encoded))
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        last = None if has_ids else LAST_VERSION_WITH_NAMES
        if self._transactions is not None and not self._transactions.is_v2:
            last = LAST_VERSION_BEFORE_TRANSACTIONS_V2
        try:
            version = connection.version_of(PRODUCE, last)
            if self._config.acks == 0:
                connection.send_only(request, version=version)
                for batch in batches:
                    self._accumulator.finish(batch)
                return
            answer = connection.request(request, version=version)
        except KafkaError as error:
            for batch in batches:
                self._failed(batch, error)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        answer.add_done_callback(lambda done: self._answered(node_id, batches, done))

    def _wait_for(self, node_id: int, connection: Connection | None) -> None:
        """Run again when the broker is connected, or its socket takes more."""
        if node_id not in self._waiting_for:
            task = self._loop.create_task(self._wait(node_id, connection))
            self._waiting_for[node_id] = task

    async def _wait(self, node_id: int, connection: Connection | None) -> None:
        try:
            if connection is not None and not connection.is_closed:
                await connection.room()
            else:
                await self._cluster.connection(node_id)
        except (AuthenticationError, ConfigError) as error:
            self.fail_all(error)
        except KafkaError as error:
            # Batches wait for the next try, or for new metadata, until their time is over.
            _log.debug("broker %d: %s", node_id, error)
            await asyncio.sleep(self._config.reconnect_backoff_ms / 1000)
        finally:
            self._waiting_for.pop(node_id, None)
        self.wake()

    # Answers

    def _answered(self, node_id: int, batches: list[Batch], answer: asyncio.Future[Any]) -> None:
        self._in_flight[node_id] -= 1
        if answer.cancelled():
            error: BaseException | None = NetworkError("the request was given up")
        else:
            error = answer.exception()
        if error is None:
            self._handle_response(batches, answer.result())
        else:
            assert isinstance(error, KafkaError), error
            self._cluster.request_update()
            for batch in batches:
                batch.is_unsure = True
                self._failed(batch, error)
        self.wake()

    def _handle_response(self, batches: list[Batch], response: ProduceResponse) -> None:
        answers: dict[tuple[str, int], PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or self._cluster.metadata.names.get(topic.topic_id, "")
            for partition in topic.partition_responses:
                answers[name, partition.index] = partition
        brokers = [Broker(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
        for batch in batches:
            answered = answers.get(batch.queue.partition)
            if answered is None:
                batch.is_unsure = True
                self._failed(batch, NetworkError(f"the broker's answer leaves out {batch.queue.partition}"))
            elif answered.error_code == 0:
                self._written(batch, answered.base_offset, answered.log_append_time_ms)
            else:
                self._refused(batch, answered, brokers)

    def _written(self, batch: Batch, base_offset: int, log_append_time: int) -> None:
        if not batch.is_done:
            batch.base_offset = base_offset
            batch.log_append_time = log_append_time
        self._accumulator.finish(batch)
        for earlier in self._sequences.proven(batch):
            self._accumulator.finish(earlier)

    def _refused(self, batch: Batch, answered: PartitionProduceResponse, brokers: list[Broker]) -> None:
        error = error_of(answered.error_code, answered.error_message)
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            error = _too_large(batch, error)
        if error.code in _MAY_BE_WRITTEN:
            batch.is_unsure = True
        leader = answered.current_leader
        if leader is not None and leader.leader_id >= 0:
            self._cluster.leader_moved(*batch.queue.partition, leader.leader_id, leader.leader_epoch, brokers)
        elif error.code.is_retriable:
            self._cluster.request_update()
        batch.record_errors = {
            one.batch_index: one.batch_index_error_message for one in answered.record_errors[: batch.count]
        }
        self._failed(batch, error)

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        """Send the batch again, or give it up."""
        code = error.code
        accumulator = self._accumulator
        if batch.is_done:
            accumulator.finish(batch)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._written(batch, -1, -1)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            accumulator.split(batch)
        elif self._config.enable_idempotence and code in _SEQUENCE_ERRORS and self._recover(batch, code):
            return
        elif code.is_retriable and batch.attempts <= self._config.retries and self._may_retry(batch):
            pause_ms = self._cluster.retry_backoff.pause_ms(batch.attempts)
            if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                pause_ms = min(pause_ms, 20)
            batch.retried_after = error
            accumulator.put_back(batch, self._loop.time() * 1000 + pause_ms)
        else:
            self._give_up(batch, error)

    def _may_retry(self, batch: Batch) -> bool:
        if self._transactions is None:
            return True
        # The sent records may be written: the end of the transaction decides about them, not a retry.
        return self._transactions.abortable_error is None and not self._transactions.is_aborting

    def _recover(self, batch: Batch, code: ErrorCode) -> bool:
        """Whether a batch with an unexpected sequence stays in its queue; False: it fails."""
        queue = batch.queue
        had_gap = queue.needs_reset
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            batch.is_refused = True
            queue.needs_reset = True
        elif self._sequences.out_of_order(batch):
            self._accumulator.set_aside(batch)
            return True
        if self._transactions is not None and ((queue.needs_reset and not had_gap) or not self._may_retry(batch)):
            # A transaction cannot take a new epoch: its missing records are lost, so it must abort.
            return False
        self._accumulator.put_back(batch, 0.0)
        if queue.needs_reset:
            self._accumulator.bring_back(queue)
        return True

    def _give_up(self, batch: Batch, error: KafkaError) -> None:
        if batch.is_done:
            return
        if self._transactions is not None:
            self._transactions.batch_failed(error)
        self._sequences.gave_up(batch)
        self._accumulator.bring_back(batch.queue)
        batch.error = error
        if not batch.is_watched and not isinstance(error, TransactionAborted | ClientClosed):
            topic, partition = batch.queue.partition
            _log.error("%d records for %s-%d were not written: %s", batch.count, topic, partition, error)
        self._accumulator.finish(batch)

    def _expire(self, now: float) -> None:
        for batch in self._accumulator.expired(now):
            topic, partition = batch.queue.partition
            tries = "it was never sent" if not batch.attempts else f"attempts: {batch.attempts}"
            if batch.retried_after is not None:
                tries += f", the last error was {batch.retried_after}"
            timeout_ms = self._config.delivery_timeout_ms
            self._give_up(
                batch, RequestTimedOut(f"{topic}-{partition} did not accept a batch within {timeout_ms} ms: {tries}")
            )

    # The producer id

    def _identify(self) -> None:
        if self._identifying is None and self._transactions is None:
            self._identifying = self._loop.create_task(self._init_producer_id())

    async def _init_producer_id(self) -> None:
        attempt = 0
        try:
            while True:
                try:
                    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
                    response: InitProducerIdResponse = await self._cluster.send_any(request)
                    if response.error_code == 0:
                        self._sequences.begin(response.producer_id, response.producer_epoch)
                        return
                    error: KafkaError = error_of(response.error_code)
                except KafkaError as failed:
                    error = failed
                if not error.code.is_retriable:
                    self.failure = error
                    return
                attempt += 1
                await asyncio.sleep(self._cluster.retry_backoff.pause_ms(attempt) / 1000)
        finally:
            self._identifying = None
            self.wake()


def _too_large(batch: Batch, error: KafkaError) -> KafkaError:
    """A copy of the error with advice: the broker's message names neither the setting nor a way out."""
    topic = batch.queue.partition.topic
    return RecordTooLarge(
        f"{(error.message or error.code.text).rstrip('.')}: the limit is max.message.bytes of topic {topic}, or "
        "message.max.bytes of the broker if the topic does not set it. Raise it "
        f'(admin.set_topic_config("{topic}", {{"max.message.bytes": "..."}})), send smaller records, or compress them '
        "(compression_type)"
    )


_SEQUENCE_ERRORS = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
_MAY_BE_WRITTEN = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of a leader that may have appended the batch: it lost the partition while the request was parked for acks=all,
or the ISR did not replicate the batch in time."""
