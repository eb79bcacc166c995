"""One segment of a log: a file of whole batches named after its first offset, and its indexes.

    <20-digit base offset>.log .index .timeindex .txnindex      and, while being replaced or removed,
    the same with .cleaned, .swap or .deleted behind

The last segment of a log is the active one, the only one that grows. Files are opened when first used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from struct import Struct

from ottla.records import HEADER_SIZE, BatchHeader, CorruptRecords, crc_ok, read_header
from ottla.records.batch import LOG_OVERHEAD, NO_TIMESTAMP
from ottla.storage.disk import Buffer, Disk, File, FileSlice
from ottla.storage.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    CorruptIndex,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
)
from ottla.storage.tail import SegmentTail

logger = logging.getLogger(__name__)

UNKNOWN = -2
"""A timestamp that has not been read from the disk yet."""
UNKNOWN_SIZE = 2**31

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"

_PREFIX = Struct(">qiib4xhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta
_WALK_SIZE = 4160
_CHUNK_SIZE = 1 << 20
_MIN_LENGTH = HEADER_SIZE - LOG_OVERHEAD
UNRESERVED_BYTES = 256 * 1024
"""The least that is reserved: small segments reserve nothing."""
MAX_RESERVED_BYTES = 16 * 1024 * 1024
FREE_PER_RESERVED = 64


class CorruptSegment(CorruptRecords):
    """A segment whose batches cannot be read in sequence: a header is invalid."""


class Segment(SegmentTail):
    """A stretch of the log from `base_offset` up to the next segment's."""

    __slots__ = (
        "_disk",
        "created_timestamp",
        "directory",
        "is_checked",
        "jitter_ms",
        "suffix",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        size: int = 0,
        offset_entries: int = 0,
        time_entries: int = 0,
        has_transactions: bool = False,
        suffix: str = "",
        created_timestamp: int = 0,
        jitter_ms: int = 0,
    ) -> None:
        """A segment with the given files; `Segment.create` makes a new one."""
        prefix = f"{directory}/{base_offset:020d}"
        self._disk = disk
        self._file: File | None = None
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self.offset_index = OffsetIndex(disk, f"{prefix}.index{suffix}", base_offset, offset_entries)
        self.time_index = TimeIndex(disk, f"{prefix}.timeindex{suffix}", base_offset, time_entries)
        self.transaction_index = TransactionIndex(
            disk, f"{prefix}.txnindex{suffix}", base_offset, exists=has_transactions
        )
        self.created_timestamp = created_timestamp
        self.jitter_ms = jitter_ms
        self.bytes_since_entry = 0
        self.reserved = UNRESERVED_BYTES
        self.is_full = False
        self.is_checked = not size
        self.offset_limit = self.time_limit = MAX_RELATIVE_OFFSET
        if size:
            self.first_timestamp = self.max_timestamp = UNKNOWN
            self.largest_batch_size = UNKNOWN_SIZE
        else:
            self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
            self.largest_batch_size = 0
        self.offset_of_max_timestamp = base_offset

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        created_timestamp: int,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> Segment:
        """A new, empty segment. Only its .log is made: the indexes are created with their first entry, at the latest
        when the segment is closed.
        """
        segment = cls(
            disk, directory, base_offset, suffix=suffix, created_timestamp=created_timestamp, jitter_ms=jitter_ms
        )
        segment._file = disk.open(segment.path, create=True)
        return segment

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.base_offset:020d}.log{self.suffix}"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def __repr__(self) -> str:
        return f"Segment({self.path!r}, size={self.size})"

    # --- writing

    def append(self, data: Buffer, base_offset: int, last_offset: int, max_timestamp: int, interval_bytes: int) -> None:
        """Write one batch at the end. An OSError leaves the segment unchanged, except that the file may be longer (see
        `trim`).
        """
        position = self.size
        size = len(data)
        (self._file or self.file).write(position, data)
        self.note(position, size, base_offset, last_offset, max_timestamp, interval_bytes)
        self.size = position + size

    def reserve(self, end: int) -> None:
        """Reserve disk blocks for about as many bytes as the segment has. One call for megabytes is cheaper than
        allocating blocks page by page, which was a tenth of the node's cost per produced byte. Nothing is reserved on a
        disk that is nearly full.
        """
        step = min(end, MAX_RESERVED_BYTES)
        self.reserved = end + step
        try:
            if self._disk.free_bytes(self.directory) > step * FREE_PER_RESERVED:
                self.file.reserve(self.size, self.reserved - self.size)
        except OSError:
            return  # the write itself will report it

    def trim(self) -> None:
        """Cut the file to its valid size after a failed write."""
        self.file.truncate(self.size)

    def prepare_append(self) -> None:
        """Prepare for the first append after a load: read the state that an active segment keeps in memory, and create
        its index files. They stay empty until a roll or a flush; tools that inspect a running node expect them.
        """
        if self.max_timestamp == UNKNOWN:
            self.load_timestamps()
        if not self.size:
            self.offset_index.write_out()
            self.time_index.write_out()

    def load_timestamps(self) -> None:
        self.check_indexes()
        if self.max_timestamp == UNKNOWN:
            self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last
        if self.first_timestamp == UNKNOWN:
            try:
                self.first_timestamp = read_header(self.file.read(0, HEADER_SIZE)).max_timestamp
            except CorruptRecords:
                self.first_timestamp = NO_TIMESTAMP

    def limit_index(self, max_bytes: int) -> None:
        """segment.index.bytes: how many entries fit; the time index keeps room for its last one."""
        self.offset_limit = max_bytes // OFFSET_ENTRY_SIZE
        self.time_limit = max_bytes // TIME_ENTRY_SIZE - 1
        self.is_full = len(self.offset_index) >= self.offset_limit or len(self.time_index) >= self.time_limit

    def is_index_missing(self) -> bool:
        """Whether its index files were never created, because nothing was appended."""
        return not self._disk.exists(self.offset_index.path)

    def seal(self) -> None:
        """No more appends: the time index gets its last entry and the indexes are written out."""
        if self.max_timestamp == UNKNOWN:
            self.load_timestamps()
        if self.max_timestamp >= 0:
            self.time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
        self.offset_index.write_out()
        self.time_index.write_out()
        self.transaction_index.write_out()
        if self.reserved > UNRESERVED_BYTES:
            self.file.truncate(self.size)
            self.reserved = UNRESERVED_BYTES

    def write_out(self) -> None:
        """Write index entries that a closed segment has only in memory, because it was recovered on a full disk."""
        if self.offset_index.lasts:
            self.offset_index.write_out()
        if self.time_index.offsets:
            self.time_index.write_out()
        self.transaction_index.write_out()

    # --- reading

    @property
    def largest_timestamp(self) -> int:
        """The segment's age for retention: the largest timestamp of its records; the file's own time if they have
        none.
        """
        if self.max_timestamp == UNKNOWN:
            self.load_timestamps()
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self._disk.modified_timestamp(self.path)

    def locate(self, offset: int) -> int:
        """The position of the first batch that ends at or after `offset`; -1 if there is none."""
        if not self.is_checked:
            self.check_indexes()
        position = 0
        try:
            position, is_exact = self.offset_index.lookup(offset)
            return position if is_exact else self._walk(offset, position)
        except CorruptSegment:
            if not position:
                raise
        except CorruptIndex:
            pass
        logger.warning("%s: rebuilding its index, which is wrong", self.path)
        self.rebuild_indexes()
        return self._walk(offset, self.offset_index.lookup(offset).position)

    def check_indexes(self) -> None:
        """Check indexes that were found on disk before their first use. An index that was preallocated and not cut (as
        Kafka does) ends in zeros; one that lost its last page points outside of the log. Such indexes are rebuilt.
        """
        if self.is_checked:
            return
        self.is_checked = True
        try:
            last = self.offset_index.last_entry()
            is_plausible = last is None or (last[0] >= self.base_offset and 0 < last[1] < self.size)
            timestamp, offset = self.time_index.last
            if timestamp < read_header(self.file.read(0, HEADER_SIZE)).max_timestamp:
                is_plausible = False
            if len(self.time_index) > 1 and offset <= self.base_offset:
                is_plausible = False
        except (CorruptIndex, FileNotFoundError, CorruptRecords):
            is_plausible = False
        if not is_plausible:
            logger.warning("%s: rebuilding its index, which is wrong", self.path)
            self.rebuild_indexes()

    def _walk(self, offset: int, position: int) -> int:
        file = self._file or self.file
        size = self.size
        is_from_index = position > 0
        while position < size:
            data = file.read(position, min(_WALK_SIZE, size - position))
            available = len(data)
            at = 0
            while at + 27 <= available:
                base_offset, length, _, magic, _, delta = _PREFIX.unpack_from(data, at)
                if length < _MIN_LENGTH or magic != 2 or not 0 <= base_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
                    raise CorruptSegment(f"{self.path} has no batch at {position + at}")
                if is_from_index:
                    if base_offset > offset:
                        raise CorruptSegment(f"{self.path}: the index points beyond offset {offset}")
                    is_from_index = False
                if base_offset + delta >= offset:
                    return position + at
                at += 12 + length
            if not at:
                break
            position += at
        return -1

    def batch_size(self, position: int) -> int:
        """The size in bytes of the batch at a position that `locate` returned."""
        return 12 + int.from_bytes(self.file.read(position + 8, 4), "big")

    def slice(self, position: int, size: int) -> FileSlice:
        return FileSlice(self._file or self.file, position, size, self.base_offset)

    def batches(
        self, position: int = 0, end: int | None = None, *, check: bool = False
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Whole batches from `position` on, in file order, as (position, header, bytes); the bytes are valid until the
        next step. Ends early at the first bytes that are not a batch following its predecessor, or (with `check`) whose
        CRC is wrong.
        """
        file = self.file
        stop = self.size if end is None else end
        least_offset = self.base_offset
        chunk = memoryview(b"")
        chunk_position = position
        while stop - position >= HEADER_SIZE:
            at = position - chunk_position
            if len(chunk) - at < HEADER_SIZE:
                chunk = memoryview(file.read(position, min(_CHUNK_SIZE, stop - position)))
                chunk_position, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    return
            base_offset, length, _, magic, _, delta = _PREFIX.unpack_from(chunk, at)
            size = 12 + length
            if length < _MIN_LENGTH or magic != 2 or size > stop - position or base_offset < least_offset or delta < 0:
                return
            if base_offset + delta > self.base_offset + MAX_RELATIVE_OFFSET:
                return
            if len(chunk) - at < size:
                chunk = memoryview(file.read(position, max(size, min(_CHUNK_SIZE, stop - position))))
                chunk_position, at = position, 0
                if len(chunk) < size:
                    return
            if check and not crc_ok(chunk, at, size):
                return
            yield position, read_header(chunk, at), chunk[at : at + size]
            least_offset = base_offset + delta + 1
            position += size

    def rebuild_indexes(self, interval_bytes: int = 4096) -> None:
        """Rebuild the offset and time index from the batches, as far as these can be read in sequence."""
        self.is_checked = True
        self.offset_index.reset()
        self.time_index.reset()
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self.bytes_since_entry = 0
        self.largest_batch_size = 0
        for position, header, data in self.batches():
            self.note(position, len(data), header.base_offset, header.last_offset, header.max_timestamp, interval_bytes)
        if self.max_timestamp >= 0:
            self.time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
        self.offset_index.write_out()
        self.time_index.write_out()

    def next_offset(self) -> tuple[int, int]:
        """(the offset after the last batch, the position where that batch ends), following batches from the last index
        entry. A position before `size` means that the bytes after it are not batches."""
        try:
            last = self.offset_index.last_entry()
        except CorruptIndex:
            last = None
        for position in (last[1], 0) if last else (0,):
            next_offset, end = self.base_offset, 0
            for at, header, data in self.batches(position):
                if at == position and last and position and header.last_offset != last[0]:
                    break
                next_offset, end = header.next_offset, at + len(data)
            if end or not position:
                return next_offset, end
        return self.base_offset, 0

    # --- truncate, sync, rename, close

    def truncate(self, offset: int) -> int:
        """Remove the batches that reach `offset` or beyond; returns how many bytes that were."""
        position = self.locate(offset)
        self.offset_index.truncate(offset)
        self.time_index.truncate(offset)
        self.transaction_index.truncate(offset)
        dropped = 0
        if position >= 0:
            dropped = self.size - position
            self.file.truncate(position)
            self.size = position
        self.bytes_since_entry = 0
        self._reload_largest_timestamp()
        return dropped

    def _reload_largest_timestamp(self) -> None:
        if not self.size:
            self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
            self.offset_of_max_timestamp = self.base_offset
            return
        timestamp, offset = self.time_index.last
        start = self.offset_index.lookup(offset).position
        for _, header, _ in self.batches(start):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self.max_timestamp, self.offset_of_max_timestamp = timestamp, offset

    def sync_now(self) -> None:
        self.file.sync_now()
        self.offset_index.sync_now()
        self.time_index.sync_now()
        self.transaction_index.sync_now()

    async def sync(self) -> None:
        """The log first: an index entry must never outlive the batch it points to."""
        await self.file.sync()
        for index in (self.offset_index, self.time_index, self.transaction_index):
            file = index.file()
            if file is not None:
                await file.sync()

    def rename(self, suffix: str) -> None:
        """Change the suffix of all files. When a name is given up the .log is first, so that no index is left without
        its log.
        """
        old = f"{self.directory}/{self.base_offset:020d}"
        for kind in SEGMENT_SUFFIXES:
            try:
                self._disk.rename(f"{old}{kind}{self.suffix}", f"{old}{kind}{suffix}")
            except FileNotFoundError:
                if kind == ".log":
                    raise
        self.suffix = suffix
        self._moved()

    def moved(self, directory: str) -> None:
        """Its folder was renamed."""
        self.directory = directory
        self._moved()

    def _moved(self) -> None:
        prefix = f"{self.directory}/{self.base_offset:020d}"
        if self._file is not None:
            self._file.moved(self.path)
        self.offset_index.moved(f"{prefix}.index{self.suffix}")
        self.time_index.moved(f"{prefix}.timeindex{self.suffix}")
        self.transaction_index.moved(f"{prefix}.txnindex{self.suffix}")

    def paths(self) -> list[str]:
        prefix = f"{self.directory}/{self.base_offset:020d}"
        return [f"{prefix}{kind}{self.suffix}" for kind in SEGMENT_SUFFIXES]

    def close(self) -> None:
        """Close the files; a slice that is still to be sent opens its file again."""
        if self._file is not None:
            self._file.close()
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.close()
