"""The producer: records into partitions, in batches, each written once however often it has to be sent.

    async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        written = await producer.send("orders", b"one apple", key=b"alice")
        print(written.partition, written.offset)

`send` never blocks: it returns a `Delivery`, which can be awaited now, later, or not at all (what is lost then is named
in the log). To write much, `await producer.send_many(topic, values)`; or send without awaiting each and call
`await producer.room()` now and then, so that the buffer (buffer.memory) does not run full; `await producer.flush()`
waits until everything is written.

A producer has to be closed, by `async with` or `close`: records that were not sent are lost, and the log counts them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import repeat
from random import Random
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from ottla.client import lifetimes, statistics
from ottla.client.cluster import Cluster
from ottla.client.config import ProducerConfig
from ottla.client.connection import OS_SOCKETS
from ottla.client.core.accumulator import MAX_RECORD_OVERHEAD, Accumulator, Batch, PartitionQueue
from ottla.client.core.offsets import OffsetAndMetadata
from ottla.client.core.partitioner import RoundRobin, StickyPartition, in_rack, partition_for_key
from ottla.client.core.sequences import Sequences
from ottla.client.delivery import Delivery, PendingDelivery, RecordMetadata
from ottla.client.errors import (
    BufferExhausted,
    ClientClosed,
    ErrorCode,
    KafkaError,
    ProducerFenced,
    RecordTooLarge,
    RequestTimedOut,
    TransactionAborted,
)
from ottla.client.metadata import ConsumerGroupMetadata, PartitionInfo, TopicInfo, TopicPartition
from ottla.client.sender import Sender
from ottla.client.times import check_ms, check_timestamp
from ottla.client.transactions import State, Transactions
from ottla.net import Sockets
from ottla.records.batch import HEADER_SIZE
from ottla.wire.spares import SpareBuffers

if TYPE_CHECKING:
    import pyarrow

    from ottla.client.setting_types import ProducerSettings
    from ottla.client.tables import TableDelivery

__all__ = ["Delivery", "Headers", "Producer", "RecordMetadata"]

Headers = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]
Partitioner = Callable[[str, bytes | None, int], int]
_log = logging.getLogger("ottla.client")
ROOM_EVERY = 500
"""`send_many` checks after this many records whether the buffer has room."""


class _Topic:
    """A topic that is written to: its partitions' queues, and where records without a key go."""

    __slots__ = (
        "count",
        "info",
        "queues",
        "round_robin",
        "sticky",
        "sticky_batch",
        "sticky_queue",
        "used_at",
    )

    def __init__(self, info: TopicInfo, queues: list[PartitionQueue], sticky: StickyPartition, now: float) -> None:
        self.sticky_queue = queues[0]
        self.sticky_batch: Batch | None = None
        """The batch that records without keys went into last."""
        self.info = info
        self.queues = queues
        self.count = len(queues)
        self.sticky = sticky
        self.round_robin = RoundRobin()
        self.used_at = now


class _Outgoing(NamedTuple):
    """A record as it goes into a batch, and for which partition (None: not chosen yet)."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp: int
    size: int
    """The most bytes that a batch holds."""


class _Pending:
    """A record outside the buffer: it waits for its topic's metadata, or for room."""

    __slots__ = ("delivery", "expires_at", "record")

    def __init__(self, record: _Outgoing, expires_at: float) -> None:
        self.record = record
        self.expires_at = expires_at
        self.delivery = PendingDelivery()


class Producer(lifetimes.Client):
    """A client that writes records. Settings are Kafka's, as keywords (`linger_ms=5`) or in a dict (`{"linger.ms":
    5}`).

    It belongs to the event loop in which it first sends. `transactional_id` makes it a transactional producer:

        async with producer.transaction():
            producer.send("a", b"1")
            producer.send("b", b"2")
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        if isinstance(config, ProducerConfig):
            if settings:
                raise TypeError("settings are given as a ProducerConfig or by name, not both")
            self.config = config
        else:
            self.config = ProducerConfig.parse(config or {}, settings)
        config = self.config
        self._cluster = Cluster(config, rng=rng, sockets=sockets)
        self._sequences = Sequences()
        self._accumulator = Accumulator(
            batch_size=max(min(config.batch_size, config.max_request_size, config.buffer_memory), 1),
            buffer_memory=config.buffer_memory,
            linger_ms=config.linger_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
            keeps_order=config.max_in_flight_requests_per_connection == 1,
            is_idempotent=config.enable_idempotence,
        )
        self._accumulator.on_finished = self._batch_finished
        self._transactions: Transactions | None = None
        if config.transactional_id is not None:
            self._transactions = Transactions(config, self._cluster, self._sequences)
        self._partitioner: Partitioner | None = config.partitioner if callable(config.partitioner) else None
        self._is_round_robin = config.partitioner == "round_robin"
        self._uses_keys = not config.partitioner_ignore_keys
        self._is_plain = (
            self._partitioner is None
            and not self._is_round_robin
            and self._uses_keys
            and config.key_serializer is None
            and config.value_serializer is None
            and config.transactional_id is None
        )
        """Whether a record of bytes needs nothing but a place in the open batch of its partition."""
        self._buffer_memory = config.buffer_memory
        self._max_record_size = min(config.max_request_size, config.buffer_memory)
        self._topics: dict[str, _Topic] = {}
        self._unknown: dict[str, deque[_Pending]] = {}
        self._looking_up: dict[str, asyncio.Task[None]] = {}
        self._line: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._spares = SpareBuffers()
        """The buffers into which tables are encoded."""
        self._room: list[asyncio.Future[None]] = []
        self._line_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._sender: Sender | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._cluster.own_statistics = self._statistics
        lifetimes.opened(self)

    async def __aenter__(self) -> Producer:
        self._start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.close(lifetimes.close_limit_ms(error, is_out=self._cluster.is_out))

    def _forked(self) -> None:
        lifetimes.keep(self._topics, self._looking_up, self._room, self._line_timer, self._idle_timer, self._sender)
        self._topics, self._looking_up = {}, {}  # so that `send` looks where it is

    def _start(self) -> Sender:
        self._cluster.check_process()
        if self._sender is None:
            self._loop = asyncio.get_running_loop()
            self._sender = Sender(self.config, self._cluster, self._accumulator, self._sequences, self._transactions)
            self._cluster.on_change(lambda _: self._metadata_changed())
            self._idle_timer = self._loop.call_later(self.config.metadata_max_idle_ms / 1000, self._forget_idle)
        return self._sender

    # Sending

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Send a record; `await` what is returned to know where it was written.

        The partition is the given one, or chosen by the key, or any. `timestamp` is in milliseconds since 1970, by
        default now. Raises at once what can be known at once: a record that is too large, a closed producer, a buffer
        that has been overrun (see `room`).

        Example:

            written = await producer.send("orders", b"one apple", key=b"alice")
            producer.send("orders", "two pears", headers={"source": b"shop"}).add_done_callback(print)
        """
        known = self._topics.get(topic)
        if known and self._is_plain and type(value) is bytes and partition is None and not headers and not self._line:
            # The ordinary record goes into the batch that is open.
            if key is None:
                batch = known.sticky_queue.open
            elif type(key) is bytes:
                batch = known.queues[partition_for_key(key, known.count)].open
            else:
                batch = None
            if batch is not None:
                if timestamp is None:
                    place = batch.records.append(time_ns() // 1_000_000, key, value)
                else:
                    check_timestamp(timestamp)
                    place = batch.records.append(timestamp, key, value)
                if place >= 0:
                    return Delivery(batch, place)
        config = self.config
        if value is not None and type(value) is not bytes:
            value = _serialized(config.value_serializer, value, "value")
        elif config.value_serializer is not None and value is not None:
            value = config.value_serializer(value)
        if key is not None and (type(key) is not bytes or config.key_serializer is not None):
            key = _serialized(config.key_serializer, key, "key")
        size = MAX_RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        pairs: tuple[tuple[str, bytes | None], ...] = ()
        if headers:
            pairs, headers_size = _header_pairs(headers)
            size += headers_size
        if timestamp is None:
            timestamp = time_ns() // 1_000_000
        else:
            check_timestamp(timestamp)
        if size + HEADER_SIZE > self._max_record_size:
            raise RecordTooLarge(
                f"a record of {size} bytes is larger than max.request.size or buffer.memory allow "
                f"({self._max_record_size} bytes): raise max_request_size, and max.message.bytes of topic {topic}, or "
                "send smaller records"
            )
        record = _Outgoing(topic, value, key, pairs, partition, timestamp, size)
        if known is not None and not self._line and self._transactions is None:
            delivery = self._append(known, record)
            if delivery is not None:
                return delivery
        return self._send_slowly(record)

    def _append(self, topic: _Topic, record: _Outgoing) -> Delivery | None:
        """Put a record into a batch of its partition; None while the buffer has no room for it."""
        _, value, key, headers, partition, timestamp, size = record
        if partition is None:
            if self._partitioner is not None:
                partition = self._partitioner(topic.info.name, key, topic.count)
            elif self._is_round_robin:
                partition = topic.round_robin.choose(topic.count, _with_leaders(topic.info.partitions))
            elif key is not None and self._uses_keys:
                partition = partition_for_key(key, topic.count)
            else:
                partition = self._sticky_partition(topic, size)
        if not 0 <= partition < topic.count:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.info.name} has no partition {partition}, "
                + ("only partition 0" if topic.count == 1 else f"only partitions 0 to {topic.count - 1}"),
            )
        queue = topic.queues[partition]
        opened = queue.open
        assert self._loop is not None and self._sender is not None
        now = self._loop.time()
        is_transactional = self._transactions is not None
        added = self._accumulator.append(queue, timestamp, key, value, headers, size, now * 1000, is_transactional)
        if added is None:
            return None
        batch, place = added
        if batch is not opened:
            # A new batch starts a new time to linger; the one before it may go.
            topic.used_at = now
            self._sender.wake()
            if queue is topic.sticky_queue:
                topic.sticky_batch = batch
        return Delivery(batch, place)

    def _sticky_partition(self, topic: _Topic, size: int) -> int:
        """The partition for a record without a key: where a batch ends, and the partition got a batch full, another."""
        batch = topic.sticky_queue.open
        if batch is None or batch.records.size + size > self._accumulator.batch_size:
            if batch is not None:
                self._accumulator.close_batch(batch)
            last = topic.sticky_batch
            if last is not None and topic.sticky.produced(last.size):
                self._choose_sticky(topic)
            topic.sticky_batch = None
        return topic.sticky.partition

    def _choose_sticky(self, topic: _Topic) -> None:
        candidates = self._anywhere(topic.info.partitions)
        sizes = None
        if self.config.partitioner_adaptive_partitioning_enable:
            sizes = [len(topic.queues[partition].batches) for partition in candidates]
        topic.sticky_queue = topic.queues[topic.sticky.choose(candidates, sizes)]

    def _anywhere(self, partitions: tuple[PartitionInfo, ...]) -> list[int]:
        """Where records without a key may go: to partitions that have a leader, near this client if that is asked."""
        led = _with_leaders(partitions)
        if not led:
            return list(range(len(partitions)))
        if not (self.config.partitioner_rack_aware and self.config.client_rack):
            return led
        racks = {broker.id: broker.rack for broker in self._cluster.metadata.brokers.values()}
        return in_rack(led, [partitions[one].leader_id for one in led], racks, self.config.client_rack)

    # Records that cannot be put into a batch at once

    def _send_slowly(self, record: _Outgoing) -> Delivery:
        sender = self._may_send()
        assert self._loop is not None
        topic = record.topic
        known = self._topics.get(topic)
        if known is not None and not self._line:
            delivery = self._append(known, record)
            if delivery is not None:
                return delivery
        if self._pending_bytes + record.size > self._buffer_memory:
            raise BufferExhausted(
                "the buffer is full (buffer.memory), and so is the line of records that wait for it: "
                "await a delivery, producer.room() or producer.flush() between sends"
            )
        pending = _Pending(record, self._loop.time() + self.config.max_block_ms / 1000)
        self._pending_bytes += record.size
        if known is None:
            line = self._unknown.get(topic)
            if line is None:
                line = self._unknown[topic] = deque()
                self._looking_up[topic] = self._loop.create_task(self._look_up(topic))
            line.append(pending)
        else:
            self._line.append(pending)
            self._accumulator.close_all()
            sender.wake()
            self._watch_line()
        return pending.delivery

    def _may_send(self) -> Sender:
        """Raises what keeps this producer from sending anything."""
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        sender = self._start()
        if sender.failure is not None:
            raise sender.failure
        if self._transactions is not None:
            self._transactions.check(State.IN_TRANSACTION)
            if self._transactions.abortable_error is not None:
                raise TransactionAborted(f"the transaction can only be aborted: {self._transactions.abortable_error}")
        return sender

    async def _look_up(self, name: str) -> None:
        """Find a topic, then let its records go on to the buffer."""
        error: KafkaError | None = None
        try:
            await self._cluster.topic(name, timeout_ms=self.config.max_block_ms)
            self._learn(name)
        except KafkaError as failed:
            error = failed
        finally:
            self._looking_up.pop(name, None)
        waiting = self._unknown.pop(name, deque())
        for pending in waiting:
            if error is not None:
                self._pending_bytes -= pending.record.size
                pending.delivery.refuse(error)
            else:
                self._line.append(pending)
        self._advance_line()

    def _learn(self, name: str) -> None:
        info = self._cluster.metadata.topics[name]
        assert self._loop is not None
        queues = [self._accumulator.queue(TopicPartition(name, one.partition)) for one in info.partitions]
        known = self._topics.get(name)
        if known is None:
            sticky = StickyPartition(self.config.batch_size, self._cluster.rng)
            known = self._topics[name] = _Topic(info, queues, sticky, self._loop.time())
            self._choose_sticky(known)
            return
        known.info, known.queues, known.count = info, queues, len(queues)
        if known.sticky.partition >= known.count:
            self._choose_sticky(known)
        known.sticky_queue = queues[known.sticky.partition]

    def _metadata_changed(self) -> None:
        """More partitions, other leaders, a topic made anew under its old name."""
        for name, known in self._topics.items():
            info = self._cluster.metadata.topics.get(name)
            if info is not None and info is not known.info and info.partitions and not info.error:
                self._learn(name)

    def _forget_idle(self) -> None:
        assert self._loop is not None
        idle = self.config.metadata_max_idle_ms / 1000
        now = self._loop.time()
        for name, topic in list(self._topics.items()):
            if topic.used_at + idle <= now and all(queue.is_empty for queue in topic.queues):
                del self._topics[name]
                self._cluster.forget([name])
        self._idle_timer = self._loop.call_later(idle, self._forget_idle)

    def _batch_finished(self) -> None:
        if self._line or self._room:
            self._advance_line()

    def _advance_line(self) -> None:
        """Let waiting records into the buffer as far as there is room."""
        while self._line:
            pending = self._line[0]
            topic = self._topics.get(pending.record.topic)
            try:
                if topic is None:
                    raise ClientClosed("the topic was forgotten")
                delivery = self._append(topic, pending.record)
                if delivery is None:
                    break
                pending.delivery.enter(delivery)
            except KafkaError as error:
                pending.delivery.refuse(error)
            self._line.popleft()
            self._pending_bytes -= pending.record.size
        if self._line:
            self._accumulator.close_all()
            self._watch_line()
            if self._sender is not None:
                self._sender.wake()
        elif self._room and self._accumulator.used_bytes + self._pending_bytes < self._buffer_memory // 2:
            waiting, self._room = self._room, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def _watch_line(self) -> None:
        """Look when the oldest record has waited too long."""
        assert self._loop is not None
        if self._line_timer is None and self._line:
            self._line_timer = self._loop.call_at(self._line[0].expires_at, self._expire_line)

    def _expire_line(self) -> None:
        self._line_timer = None
        assert self._loop is not None
        now = self._loop.time()
        while self._line and self._line[0].expires_at <= now:
            pending = self._line.popleft()
            self._pending_bytes -= pending.record.size
            pending.delivery.refuse(
                BufferExhausted(f"no room in the buffer within max.block.ms ({self.config.max_block_ms} ms)")
            )
        self._advance_line()

    async def room(self) -> None:
        """Wait while the buffer is more than half full: the place to pause in a loop that sends without awaiting.

        Example:

            for number in range(100_000):
                producer.send("orders", b"%d" % number)
                if number % 500 == 0:
                    await producer.room()
        """
        self._cluster.check_process()
        if self._accumulator.used_bytes + self._pending_bytes < self._buffer_memory // 2 or self._is_closed:
            return
        sender = self._start()
        assert self._loop is not None
        waiter = self._loop.create_future()
        self._room.append(waiter)
        self._accumulator.close_all()
        sender.wake()
        await waiter

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """`await send(...)` under the name that other clients have for it.

        Example:

            written = await producer.send_and_wait("orders", b"one apple")
            print(written.partition, written.offset)
        """
        return await self.send(topic, value, key, headers, partition, timestamp)

    async def send_many(
        self, topic: str, values: Iterable[Any], *, keys: Iterable[Any] | None = None, timestamp: int | None = None
    ) -> list[Delivery]:
        """Send a record for each value, with the key at the same place, and wait until all of them are written, never
        holding more than the buffer does. The deliveries are all done; if records were not written, raises why the
        first of them was not.

        Example:

            deliveries = await producer.send_many("orders", [b"one", b"two"], keys=[b"alice", b"bob"])
            print(deliveries[0].result().offset)
        """
        deliveries: list[Delivery] = []
        pairs = zip(values, repeat(None), strict=False) if keys is None else zip(values, keys, strict=True)
        for count, (value, key) in enumerate(pairs):
            if count % ROOM_EVERY == 0:
                await self.room()
            deliveries.append(self.send(topic, value, key, timestamp=timestamp))
        if self._sender is not None:
            self._accumulator.close_all()
            self._sender.wake()
        error: KafkaError | None = None
        batch = None
        for delivery in deliveries:
            if batch is None or delivery._batch is not batch:  # all records of a batch share its fate
                try:
                    await delivery
                    batch = delivery._batch
                except KafkaError as failed:
                    error = error or failed
        if error is not None:
            raise error
        return deliveries

    async def send_table(
        self, topic: str | None, table: pyarrow.Table | Any, *, batch_size: int | None = None
    ) -> TableDelivery:
        """Send every row of a table as a record, and wait until all are written; where, says what is returned.

        A table is a pyarrow.Table or RecordBatch, or a frame of pandas or polars, with the column `value` (binary or
        string) and, if wanted, `key`, `partition`, `timestamp`, `headers`, and `topic` if none is given here. Rows
        without partition go where records of `send` would; serializers are not asked. `batch_size` is what a batch
        holds at most: batch.size, or 1 MB if that is less, unless given here. Nothing is sent if a row is refused.

        Example:

            table = pyarrow.table({"key": ["alice", "bob"], "value": ["one apple", "two pears"]})
            await producer.send_table("orders", table)
        """
        from ottla.client import tables  # not before it is needed: most programs start without

        self._may_send()
        sends = tables.sends(self.config, topic, table, batch_size)
        for send in sends:
            send.check((await self._topic(send.topic)).count)
        tally = tables.Tally()
        for send in sends:
            known = await self._topic(send.topic)
            anywhere = self._anywhere(known.info.partitions)
            first = self._cluster.rng.randrange(len(anywhere))
            timestamp = time_ns() // 1_000_000
            for done in send.encoded(known.count, anywhere[first:] + anywhere[:first], timestamp, self._spares):
                for records in done:
                    await tally.room()
                    await self._room_for(records.size)
                    sender = self._may_send()
                    queue = self._accumulator.queue(TopicPartition(send.topic, records.partition))
                    now = asyncio.get_running_loop().time() * 1000
                    tally.add(self._accumulator.append_encoded(queue, records, now, self._transactions is not None))
                    sender.wake()
                await asyncio.sleep(0)  # ready batches leave while the next piece is encoded
        return await tally.result()

    async def _topic(self, name: str) -> _Topic:
        looking_up = self._looking_up.get(name)
        if looking_up is not None:
            await asyncio.wait([looking_up])  # records that were sent before go first
        if name not in self._topics:
            await self._cluster.topic(name, timeout_ms=self.config.max_block_ms)
            self._learn(name)
        return self._topics[name]

    async def _room_for(self, size: int) -> None:
        """Wait until the buffer has room for a batch; BufferExhausted after max.block.ms."""
        if self._accumulator.used_bytes + self._pending_bytes + size <= self._buffer_memory:
            return
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                await self.room()
        except TimeoutError:
            raise BufferExhausted(
                f"no room in the buffer within max.block.ms ({self.config.max_block_ms} ms)"
            ) from None

    async def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic.

        Example:

            print(len(await producer.partitions("orders")))
        """
        self._start()
        return (await self._cluster.topic(topic, timeout_ms=self.config.max_block_ms)).partitions

    # Waiting for all, ending

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now and wait until it is written or given up; RequestTimedOut if that takes longer.

        Example:

            producer.send("orders", b"one apple")
            await producer.flush(timeout_ms=10_000)
        """
        check_ms(timeout_ms, "flush")
        self._cluster.check_process()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._drained()
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise RequestTimedOut(f"not everything was written within {timeout_ms} ms") from None

    async def _drained(self) -> None:
        if self._sender is None:
            return
        while True:
            if self._looking_up:
                await asyncio.wait(list(self._looking_up.values()))
            await self._sender.drained()
            self._advance_line()
            if not self._looking_up and not self._line and not self._accumulator.incomplete():
                return

    async def close(self, timeout_ms: int | None = None) -> None:
        """Write what is waiting (for at most timeout_ms; by default only delivery.timeout.ms limits it), then end.

        An open transaction is aborted, one whose commit was begun is committed. A producer that is left by an exception
        waits for five seconds, in a task that was cancelled (Ctrl-C) for one second, or not at all if no broker
        answers. The log says how many records were not sent.

        Example:

            producer = Producer(bootstrap_servers="127.0.0.1:9092")
            try:
                await producer.send("orders", b"one apple")
            finally:
                await producer.close()
        """
        check_ms(timeout_ms, "close")
        if self._is_closed:
            return
        if self._cluster.is_forked:
            self._is_closed = True
            return
        if timeout_ms is None:
            timeout_ms = lifetimes.close_limit_ms(None, is_out=self._cluster.is_out)
        try:
            if self._sender is not None:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._end_open_transaction()
                    await self._drained()
        except (KafkaError, TimeoutError):
            pass
        finally:
            self._is_closed = True
            self._topics.clear()
            if unsent := self._unsent():
                _log.warning("%s was closed early: %s", self._name, lifetimes.in_words(unsent))
            lifetimes.closed(self)
            await self._stop()

    def _statistics(self) -> dict[str, Any]:
        return statistics.of_producer(self._cluster, self._accumulator, sum(self._unsent().values()))

    def _unsent(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for line in (self._line, *self._unknown.values()):
            for pending in line:
                counts[pending.record.topic] = counts.get(pending.record.topic, 0) + 1
        for batch in self._accumulator.incomplete():
            topic = batch.queue.partition.topic
            counts[topic] = counts.get(topic, 0) + (batch.count if batch.is_closed else len(batch.records))
        return counts

    async def _stop(self) -> None:
        for timer in (self._line_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        tasks = list(self._looking_up.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._transactions is not None:
            await self._transactions.close()
        if self._sender is not None:
            await self._sender.close()
            error = ClientClosed("the producer was closed before the record was written")
            for line in (self._line, *self._unknown.values()):
                for pending in line:
                    pending.delivery.refuse(error)
            self._line.clear()
            self._unknown.clear()
            self._sender.fail_all(error)
        for waiter in self._room:
            if not waiter.done():
                waiter.set_result(None)
        await self._cluster.close()

    # Transactions

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the producer has no transactional_id")
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        self._start()
        return self._transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Producer]:
        """A transaction that is committed at the end of the block, and aborted if the block raises.

        Example:

            async with producer.transaction():
                producer.send("orders", b"one apple")
                producer.send("payments", b"1.20")
        """
        await self.begin_transaction()
        try:
            yield self
        except BaseException as error:
            transactions = self._transactional()
            if transactions.fatal_error is None and transactions.state is State.IN_TRANSACTION:
                if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
                    await self._abort_quickly()
                else:
                    await self.abort_transaction()
            raise
        try:
            await self.commit_transaction()
        except TransactionAborted:
            await self.abort_transaction()
            raise

    async def _end_open_transaction(self) -> None:
        """Commit what a commit was begun of, as Java's producer does, and abort any other open transaction: consumers
        that read committed records would wait for it until transaction.timeout.ms is over."""
        transactions = self._transactions
        if transactions is None or not transactions.is_left_open:
            return
        if transactions.state is State.COMMITTING:
            with suppress(TransactionAborted):
                await self.commit_transaction()
        if transactions.is_left_open:
            await self.abort_transaction()

    async def _abort_quickly(self) -> None:
        """Abort while the task is being cancelled: what takes longer is left to the coordinator's timeout."""
        limit_ms = 0 if self._cluster.is_out else lifetimes.INTERRUPTED_MS
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self.abort_transaction()
        except (KafkaError, TimeoutError):
            _log.warning(
                "%s: the transaction was not aborted; its coordinator does it after transaction.timeout.ms (%d ms)",
                self._name,
                self.config.transaction_timeout_ms,
            )

    async def init_transactions(self) -> None:
        """Take over the transactional id: fences its former owner and ends what that left open. Done by the first
        transaction if not before.

        Example:

            await producer.init_transactions()
        """
        await self._transactional().init()

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on becomes visible with commit_transaction, or never.

        Takes over the transactional id if that was not done yet. `transaction` does this, and the end, in one block.

        Example:

            await producer.begin_transaction()
            producer.send("orders", b"one apple")
            await producer.commit_transaction()
        """
        transactions = self._transactional()
        await transactions.init()
        transactions.begin()

    async def commit_transaction(self) -> None:
        """Write everything, then make it visible. TransactionAborted: a record could not be written; abort. After
        RequestTimedOut the outcome is unknown: call it again.

        Example:

            await producer.begin_transaction()
            producer.send("orders", b"one apple")
            await producer.commit_transaction()
        """
        await self._transactional().end(True, self._drained)

    async def abort_transaction(self) -> None:
        """Throw away everything since begin.

        Example:

            await producer.begin_transaction()
            producer.send("orders", b"one apple")
            await producer.abort_transaction()
        """
        await self._transactional().end(False, self._dropped)

    async def _dropped(self) -> None:
        error = TransactionAborted("the transaction was aborted")
        for line in (self._line, *self._unknown.values()):
            for pending in line:
                self._pending_bytes -= pending.record.size
                pending.delivery.refuse(error)
            line.clear()
        if self._sender is not None:
            self._sender.drop_unsent(error)
            await self._sender.drained()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit the offsets of a consumer's group with this transaction: the records read and the records written
        count together, or not at all. `group` is `consumer.group_metadata()`; a bare group id skips the check that
        the consumer still owns what it has read.

        Example:

            async with producer.transaction():
                for record in await consumer.poll(1_000):
                    producer.send("payments", record.value)
                    read_up_to = {TopicPartition(record.topic, record.partition): record.offset + 1}
                    await producer.send_offsets(read_up_to, consumer.group_metadata())
        """
        if isinstance(group, str):
            group = ConsumerGroupMetadata(group)
        await self._transactional().send_offsets(offsets, group)

    @property
    def is_fenced(self) -> bool:
        """Whether another producer has taken over the transactional id.

        Example:

            if producer.is_fenced:
                print("another producer has this transactional id now")
        """
        return self._transactions is not None and isinstance(self._transactions.fatal_error, ProducerFenced)


def _serialized(serializer: Any, given: Any, what: str) -> bytes | None:
    if serializer is not None:
        given = serializer(given)
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"a {what} is bytes or str, or {what}_serializer makes it so; this is a {type(given).__name__}")


def _header_pairs(headers: Headers) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    size = 0
    for name, content in pairs:
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise TypeError(f"a header is a str and bytes or None, not {name!r}: {content!r}")
        size += 10 + 3 * len(name) + (len(content) if content is not None else 0)
    return pairs, size


def _with_leaders(partitions: tuple[PartitionInfo, ...]) -> list[int]:
    return [one.partition for one in partitions if one.leader_id >= 0]
