"""A live tail: records as they are written, through a bounded ring, so that a slow page never holds the reading."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from ottla.client.core.fetching import RawRecord
from ottla.client.core.partitions import TopicPartition
from ottla.console.column_filter import COLUMNS, ColumnFilter
from ottla.console.messages import bounds_of, chosen_partitions, placed
from ottla.console.search_request import SearchRequest

if TYPE_CHECKING:
    from ottla.console.connection import Connection
    from ottla.console.console import Console

RING = 10_000
FRAME_RECORDS = 1_000
FRAME_S = 0.1


class Ring:
    """The records that wait for the page; the oldest are dropped and counted."""

    def __init__(self, size: int = RING) -> None:
        self._records: deque[RawRecord] = deque()
        self._size = size
        self.skipped = 0

    def __len__(self) -> int:
        return len(self._records)

    def put(self, records: list[RawRecord]) -> None:
        self._records.extend(records)
        while len(self._records) > self._size:
            self._records.popleft()
            self.skipped += 1

    def take(self, count: int) -> tuple[list[RawRecord], int]:
        """The next records, and how many were skipped since the last time. A page that sees far fewer than there are
        gets the newest."""
        while len(self._records) > 4 * count:
            self._records.popleft()
            self.skipped += 1
        taken = [self._records.popleft() for _ in range(min(count, len(self._records)))]
        skipped, self.skipped = self.skipped, 0
        return taken, skipped


class Tail:
    """Reads a topic into its ring until it is cancelled. While it is paused nothing is read: what comes meanwhile is
    read afterwards, from the ring's end on."""

    def __init__(self, console: Console, connection: Connection, request: SearchRequest) -> None:
        self._console = console
        self._connection = connection
        self._request = request
        self._mask = console.masking.of(request.topic)
        self._wanted = ColumnFilter(request.filter, self._mask, console.contents)
        self._going = asyncio.Event()
        self._going.set()
        self.ring = Ring()
        self._has_news = asyncio.Event()

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    async def read(self) -> None:
        request = self._request
        admin = await self._connection.admin()
        partitions = await chosen_partitions(admin, request)
        start = await placed(admin, request.start, await bounds_of(admin, partitions))
        async with self._connection.reader() as consumer:
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, start[partition])
            await self._read(consumer, partitions)

    async def _read(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        while True:
            await self._going.wait()
            table = await consumer.poll_arrow(1_000, columns=COLUMNS)
            if not table.num_rows:
                continue
            # of more than the ring holds only the end can be shown
            cut = max(table.num_rows - 2 * RING, 0) if self._is_unfiltered() else 0
            self.ring.skipped += cut
            found = await asyncio.to_thread(self._wanted.matching, self._request.topic, table.slice(cut))
            self.ring.put([record for _, record in found])
            if found:
                self._has_news.set()

    def _is_unfiltered(self) -> bool:
        wanted = self._request.filter
        return not wanted.needs_documents and not wanted.needs_headers and wanted.key is None

    async def frames(self) -> Any:
        """Frames for the page, at most ten in a second."""
        loop = asyncio.get_running_loop()
        while True:
            await self._has_news.wait()
            await self._going.wait()
            next_at = loop.time() + FRAME_S
            records, skipped = self.ring.take(FRAME_RECORDS)
            if not len(self.ring):
                self._has_news.clear()
            if records:
                shown = await asyncio.to_thread(
                    self._console.contents.records, records, self._mask, self._request.format
                )
                yield {"records": shown, "skipped": skipped}
            await asyncio.sleep(max(next_at - loop.time(), 0.01))
