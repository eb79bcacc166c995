"""A search through a topic: reads Arrow tables, filters them beside the reading, and knows at every step what is left.

Oldest first, partitions are read from their first offset on. Newest first, they are read in blocks from the end; a
block takes about half a second, and the matches of the blocks of all partitions are merged by time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.core.fetching import RawRecord
from ottla.console.column_filter import COLUMNS, ColumnFilter, offset_ranges
from ottla.console.faults import Fault
from ottla.console.search_request import Ranges

if TYPE_CHECKING:
    import pyarrow

    from ottla.client import Consumer

POLL_MS = 200
STALLED_S = 15.0
ROUND_S = 0.5
FIRST_ROUND, MIN_ROUND, MAX_ROUND = 2_000, 500, 500_000


class Step(NamedTuple):
    """The work of a search since its last step."""

    records: list[RawRecord]
    scanned_records: int
    scanned_bytes: int


class Search:
    """One search; after every step `left` has the ranges that are not read yet."""

    def __init__(
        self,
        consumer: Consumer[bytes | None, bytes | None],
        topic: str,
        ranges: Ranges,
        wanted: ColumnFilter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._wanted = wanted
        self._clock = clock
        self.left: Ranges = {partition: (first, end) for partition, (first, end) in ranges.items() if first < end}
        self._is_single = len(self.left) == 1
        self.total_records = sum(end - first for first, end in self.left.values())

    @property
    def is_done(self) -> bool:
        return not self.left

    async def oldest(self, limit: int) -> AsyncGenerator[Step]:
        """Steps from the beginning on, until `limit` records matched or nothing is left."""
        found = 0
        async for table in self._tables(dict(self.left)):
            if table is None:
                continue
            matches = await self._matches(table, limit - found)
            found += len(matches)
            read = table
            if found >= limit:
                read = table.slice(0, matches[-1][0] + 1)
            self._passed(read)
            yield Step([record for _, record in matches], read.num_rows, read.nbytes)
            if found >= limit:
                return
        self.left = {}

    async def newest(self, limit: int) -> AsyncGenerator[Step]:
        """Steps from the end on, until `limit` records matched or nothing is left."""
        found = 0
        size = max(FIRST_ROUND // max(len(self.left), 1), MIN_ROUND)
        while self.left and found < limit:
            began = self._clock()
            block = {partition: (max(first, end - size), end) for partition, (first, end) in self.left.items()}
            kept: dict[int, deque[RawRecord]] = {partition: deque(maxlen=limit - found) for partition in block}
            counts = dict.fromkeys(block, 0)
            scanned = scanned_bytes = 0
            async for table in self._tables(block):
                if table is None:
                    continue
                scanned, scanned_bytes = scanned + table.num_rows, scanned_bytes + table.nbytes
                for _, record in await self._matches(table):
                    kept[record.partition].append(record)
                    counts[record.partition] += 1
            taken = list(_newest_of(kept.values(), limit - found))
            found += len(taken)
            self._settle(block, taken, counts)
            yield Step(taken, scanned, scanned_bytes)
            rate = scanned / max(self._clock() - began, 0.001)
            size = int(min(max(rate * ROUND_S / max(len(self.left), 1), MIN_ROUND, size), MAX_ROUND))

    async def _matches(self, table: pyarrow.Table, max_count: int | None = None) -> list[tuple[int, RawRecord]]:
        """Rows and records that match. A table without any is not worth a thread: most of a search for something rare
        are such, and to hand one over costs as much as to look at it."""
        if self._wanted.rules_out(table):
            return []
        return await asyncio.to_thread(self._wanted.matching, self._topic, table, max_count)

    # What was read

    def _passed(self, table: pyarrow.Table) -> None:
        found = offset_ranges(table, is_single=self._is_single)
        for partition, (_, end) in found.items():
            if partition in self.left:
                self.left[partition] = (end, self.left[partition][1])
                if end >= self.left[partition][1]:
                    del self.left[partition]

    def _settle(self, block: Ranges, taken: list[RawRecord], counts: dict[int, int]) -> None:
        """A block is behind us, but for its matches that were too many: those are found again."""
        lowest: dict[int, int] = {}
        given = dict.fromkeys(block, 0)
        for record in taken:
            lowest[record.partition] = record.offset
            given[record.partition] += 1
        for partition, (start, end) in block.items():
            if given[partition] < counts[partition]:
                start = lowest.get(partition, end)
            first, _ = self.left[partition]
            self.left[partition] = (first, start)
            if start <= first:
                del self.left[partition]

    # Reading

    async def _tables(self, ranges: Ranges) -> AsyncGenerator[pyarrow.Table | None]:
        """Tables of these ranges, each polled while the one before is looked at; ends when all was read."""
        ends: dict[tuple[str, int], int] = {(self._topic, partition): end for partition, (_, end) in ranges.items()}
        consumer = self._consumer
        consumer.assign(ends)
        for partition, (first, _) in ranges.items():
            consumer.seek((self._topic, partition), first)
        consumer.resume(ends)
        heard_at = self._clock()
        polling = self._polled(ends)
        try:
            while True:
                table = await polling
                is_at_end = await self._is_at(ends)
                if not is_at_end:
                    polling = self._polled(ends)
                if table.num_rows:
                    heard_at = self._clock()
                    yield table
                elif self._clock() - heard_at > STALLED_S:
                    raise Fault(
                        503,
                        "BROKER_UNREACHABLE",
                        f"{self._topic} gives no records for {STALLED_S:g} s",
                        "a partition may be without a leader: see the overview",
                    )
                else:
                    yield None
                if is_at_end:
                    return
        finally:
            if not polling.done():
                polling.cancel()
                await asyncio.wait([polling])
            elif not polling.cancelled():
                polling.exception()

    def _polled(self, ends: dict[tuple[str, int], int]) -> asyncio.Future[pyarrow.Table]:
        return asyncio.ensure_future(self._consumer.poll_arrow(POLL_MS, columns=COLUMNS, end_offsets=ends))

    async def _is_at(self, ends: dict[tuple[str, int], int]) -> bool:
        """Whether nothing is left before the ends: markers and compacted records have offsets, too. What was read stays
        paused."""
        reading = [partition for partition in ends if partition not in self._consumer.paused()]
        for partition in reading:
            if await self._consumer.position(partition) >= ends[partition]:
                self._consumer.pause([partition])
        return len(self._consumer.paused()) == len(ends)


def _newest_of(kept: Iterable[deque[RawRecord]], count: int) -> list[RawRecord]:
    """The newest of several partitions; those of one stay in the order of their offsets."""
    found = merge(*(reversed(one) for one in kept), key=lambda record: -record.timestamp)
    return [record for record, _ in zip(found, range(count), strict=False)]
