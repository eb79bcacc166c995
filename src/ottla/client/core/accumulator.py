"""What a producer holds back: records in batches, batches in the queue of their partition, until they are written.

A batch is open (takes records) -> closed (full, lingered long enough, or flushed) -> on the wire -> done, or back in
its queue to be sent again. Its deliveries are completed once, when it is done.

Invariants
  A1  the batches of a queue stand in the order in which they were first filled, whether they were sent before or not
  A2  a batch is in its queue, on the wire or set aside, in one of them only; when it is done, in none
  A3  with a producer id, a batch that was sent before is sent again only when no earlier one is on the wire, and
      nothing new overtakes it: the partition sees the sequences in order
  A4  what a batch counts for in the buffer is given back exactly once: while it is open all that it may hold, what it
      has left of that when it is closed, the rest when it is done
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import KafkaError
from ottla.records import Compression
from ottla.records.batch import HEADER_SIZE, MAX_SEQUENCE, NO_SEQUENCE
from ottla.records.buffer import RecordBuffer

MAX_RECORD_OVERHEAD = 21
"""At most what one record takes beside key, value and headers."""


class BatchRecords(Protocol):
    """The records of a batch, in whatever form."""

    def __len__(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes of the whole batch before compression."""

    @property
    def timestamps(self) -> Sequence[int]:
        """The timestamps of the records; empty if they were not kept."""

    def build(
        self,
        *,
        compression: Compression,
        level: int | None,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        is_transactional: bool,
    ) -> Any:
        """The batch as it is sent."""

    def halves(self) -> tuple[Self, Self]:
        """Two with half of the records each."""


class Batch:
    """Records of one partition that are written together, and their deliveries."""

    __slots__ = (
        "attempts",
        "base_offset",
        "base_sequence",
        "callbacks",
        "children",
        "count",
        "created_at",
        "encoded",
        "error",
        "is_closed",
        "is_done",
        "is_on_wire",
        "is_queued",
        "is_refused",
        "is_transactional",
        "is_unsure",
        "is_watched",
        "log_append_time",
        "number",
        "producer_epoch",
        "producer_id",
        "queue",
        "record_errors",
        "records",
        "reserved_bytes",
        "retried_after",
        "retry_at",
        "size",
        "timestamps",
    )

    def __init__(
        self,
        queue: PartitionQueue,
        records: BatchRecords,
        number: tuple[int, ...],
        created_at: float,
        is_transactional: bool,
    ) -> None:
        self.queue = queue
        self.number = number
        """Its place among all batches; the halves of batch (7,) are (7, 0) and (7, 1)."""
        self.created_at = created_at
        self.is_transactional = is_transactional
        self.records: Any = records
        """BatchRecords; while the batch is open a RecordBuffer. None when it is done or split."""
        self.count = 0
        self.size = 0
        """Records, and their bytes before compression, once the batch is closed."""
        self.reserved_bytes = 0
        """What it takes of the buffer. A batch that was split keeps counting for its parts."""
        self.children: tuple[Batch, ...] = ()
        self.attempts = 0
        self.retry_at = 0.0
        self.retried_after: KafkaError | None = None
        """The last error after which the batch was put back."""
        self.is_closed = self.is_on_wire = self.is_done = False
        self.is_queued = True
        self.is_watched = False
        """Whether a caller waits for one of its records."""
        self.is_unsure = False
        """The batch was sent and got no answer, or an error that can follow the append: it may be written or not."""
        self.is_refused = False
        """The broker answered OUT_OF_ORDER_SEQUENCE_NUMBER: the batch is certainly not written."""
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.encoded: Any = None
        """The bytes that were sent, for sending them again."""
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaError | None = None
        self.record_errors: dict[int, str | None] = {}
        self.timestamps: Sequence[int] = ()
        self.callbacks: list[Callable[[Batch], None]] = []

    def __lt__(self, other: Batch) -> bool:
        return self.number < other.number

    def place_of(self, index: int) -> tuple[Batch, int]:
        """The batch that a record was written with in the end, and its place there: batches may be split."""
        for child in self.children:
            if index < child.count:
                return child.place_of(index)
            index -= child.count
        return self, index


class PartitionQueue:
    """The batches of one partition."""

    __slots__ = (
        "aside",
        "batches",
        "needs_reset",
        "next_sequence",
        "on_wire",
        "open",
        "partition",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.on_wire: list[Batch] = []
        self.aside: list[Batch] = []
        """Batches that may be written: what comes after them will tell (`Sequences.out_of_order`)."""
        self.open: Batch | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_sequence = 0
        self.needs_reset = False
        """Whether the sequence has a gap that only a new epoch can close, once nothing is on the wire any more."""

    @property
    def is_empty(self) -> bool:
        return not self.batches and not self.on_wire and not self.aside


class Accumulator:
    """All records of a producer that are not done."""

    def __init__(
        self,
        *,
        batch_size: int,
        buffer_memory: int,
        linger_ms: float,
        delivery_timeout_ms: float,
        keeps_order: bool,
        is_idempotent: bool,
    ) -> None:
        self.batch_size = batch_size
        self.buffer_memory = buffer_memory
        self.used_bytes = 0
        """The part of the buffer that unfinished batches take."""
        self.on_finished: Callable[[], None] = lambda: None
        """Called when a batch is done, after its deliveries."""
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._keeps_order = keeps_order
        """At most one batch of a partition on the wire (max.in.flight.requests.per.connection = 1)."""
        self._is_idempotent = is_idempotent
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._ready: dict[PartitionQueue, None] = {}
        self._lingering: deque[Batch] = deque()
        self._aging: deque[Batch] = deque()
        self._number = 0

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition. It is kept for good: a numbering that began anew under the same epoch would make
        the broker take new batches for old ones."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(partition)
        return queue

    @property
    def queues(self) -> list[PartitionQueue]:
        return list(self._queues.values())

    def incomplete(self) -> list[Batch]:
        """Every batch that is not done, oldest first; the parts of a batch that was split."""
        return [leaf for batch in self._aging if not batch.is_done for leaf in _leaves(batch) if not leaf.is_done]

    @property
    def is_empty(self) -> bool:
        while self._aging and self._aging[0].is_done:
            self._aging.popleft()
        return not any(not batch.is_done for batch in self._aging)

    # Filling

    def append(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size: int,
        now: float,
        is_transactional: bool,
    ) -> tuple[Batch, int] | None:
        """The batch that took the record, and the record's place there; None if that is a new batch, and the buffer has
        no room for one. `size` is what the record takes at most."""
        batch = queue.open
        if batch is not None:
            index: int = batch.records.append(timestamp, key, value, headers)
            if index >= 0:
                return batch, index
            self.close_batch(batch)
        reserved_bytes = max(self.batch_size, HEADER_SIZE + size)
        if self.used_bytes + reserved_bytes > self.buffer_memory:
            return None
        records = RecordBuffer(self.batch_size)
        index = records.append(timestamp, key, value, headers)  # first: a record that is refused leaves no empty batch
        batch = self._begin(queue, records, reserved_bytes, now, is_transactional)
        queue.open = batch
        self._lingering.append(batch)
        if batch.records.size >= self.batch_size:
            self.close_batch(batch)
        return batch, index

    def append_encoded(self, queue: PartitionQueue, records: BatchRecords, now: float, is_transactional: bool) -> Batch:
        """A batch of records that were put together elsewhere; it takes no others."""
        if queue.open is not None:
            self.close_batch(queue.open)
        batch = self._begin(queue, records, records.size, now, is_transactional)
        self.close_batch(batch)
        return batch

    def _begin(
        self, queue: PartitionQueue, records: BatchRecords, reserved_bytes: int, now: float, is_transactional: bool
    ) -> Batch:
        self._number += 1
        batch = Batch(queue, records, (self._number,), now, is_transactional)
        batch.reserved_bytes = reserved_bytes
        self.used_bytes += reserved_bytes
        queue.batches.append(batch)
        self._aging.append(batch)
        return batch

    def close_batch(self, batch: Batch) -> None:
        """The batch takes no more records and may be sent."""
        batch.is_closed = True
        if batch.queue.open is batch:
            batch.queue.open = None
        self._count(batch)
        if not batch.is_on_wire and not batch.is_done:
            self._ready[batch.queue] = None

    def _count(self, batch: Batch) -> None:
        """The batch is closed: give back the part of the buffer that was reserved and not used (A4)."""
        batch.count, batch.size = len(batch.records), batch.records.size
        self.used_bytes -= batch.reserved_bytes - batch.size
        batch.reserved_bytes = batch.size

    def close_all(self) -> None:
        """No batch lingers any more: flush, close, the end of a transaction."""
        for batch in self._lingering:
            if not batch.is_closed:
                self.close_batch(batch)
        self._lingering.clear()

    # Sending

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def ready(self, now: float) -> list[PartitionQueue]:
        """The queues whose first batch may be sent now."""
        lingering = self._lingering
        while lingering and (lingering[0].is_closed or lingering[0].created_at + self._linger_ms <= now):
            batch = lingering.popleft()
            if not batch.is_closed:
                self.close_batch(batch)
        found = []
        for queue in list(self._ready):
            if not queue.batches or not queue.batches[0].is_closed:
                del self._ready[queue]
            elif self._may_send(queue, now):
                found.append(queue)
        return found

    def _may_send(self, queue: PartitionQueue, now: float) -> bool:
        batch = queue.batches[0]
        if batch.retry_at > now:
            return False
        if queue.on_wire:
            if self._keeps_order or queue.needs_reset:
                return False
            if self._is_idempotent and batch.base_sequence != NO_SEQUENCE and queue.on_wire[0] < batch:
                return False  # A3
        return True

    def take(self, queue: PartitionQueue) -> Batch:
        """The first batch of a queue, which goes on the wire now."""
        batch = queue.batches.popleft()
        assert batch.is_queued and not batch.is_on_wire and batch.is_closed, "A2"
        batch.is_queued = False
        batch.is_on_wire = True
        batch.attempts += 1
        insort(queue.on_wire, batch)
        self._ready.pop(queue, None)
        if queue.batches and queue.batches[0].is_closed:
            self._ready[queue] = None  # behind the others: each has its turn
        return batch

    def deadline(self, now: float) -> float | None:
        """When something is due next: a batch has lingered long enough, may be sent again, or is given up."""
        moments = []
        while self._lingering and self._lingering[0].is_closed:
            self._lingering.popleft()
        if self._lingering:
            moments.append(self._lingering[0].created_at + self._linger_ms)
        while self._aging and self._aging[0].is_done:
            self._aging.popleft()
        if self._aging:
            moments.append(self._aging[0].created_at + self._delivery_timeout_ms)
        for queue in self._ready:
            # Batches that may already be sent wait for a broker, not for time.
            if queue.batches and queue.batches[0].retry_at > now:
                moments.append(queue.batches[0].retry_at)
        return min(moments, default=None)

    # Ending

    def put_back(self, batch: Batch, retry_at: float) -> None:
        """The batch was not written, or that is unknown: send it again."""
        self._off_wire(batch)
        if batch.is_done:
            return
        batch.retry_at = retry_at
        queue = batch.queue
        position = 0
        for position, other in enumerate(queue.batches):  # noqa: B007
            if batch < other:
                break
        else:
            position = len(queue.batches)
        queue.batches.insert(position, batch)
        batch.is_queued = True
        self._ready[queue] = None

    def set_aside(self, batch: Batch) -> None:
        """The batches after this one go first: their answers show whether it is written."""
        self._off_wire(batch)
        if not batch.is_done:
            insort(batch.queue.aside, batch)

    def bring_back(self, queue: PartitionQueue) -> None:
        """A batch that was set aside returns to its queue."""
        aside, queue.aside = queue.aside, []
        for batch in aside:
            self.put_back(batch, 0.0)

    def finish(self, batch: Batch) -> None:
        """The batch is done and has its outcome: complete its deliveries."""
        self._off_wire(batch)
        if batch.is_done:
            return
        queue = batch.queue
        if batch.is_queued:
            queue.batches.remove(batch)
            batch.is_queued = False
        elif batch in queue.aside:
            queue.aside.remove(batch)
        if not batch.is_closed:
            queue.open = None
            self._count(batch)
        batch.is_closed = batch.is_done = True
        self.used_bytes -= batch.reserved_bytes
        batch.reserved_bytes = 0
        if batch.records is not None:
            batch.timestamps = batch.records.timestamps
        batch.records = batch.encoded = None
        if not queue.batches or not queue.batches[0].is_closed:
            self._ready.pop(queue, None)
        callbacks, batch.callbacks = batch.callbacks, []
        for callback in callbacks:
            callback(batch)
        self.on_finished()

    def _off_wire(self, batch: Batch) -> None:
        if batch.is_on_wire:
            batch.is_on_wire = False
            batch.queue.on_wire.remove(batch)
            if batch.queue.batches and batch.queue.batches[0].is_closed:
                self._ready[batch.queue] = None

    def expired(self, now: float) -> list[Batch]:
        """The batches that took longer than delivery.timeout.ms, the oldest first. They are still to be finished."""
        found: list[Batch] = []
        while self._aging and self._aging[0].is_done:
            self._aging.popleft()
        for batch in self._aging:
            if batch.is_done:
                continue
            if batch.created_at + self._delivery_timeout_ms > now:
                break
            found.extend(leaf for leaf in _leaves(batch) if not leaf.is_done)
        return found

    def split(self, batch: Batch) -> None:
        """Put two halves in the place of a batch that the broker finds too large. It is done when both of them are."""
        self._off_wire(batch)
        halves: list[Batch] = []
        for number, records in enumerate(batch.records.halves()):
            child = Batch(batch.queue, records, (*batch.number, number), batch.created_at, batch.is_transactional)
            child.is_closed = True
            child.count, child.size = len(records), records.size
            child.producer_id, child.producer_epoch = batch.producer_id, batch.producer_epoch
            if batch.base_sequence != NO_SEQUENCE:
                child.base_sequence = (batch.base_sequence + sum(one.count for one in halves)) & MAX_SEQUENCE
            child.callbacks.append(lambda _: self._half_done(batch))
            halves.append(child)
        batch.children = tuple(halves)
        batch.records = batch.encoded = None
        for child in halves:
            self.put_back(child, 0.0)

    def _half_done(self, batch: Batch) -> None:
        if all(child.is_done for child in batch.children):
            self.finish(batch)


def _leaves(batch: Batch) -> list[Batch]:
    if not batch.children:
        return [batch]
    return [leaf for child in batch.children for leaf in _leaves(child)]
