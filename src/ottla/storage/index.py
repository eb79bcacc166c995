"""The sparse indexes beside a segment, in Kafka's file formats.

    .index      (offset - base, position), 8 bytes: the last offset of a batch and where that batch begins
    .timeindex  (timestamp, offset - base), 12 bytes: all batches up to that offset have timestamps up to that timestamp
    .txnindex   34 bytes per aborted transaction

The newest entries of a growing segment are kept in memory and written out some hundreds at a time, so that an append
costs no index write; a closed segment keeps nothing in memory and is searched on disk. Losing entries to a crash
costs nothing: recovery rebuilds the indexes of every segment that was not flushed.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from ottla.records import CorruptRecords
from ottla.storage.disk import Disk, File

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
MAX_RELATIVE_OFFSET = 2**31 - 1

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")
_ABORTED = Struct(">hqqqq")
_HOT_LIMIT = 512
_SPILL = 256
_BLOCK_ENTRIES = 512


class CorruptIndex(CorruptRecords):
    """An index file that cannot belong to its segment; it is rebuilt from the log."""


class OffsetPlace(NamedTuple):
    """The offset index's answer for an offset: search from `position` on; `is_exact` if the batch there certainly has
    it.
    """

    position: int
    is_exact: bool


_START = OffsetPlace(0, False)


class OffsetIndex:
    """Offset to file position. `stored` entries are in the file, the newer ones in three arrays, with the first offset
    of each batch: a fetch of recent records needs no read of the log to find its batch.
    """

    __slots__ = ("_disk", "_file", "base_offset", "bases", "lasts", "path", "positions", "stored")

    def __init__(self, disk: Disk, path: str, base_offset: int, stored: int = 0) -> None:
        self._disk = disk
        self._file: File | None = None
        self.path = path
        self.base_offset = base_offset
        self.stored = stored
        self.bases: array[int] | None = None
        self.lasts: array[int] | None = None
        self.positions: array[int] | None = None

    def __len__(self) -> int:
        return self.stored + (len(self.lasts) if self.lasts is not None else 0)

    def append(self, base_offset: int, last_offset: int, position: int) -> None:
        bases, lasts, positions = self.bases, self.lasts, self.positions
        if bases is None or lasts is None or positions is None:
            bases = self.bases = array("I")
            lasts = self.lasts = array("I")
            positions = self.positions = array("I")
        bases.append(base_offset - self.base_offset)
        lasts.append(last_offset - self.base_offset)
        positions.append(position)
        if len(lasts) >= _HOT_LIMIT:
            with suppress(OSError):  # they stay in memory; closing the segment reports the error
                self._spill(_SPILL)

    def lookup(self, offset: int) -> OffsetPlace:
        """The position from which to search for the batch with `offset`."""
        relative = offset - self.base_offset
        bases = self.bases
        if bases:
            found = bisect_right(bases, relative) - 1
            if found >= 0:
                assert self.lasts is not None and self.positions is not None
                return OffsetPlace(self.positions[found], relative <= self.lasts[found])
        if self.stored:
            return self._search(relative)
        return _START

    def last_entry(self) -> tuple[int, int] | None:
        """(last offset, position) of the newest entry."""
        if self.lasts:
            assert self.positions is not None
            return self.base_offset + self.lasts[-1], self.positions[-1]
        if self.stored:
            relative, position = self._entry(self.stored - 1)
            return self.base_offset + relative, position
        return None

    def upper_bound(self, position: int) -> int | None:
        """The offset of the first entry at or after a file position; None after the last entry."""
        if self.positions:
            found = bisect_left(self.positions, position)
            if found > 0 or not self.stored:
                assert self.lasts is not None
                return self.base_offset + self.lasts[found] if found < len(self.lasts) else None
        low, high = 0, self.stored
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        if low < self.stored:
            return self.base_offset + self._entry(low)[0]
        return self.base_offset + self.lasts[0] if self.lasts else None

    def _search(self, relative: int) -> OffsetPlace:
        low, high = 0, self.stored
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self._entry(middle)[0] <= relative:
                low = middle
            else:
                high = middle
        block = _native(self._read(low * OFFSET_ENTRY_SIZE, (high - low) * OFFSET_ENTRY_SIZE))
        lasts = block[0::2]
        found = bisect_right(lasts, relative) - 1
        if found < 0:
            return _START
        return OffsetPlace(block[2 * found + 1], False)  # not exact: files rot, so the batch is checked

    def _entry(self, slot: int) -> tuple[int, int]:
        relative, position = _OFFSET_ENTRY.unpack(self._read(slot * OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE))
        return relative, position

    def _read(self, position: int, size: int) -> bytes:
        if self._file is None:
            self._file = self._disk.open(self.path)
        data = self._file.read(position, size)
        if len(data) != size:
            raise CorruptIndex(f"{self.path} ends before {position + size}")
        return data

    def _spill(self, count: int) -> None:
        if not self.lasts:
            return
        assert self.bases is not None and self.positions is not None
        entries = array("I", bytes(OFFSET_ENTRY_SIZE * count))
        entries[0::2] = self.lasts[:count]
        entries[1::2] = self.positions[:count]
        if sys.byteorder == "little":
            entries.byteswap()
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        self._file.write(self.stored * OFFSET_ENTRY_SIZE, entries.tobytes())
        self.stored += count
        del self.bases[:count], self.lasts[:count], self.positions[:count]

    def write_out(self) -> None:
        """Write all entries to the file and keep none in memory. The file exists afterwards, even if it is empty."""
        if self.lasts:
            self._spill(len(self.lasts))
        elif self._file is None and not self.stored:
            self._file = self._disk.open(self.path, create=True)
        self.bases = self.lasts = self.positions = None

    def truncate(self, offset: int) -> None:
        """Forget batches whose last offset is at or after `offset`."""
        relative = offset - self.base_offset
        if self.lasts:
            assert self.bases is not None and self.positions is not None
            keep = bisect_left(self.lasts, relative)
            del self.bases[keep:], self.lasts[keep:], self.positions[keep:]
            if keep:
                return
        low, high = 0, self.stored
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[0] < relative:
                low = middle + 1
            else:
                high = middle
        if low < self.stored:
            self.stored = low
            assert self._file is not None
            self._file.truncate(low * OFFSET_ENTRY_SIZE)

    def reset(self) -> None:
        """An empty index, in memory and in the file if there is one."""
        self.bases = self.lasts = self.positions = None
        self.stored = 0
        _empty(self._disk, self._file, self.path)

    def entries(self) -> Iterator[tuple[int, int]]:
        """All entries (last offset, position): for tests and checks."""
        for slot in range(self.stored):
            relative, position = self._entry(slot)
            yield self.base_offset + relative, position
        if self.lasts is not None and self.positions is not None:
            for relative, position in zip(self.lasts, self.positions, strict=True):
                yield self.base_offset + relative, position

    def sync_now(self) -> None:
        if self._file is not None:
            self._file.sync_now()

    def file(self) -> File | None:
        return self._file

    def moved(self, path: str) -> None:
        self.path = path
        if self._file is not None:
            self._file.moved(path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class TimeIndex:
    """Timestamp to offset; both rise. An entry is only added when the segment's largest timestamp has grown."""

    __slots__ = ("_disk", "_file", "_last", "base_offset", "offsets", "path", "stored", "timestamps")

    def __init__(self, disk: Disk, path: str, base_offset: int, stored: int = 0) -> None:
        self._disk = disk
        self._file: File | None = None
        self._last: tuple[int, int] | None = None
        self.path = path
        self.base_offset = base_offset
        self.stored = stored
        self.timestamps: array[int] | None = None
        self.offsets: array[int] | None = None

    def __len__(self) -> int:
        return self.stored + (len(self.offsets) if self.offsets is not None else 0)

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the newest entry, (-1, base offset) without any."""
        last = self._last
        if last is None:
            if self.stored:
                timestamp, relative = self._entry(self.stored - 1)
                last = (timestamp, self.base_offset + relative)
            else:
                last = (-1, self.base_offset)
            self._last = last
        return last

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last one's."""
        if timestamp <= self.last[0]:
            return
        if self.timestamps is None or self.offsets is None:
            self.timestamps, self.offsets = array("q"), array("I")
        self.timestamps.append(timestamp)
        self.offsets.append(offset - self.base_offset)
        self._last = (timestamp, offset)
        if len(self.offsets) >= _HOT_LIMIT:
            with suppress(OSError):
                self._spill(_SPILL)

    def lookup(self, timestamp: int) -> int:
        """The offset of the last entry whose timestamp is not above the target: all records before it are older."""
        if self.timestamps:
            assert self.offsets is not None
            found = bisect_right(self.timestamps, timestamp) - 1
            if found >= 0:
                return self.base_offset + self.offsets[found]
        low, high = 0, self.stored
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self.base_offset + (self._entry(low - 1)[1] if low else 0)

    def _entry(self, slot: int) -> tuple[int, int]:
        if self._file is None:
            self._file = self._disk.open(self.path)
        data = self._file.read(slot * TIME_ENTRY_SIZE, TIME_ENTRY_SIZE)
        if len(data) != TIME_ENTRY_SIZE:
            raise CorruptIndex(f"{self.path} ends before entry {slot}")
        timestamp, relative = _TIME_ENTRY.unpack(data)
        return timestamp, relative

    def _spill(self, count: int) -> None:
        if not self.timestamps:
            return
        assert self.offsets is not None
        data = bytearray(TIME_ENTRY_SIZE * count)
        for slot in range(count):
            _TIME_ENTRY.pack_into(data, slot * TIME_ENTRY_SIZE, self.timestamps[slot], self.offsets[slot])
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        self._file.write(self.stored * TIME_ENTRY_SIZE, data)
        self.stored += count
        del self.timestamps[:count], self.offsets[:count]

    def write_out(self) -> None:
        if self.timestamps:
            self._spill(len(self.timestamps))
        elif self._file is None and not self.stored:
            self._file = self._disk.open(self.path, create=True)
        self.timestamps = self.offsets = None

    def truncate(self, offset: int) -> None:
        """Forget entries at or after `offset`."""
        relative = offset - self.base_offset
        self._last = None
        if self.offsets:
            assert self.timestamps is not None
            keep = bisect_left(self.offsets, relative)
            del self.timestamps[keep:], self.offsets[keep:]
            if keep:
                self._last = (self.timestamps[-1], self.base_offset + self.offsets[-1])
                return
        low, high = 0, self.stored
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1] < relative:
                low = middle + 1
            else:
                high = middle
        if low < self.stored:
            self.stored = low
            assert self._file is not None
            self._file.truncate(low * TIME_ENTRY_SIZE)

    def reset(self) -> None:
        self.timestamps = self.offsets = self._last = None
        self.stored = 0
        _empty(self._disk, self._file, self.path)

    def entries(self) -> Iterator[tuple[int, int]]:
        for slot in range(self.stored):
            timestamp, relative = self._entry(slot)
            yield timestamp, self.base_offset + relative
        if self.timestamps is not None and self.offsets is not None:
            for timestamp, relative in zip(self.timestamps, self.offsets, strict=True):
                yield timestamp, self.base_offset + relative

    def sync_now(self) -> None:
        if self._file is not None:
            self._file.sync_now()

    def file(self) -> File | None:
        return self._file

    def moved(self, path: str) -> None:
        self.path = path
        if self._file is not None:
            self._file.moved(path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class AbortedTransaction(NamedTuple):
    """An entry of .txnindex: read_committed consumers skip the producer's batches from first to last offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose marker is in a segment; the file only exists once there is one."""

    __slots__ = ("_disk", "_file", "_transactions", "_written", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, *, exists: bool = False) -> None:
        self._disk = disk
        self._file: File | None = None
        self.path = path
        self.base_offset = base_offset
        self._transactions: list[AbortedTransaction] | None = None if exists else []
        self._written = 0

    @property
    def transactions(self) -> list[AbortedTransaction]:
        """Read on first use: they are few, and a fetch of a transactional topic asks every time."""
        if self._transactions is None:
            self._file = self._disk.open(self.path)
            data = self._file.read(0, self._file.size())
            whole = len(data) - len(data) % _ABORTED.size
            self._transactions = [
                AbortedTransaction(*fields) for _version, *fields in _ABORTED.iter_unpack(memoryview(data)[:whole])
            ]
            self._written = len(self._transactions)
        return self._transactions

    def __len__(self) -> int:
        return len(self.transactions)

    def append(self, transaction: AbortedTransaction) -> None:
        """Remember and write an entry. After an OSError it is remembered all the same: read_committed consumers must
        not see aborted records, and `write_out` tries again.
        """
        self.transactions.append(transaction)
        self.write_out()

    def write_out(self) -> None:
        """Write the entries that are only in memory."""
        if self._transactions is None or self._written == len(self._transactions):
            return
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        entries = b"".join(_ABORTED.pack(0, *entry) for entry in self._transactions[self._written :])
        self._file.write(self._written * _ABORTED.size, entries)
        self._written = len(self._transactions)

    def collect(self, start_offset: int, end_offset: int, into: list[AbortedTransaction]) -> bool:
        """Adds the transactions that overlap [start, end); True if no later segment can add any."""
        for transaction in self.transactions:
            if transaction.last_offset >= start_offset and transaction.first_offset < end_offset:
                into.append(transaction)
            if transaction.last_stable_offset >= end_offset:
                return True
        return False

    def truncate(self, offset: int) -> None:
        transactions = self.transactions
        for slot, transaction in enumerate(transactions):
            if transaction.last_offset >= offset:
                del transactions[slot:]
                self._written = min(self._written, slot)
                if self._file is not None:
                    self._file.truncate(slot * _ABORTED.size)
                return

    def reset(self) -> None:
        self._transactions = []
        self._written = 0
        _empty(self._disk, self._file, self.path)

    def sync_now(self) -> None:
        if self._file is not None:
            self._file.sync_now()

    def file(self) -> File | None:
        return self._file

    def moved(self, path: str) -> None:
        self.path = path
        if self._file is not None:
            self._file.moved(path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _empty(disk: Disk, file: File | None, path: str) -> None:
    if file is not None:
        file.truncate(0)
    elif disk.exists(path):
        opened = disk.open(path)
        opened.truncate(0)
        opened.close()


def _native(data: bytes) -> array[int]:
    entries = array("I", data)
    if sys.byteorder == "little":
        entries.byteswap()
    return entries
