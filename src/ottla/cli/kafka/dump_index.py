"""The indexes beside a log, as kafka-dump-log shows and checks them."""

from __future__ import annotations

import sys
from bisect import bisect_right
from pathlib import Path
from struct import Struct

from ottla.cli.kafka.dump_records import batches
from ottla.cli.kafka.options import ToolError
from ottla.records import read, read_header
from ottla.records.batch import LOG_OVERHEAD

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_ABORTED = Struct(">hqqqq")
_CORRUPT_INDEX = "org.apache.kafka.storage.internals.log.CorruptIndexException"
Pairs = dict[str, list[tuple[int, int]]]


class CorruptFile(Exception):
    """A file whose content does not match its name."""


class IndexDump:
    """Shows indexes, and remembers where they do not fit their logs."""

    def __init__(self, is_sanity_check: bool, is_quiet: bool, max_message_size: int) -> None:
        self._is_sanity_check = is_sanity_check
        self._is_quiet = is_quiet
        self._max_message_size = max_message_size
        self._wrong_offsets: dict[str, dict[int, int]] = {}
        self._wrong_times: Pairs = {}
        self._unordered_times: Pairs = {}
        self._missing_offsets: Pairs = {}

    def show_offsets(self, path: Path) -> None:
        log = _read_log(path)
        data = path.read_bytes()
        base = base_offset_of(path)
        entries = list(_OFFSET_ENTRY.iter_unpack(data[: len(data) // 8 * 8]))
        if not entries:
            print(f"{path} is empty.")
            return
        if self._is_sanity_check:
            self._check_offsets(path, data, base, base + entries[-1][0])
            return
        for number, (delta, position) in enumerate(entries):
            if delta == 0 and number > 0:
                return  # the rest was set aside and never written
            last = _last_offset(log, position)
            if last != base + delta:
                self._wrong_offsets.setdefault(str(path.absolute()), {})[base + delta] = last
            if not self._is_quiet:
                print(f"offset: {base + delta} position: {position}")

    def _check_offsets(self, path: Path, data: bytes, base: int, last: int) -> None:
        if last < base:
            raise ToolError(
                f"Corrupt index found, index file {path.absolute()} has non-zero size but the last offset is {last} "
                f"which is less than the base offset {base}",
                _CORRUPT_INDEX,
            )
        if len(data) % _OFFSET_ENTRY.size:
            raise ToolError(
                f"Index file {path.absolute()} is corrupt, found {len(data)} bytes which is neither positive nor a "
                f"multiple of {_OFFSET_ENTRY.size}",
                _CORRUPT_INDEX,
            )
        print(f"{path} passed sanity check.")

    def show_times(self, path: Path) -> None:
        log = _read_log(path)
        base = base_offset_of(path)
        offsets = _offset_entries(path.with_name(path.name.partition(".")[0] + ".index"), base)
        data = path.read_bytes()
        entries = list(_TIME_ENTRY.iter_unpack(data[: len(data) // 12 * 12]))
        if self._is_sanity_check:
            self._check_times(path, data, base, entries)
            return
        previous = -1
        for number, (timestamp, delta) in enumerate(entries):
            if delta == 0 and number > 0:
                return
            self._compare_time(path, log, offsets, timestamp, base + delta, previous)
            if not self._is_quiet:
                print(f"timestamp: {timestamp} offset: {base + delta}")
            previous = timestamp

    def _compare_time(
        self,
        path: Path,
        log: memoryview,
        offsets: list[tuple[int, int]],
        timestamp: int,
        offset: int,
        previous: int,
    ) -> None:
        name = str(path.absolute())
        slot = bisect_right(offsets, (offset, sys.maxsize)) - 1
        begin = offsets[slot][1] if slot >= 0 else 0
        for _, batch in batches(log[begin:], path):
            header = read_header(batch)
            if header.last_offset >= offset:
                break
        else:
            self._missing_offsets.setdefault(name, []).append((offset, -1))
            return
        if header.last_offset != offset:
            self._missing_offsets.setdefault(name, []).append((offset, header.last_offset))
            return
        latest = max((record.timestamp for record in read(batch)), default=-1)
        if latest != timestamp:
            self._wrong_times.setdefault(name, []).append((timestamp, latest))
        if previous >= timestamp:
            self._unordered_times.setdefault(name, []).append((timestamp, previous))

    def _check_times(self, path: Path, data: bytes, base: int, entries: list[tuple[int, ...]]) -> None:
        timestamp, delta = entries[-1] if entries else (-1, 0)
        what = f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last"
        if entries and timestamp < entries[0][0]:
            raise ToolError(
                f"{what} timestamp is {timestamp} which is less than the first timestamp {entries[0][0]}",
                _CORRUPT_INDEX,
            )
        if entries and delta < 0:
            raise ToolError(
                f"{what} offset is {base + delta} which is less than the first offset {base}", _CORRUPT_INDEX
            )
        if len(data) % _TIME_ENTRY.size:
            raise ToolError(
                f"Time index file {path.absolute()} is corrupt, found {len(data)} bytes which is neither positive nor "
                f"a multiple of {_TIME_ENTRY.size}",
                _CORRUPT_INDEX,
            )
        print(f"{path} passed sanity check.")

    def show_aborted(self, path: Path) -> None:
        """The aborted transactions of a segment."""
        data = path.read_bytes()
        for version, producer_id, first, last, stable in _ABORTED.iter_unpack(data[: len(data) // 34 * 34]):
            print(
                f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
                f"lastStableOffset: {stable}"
            )

    def show_findings(self) -> None:
        for name, mismatches in self._wrong_offsets.items():
            _complain(f"Mismatches in :{name}")
            for indexed in sorted(mismatches, reverse=True):
                _complain(f"  Index offset: {indexed}, log offset: {mismatches[indexed]}")
        _complain_of(self._wrong_times, "Found timestamp mismatch in :", "  Index timestamp: {}, log timestamp: {}")
        _complain_of(
            self._unordered_times,
            "Found out of order timestamp in :",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
        )
        _complain_of(
            self._missing_offsets,
            "The following indexed offsets are not found in :",
            "Indexed offset: {}, found log offset: {}",
        )


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


def _complain_of(found: Pairs, title: str, line: str) -> None:
    for name, pairs in found.items():
        _complain(f"{title}{name}")
        for one, other in pairs:
            _complain(line.format(one, other))


def base_offset_of(path: Path) -> int:
    """The offset that a file is named after."""
    name = path.name.partition(".")[0]
    if not name.isdigit():
        raise ToolError(f'For input string: "{name}"', "java.lang.NumberFormatException")
    return int(name)


def _read_log(path: Path) -> memoryview:
    return memoryview(path.with_name(path.name.partition(".")[0] + ".log").read_bytes())


def _offset_entries(path: Path, base: int) -> list[tuple[int, int]]:
    data = path.read_bytes()
    entries: list[tuple[int, int]] = []
    for delta, position in _OFFSET_ENTRY.iter_unpack(data[: len(data) // 8 * 8]):
        if delta == 0 and entries:
            break
        entries.append((base + delta, position))
    return entries


def _last_offset(log: memoryview, position: int) -> int:
    """The last offset of the batch at a position of the log."""
    if position > len(log) - LOG_OVERHEAD:
        raise ToolError(f"the index points at {position}, behind the log's end at {len(log)}")
    for _, batch in batches(log[position:], Path()):
        return read_header(batch).last_offset
    raise ToolError(
        f"the index points at {position}, where the log has no whole batch", "java.util.NoSuchElementException"
    )
