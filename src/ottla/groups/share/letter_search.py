"""The search for letters of one share partition at the end of its dead-letter queue: which records that wait for their
letter (ARCHIVING) have one already.

The queue is read in windows from its end backwards. A letter of the share partition is known by its batch's producer
id, which no other share partition has. Records are stored as ARCHIVED in the order in which their letters were written,
so before a letter whose record is ARCHIVED no letter is looked for, and the search ends there. That of a record which
its topic has dropped says nothing: such records are not stored as archived.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.groups.share.partition import LetterRange
from ottla.records import CorruptRecords, read, read_header
from ottla.records.batch import HEADER_SIZE, LOG_OVERHEAD
from ottla.wire.dead_letter_headers import OFFSET
from ottla.wire.errors import ErrorCode, KafkaError

FIRST_WINDOW: Final = 1000
"""Offsets of the first window; each further window has four times as many as the one behind it."""
GROWTH: Final = 4
MAX_DECOMPRESSED_BYTES: Final = 2**31 - 1


class LetterSearch:
    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        wanted: Iterable[LetterRange],
        source_start_offset: int,
        queue_start_offset: int,
        queue_end_offset: int,
    ) -> None:
        """Search for letters of `wanted` behind a marker with this producer id and epoch. `source_start_offset` is
        where the log of their topic begins.
        """
        self.found: list[int] = []
        """Offsets of records that have a letter."""
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._has_marker = False
        self._missing = {offset for one in wanted for offset in range(one.first_offset, one.last_offset + 1)}
        self._wanted = frozenset(self._missing)
        self._source_start_offset = source_start_offset
        self._start_offset = queue_start_offset
        self._size = FIRST_WINDOW
        self._window_end = queue_end_offset
        self._letters: list[int] = []
        self.offset: int | None = None
        """Where to read the queue next; None: the search is over."""
        self._begin_window()

    def take(self, data: bytes) -> None:
        """Use what the queue has from `offset` on, as far as it was read. KafkaError if there is nothing: its new
        leader does not have all of it yet.
        """
        assert self.offset is not None
        at, read_to = 0, self.offset
        while len(data) - at >= HEADER_SIZE and read_to < self._window_end:
            header = read_header(data, at)
            size = LOG_OVERHEAD + header.length
            if size > len(data) - at:
                break
            if header.producer_id == self._producer_id:
                if not header.is_control:
                    self._take_letters(memoryview(data)[at : at + size])
                elif header.producer_epoch == self._producer_epoch:
                    self._has_marker = True
            read_to = max(read_to, header.last_offset + 1)
            at += size
        if read_to == self.offset:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the queue's leader has no records from offset {self.offset} on"
            )
        self.offset = read_to
        if read_to >= self._window_end:
            self._end_window()

    def _take_letters(self, batch: memoryview) -> None:
        for record in read(batch, max_decompressed=MAX_DECOMPRESSED_BYTES):
            value = next((value for name, value in record.headers if name == OFFSET), None)
            try:
                self._letters.append(int(value or b""))
            except ValueError:
                raise CorruptRecords(f"the letter at offset {record.offset} does not name its record") from None

    def _end_window(self) -> None:
        for offset in reversed(self._letters):
            if offset in self._missing:
                self._missing.remove(offset)
                self.found.append(offset)
            elif offset >= self._source_start_offset and offset not in self._wanted:
                self._end()
                return
        self._letters = []
        self._window_end = self._window_start
        self._size *= GROWTH
        self._begin_window()

    def _begin_window(self) -> None:
        self._window_start = max(self._start_offset, self._window_end - self._size)
        if self._missing and self._window_start < self._window_end:
            self.offset = self._window_start
        else:
            self._end()

    def _end(self) -> None:
        if not self._has_marker:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the queue's leader does not have the marker")
        self.offset = None
