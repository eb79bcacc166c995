"""Sending whole tables: rows become batches of their partitions, which then go the way of all batches.

A table is encoded a piece at a time, between other work, and only as far as the buffer (buffer.memory) has room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client import arrow
from ottla.client.config import ProducerConfig
from ottla.client.core.accumulator import Batch
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ErrorCode, KafkaError, RecordTooLarge
from ottla.records.batch import HEADER_SIZE
from ottla.records.columns_encode import Rows, TableEncoder
from ottla.records.encoded import EncodedRecords
from ottla.wire.spares import SpareBuffers

if TYPE_CHECKING:
    import pyarrow

BATCH_BYTES = 1024 * 1024
"""The least size of a batch of a table: batch.size is meant for records that come one by one, a table is there as a
whole."""
PIECE_BYTES = 2 * 1024 * 1024
"""So much is encoded before others have their turn. That is two batches: the program that sends them has left the
processor's cache before the first of them, and is still there for the second."""
AHEAD_BYTES = 4 * 1024 * 1024
"""So much is encoded before it can be sent: more would only leave the processor's cache before its turn comes."""


class PartitionWritten(NamedTuple):
    """The records of a table that went to one partition."""

    count: int  # type: ignore[assignment]  # a tuple's count() is of no use here
    first_offset: int
    """-1 if the broker did not tell: acks=0, or a batch that it had already."""
    last_offset: int


class TableDelivery(NamedTuple):
    """Where the rows of a table were written."""

    count: int  # type: ignore[assignment]  # a tuple's count() is of no use here
    partitions: dict[TopicPartition, PartitionWritten]


class TableSend:
    """The rows of one table for one topic, on their way into batches."""

    def __init__(self, config: ProducerConfig, topic: str, table: pyarrow.Table, batch_size: int | None) -> None:
        self.topic = topic
        self._config = config
        self._table = table
        largest = min(config.max_request_size - 512, config.buffer_memory // 4)
        wanted = max(config.batch_size, BATCH_BYTES) if batch_size is None else batch_size
        self._batch_size = max(min(wanted, largest), HEADER_SIZE)
        self._checked: Rows | None = None
        """All rows, where they are few enough to be kept from the check until they are encoded."""

    def check(self, partition_count: int) -> None:
        """Raise for rows that cannot be sent, before any is."""
        max_record_size = min(self._config.max_request_size, self._config.buffer_memory) - HEADER_SIZE
        first = 0
        for rows in self._rows(partition_count):
            self._checked = rows if rows.count == self._table.num_rows else None
            row = rows.row_elsewhere(partition_count)
            if row >= 0:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"row {first + row} names a partition that {self.topic} does not have: "
                    f"it has 0 to {partition_count - 1}; nothing was sent",
                )
            row = rows.row_too_large(max_record_size)
            if row >= 0:
                raise RecordTooLarge(
                    f"row {first + row} makes a record of {rows.size_of(row)} bytes, larger than max.request.size or "
                    f"buffer.memory allow ({max_record_size} bytes); nothing was sent"
                )
            first += rows.count

    def _rows(self, partition_count: int) -> Iterator[Rows]:
        if self._checked is not None:
            yield self._checked
            return
        partitioner = self._config.partitioner if callable(self._config.partitioner) else None
        for batch in arrow.as_batches(self._table):
            if partitioner is not None:
                batch = arrow.with_partitions(batch, lambda key: partitioner(self.topic, key, partition_count))
            yield arrow.rows(batch)

    def encoded(
        self, partition_count: int, anywhere: Sequence[int], timestamp: int, spares: SpareBuffers | None = None
    ) -> Iterator[list[EncodedRecords]]:
        """The batches, a piece at a time. Rows without key and partition go to the partitions `anywhere`."""
        encoder = TableEncoder(
            partition_count,
            self._batch_size,
            anywhere=anywhere,
            uses_keys=not self._config.partitioner_ignore_keys,
            is_round_robin=self._config.partitioner == "round_robin",
            sums_up=self._config.compression_type == "none",
            spares=spares,
        )
        for rows in self._rows(partition_count):
            row = 0
            while row < rows.count:
                row = encoder.encode(rows, row, timestamp, PIECE_BYTES)
                yield encoder.take()
        encoder.close_all()
        yield encoder.take()


class Tally:
    """Counts what becomes of a table's batches."""

    def __init__(self) -> None:
        self._left = 1
        self._open: dict[Batch, None] = {}
        self._next_done: asyncio.Future[None] | None = None
        self._written: dict[TopicPartition, PartitionWritten] = {}
        self._lost = 0
        self._error: KafkaError | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, batch: Batch) -> None:
        self._left += 1
        self._open[batch] = None
        batch.is_watched = True
        batch.callbacks.append(self._batch_done)

    async def room(self) -> None:
        """Wait while much of the table is encoded that is not on its way."""
        while sum([batch.size for batch in self._open if not batch.is_on_wire]) > AHEAD_BYTES:
            self._next_done = asyncio.get_running_loop().create_future()
            await self._next_done

    def _batch_done(self, batch: Batch) -> None:
        del self._open[batch]
        if self._next_done is not None and not self._next_done.done():
            self._next_done.set_result(None)
        self._note(batch)
        self._one_done()

    def _one_done(self) -> None:
        self._left -= 1
        if not self._left and not self._done.done():
            self._done.set_result(None)

    def _note(self, batch: Batch) -> None:
        for child in batch.children:
            self._note(child)
        if batch.children:
            return
        if batch.error is not None:
            self._lost += batch.count
            self._error = self._error or batch.error
            return
        count, first, last = self._written.get(batch.queue.partition, (0, -1, -1))
        if batch.base_offset >= 0:
            first = batch.base_offset if first < 0 else min(first, batch.base_offset)
            last = max(last, batch.base_offset + batch.count - 1)
        self._written[batch.queue.partition] = PartitionWritten(count + batch.count, first, last)

    async def result(self) -> TableDelivery:
        """Wait until every batch is written; raises why one was not."""
        self._one_done()
        await self._done
        count = sum(written.count for written in self._written.values())
        if self._error is not None:
            self._error.add_note(f"{self._lost} of {count + self._lost} rows of the table were not written")
            raise self._error
        return TableDelivery(count, dict(sorted(self._written.items())))


def sends(config: ProducerConfig, topic: str | None, table: Any, batch_size: int | None) -> list[TableSend]:
    """The rows to send, by topic. TypeError or ValueError if the argument is no table of records."""
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: it must be at least 1")
    whole = arrow.as_table(table)
    arrow.check_schema(whole.schema, topic is not None)
    if topic is not None:
        return [TableSend(config, topic, whole, batch_size)]
    return [TableSend(config, name, part, batch_size) for name, part in arrow.by_topic(whole)]
