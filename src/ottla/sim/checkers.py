"""What must hold, whatever happened: each checker raises `Violation`, which fails the run and names the checker.

They look at bytes and answers, never at the program's own opinion of itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from ottla import records
from ottla.sim.disk import Device

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")

Content = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


class Violation(AssertionError):
    """A promise was broken. The first word of the message names the checker."""


def check(claim: bool, checker: str, message: str) -> None:
    if not claim:
        raise Violation(f"{checker}: {message}")


class History:
    """The records that one partition was sent, and what it answered about them.

    A record is *acknowledged* when the broker answered with its offset, and *synced* when it must also survive a power
    loss. After a power loss offsets beyond the synced end may be used again, for other records: `forget_from` says so.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.acknowledged: dict[int, Content] = {}
        self.in_doubt: dict[Content, None] = {}
        """Sent without an answer: may be there, once or more often, or not."""
        self.synced_end = 0
        self.start_offset = 0
        self.high_watermark = 0
        self._fixed: dict[int, Content] = {}

    @property
    def end_offset(self) -> int:
        return max(self.acknowledged, default=-1) + 1

    def acknowledge(self, base_offset: int, contents: Iterable[Content], *, is_synced: bool = False) -> None:
        """The broker gave these records their offsets, for ever."""
        offset = base_offset
        for content in contents:
            there = self.acknowledged.get(offset)
            check(
                there is None or there == content, "reused", f"{self.name}: offset {offset} was {there}, now {content}"
            )
            self.acknowledged[offset] = content
            offset += 1
        if is_synced:
            self.synced_end = max(self.synced_end, offset)

    def doubt(self, contents: Iterable[Content]) -> None:
        self.in_doubt.update(dict.fromkeys(contents))

    def see_high_watermark(self, high_watermark: int) -> None:
        check(
            high_watermark >= self.high_watermark,
            "watermark",
            f"{self.name}: the high watermark went back from {self.high_watermark} to {high_watermark}",
        )
        self.high_watermark = high_watermark

    def see(self, found: Iterable[tuple[int, Content]]) -> None:
        """A reader saw these records at these offsets: no reader may ever see anything else there."""
        for offset, content in found:
            before = self._fixed.setdefault(offset, content)
            if before != content:
                raise Violation(f"changed: {self.name}: offset {offset} was read as {before}, then as {content}")

    def power_lost(self) -> None:
        """Unsynced records may be lost, and their offsets may be used again for other records."""
        end = self.synced_end
        for offset in [offset for offset in self.acknowledged if offset >= end]:
            self.in_doubt.setdefault(self.acknowledged.pop(offset))
        self._fixed = {offset: content for offset, content in self._fixed.items() if offset < end}
        self.high_watermark = min(self.high_watermark, end)

    def check_log(self, found: list[tuple[int, Content]], start_offset: int, end_offset: int) -> None:
        """The log as it was read from start to end (not compacted): every acknowledged record in its place, nothing
        that was never sent, no gaps."""
        check(start_offset <= end_offset, "bounds", f"{self.name}: start {start_offset} after end {end_offset}")
        check(
            end_offset >= self.end_offset,
            "lost",
            f"{self.name}: ends at {end_offset}, acknowledged up to {self.end_offset}",
        )
        offset = start_offset
        for at, content in found:
            if at != offset:
                raise Violation(f"gap: {self.name}: offset {at} follows {offset - 1}")
            offset += 1
            self._check_content(at, content)
        check(offset == end_offset, "short", f"{self.name}: readable up to {offset} of {end_offset}")
        self.see(found)

    def _check_content(self, offset: int, content: Content) -> None:
        expected = self.acknowledged.get(offset)
        if expected is None:
            if content not in self.in_doubt:
                raise Violation(f"invented: {self.name}: offset {offset} holds {content}, which was never sent")
        elif content != expected:
            raise Violation(f"wrong: {self.name}: offset {offset} holds {content}, not {expected}")

    def check_compacted(self, found: list[tuple[int, Content]]) -> None:
        """A compacted log: offsets rise, what is there is right, and the latest record of every key is there (or its
        tombstone, or nothing after a tombstone)."""
        last = -1
        for at, content in found:
            check(at > last, "order", f"{self.name}: offset {at} after {last}")
            last = at
            self._check_content(at, content)
        there = dict(found)
        latest: dict[bytes | None, int] = {}
        for offset, (key, _) in sorted(self.acknowledged.items()):
            latest[key] = offset
        doubted = {key for key, _ in self.in_doubt}
        newest = {content[0]: offset for offset, content in found}
        for key, offset in latest.items():
            is_tombstone = self.acknowledged[offset][1] is None
            is_superseded = key in doubted and newest.get(key, -1) > offset
            check(
                offset in there or is_tombstone or is_superseded,
                "compacted",
                f"{self.name}: the latest record of key {key!r}, at {offset}, is gone",
            )
            check(
                not is_tombstone or newest.get(key, -1) >= offset or key not in newest,
                "risen",
                f"{self.name}: key {key!r} was deleted at {offset} and is back from {newest.get(key)}",
            )


def check_once_in_order(name: str, found: list[tuple[int, Content]], sent: list[Content]) -> None:
    """An idempotent producer that retried until it was acknowledged: each record exactly once, in the order sent."""
    values = [content for _, content in found]
    check(values == sent, "once", f"{name}: {_difference(values, sent)}")


def _difference(values: list[Content], sent: list[Content]) -> str:
    for index, (value, expected) in enumerate(zip(values, sent, strict=False)):
        if value != expected:
            return f"record {index} is {value}, expected {expected}"
    return f"{len(values)} records, expected {len(sent)}"


def check_indexes(device: Device, directory: str, start_offset: int = 0) -> None:
    """Every entry of every index points at the right batch and has right timestamps."""
    for path in _segments(device, directory, start_offset):
        _check_segment_indexes(device, path)


def _segments(device: Device, directory: str, start_offset: int) -> list[str]:
    """Paths of the segments that reach beyond the log's start; others only wait to be removed."""
    paths = [path for path in device.files(directory) if path.endswith(".log")]
    bases = [int(path.removesuffix(".log").rpartition("/")[2]) for path in paths]
    ends = [*bases[1:], 2**63]
    return [path for path, end in zip(paths, ends, strict=False) if end > start_offset]


def _check_segment_indexes(device: Device, path: str) -> None:
    prefix, data = path.removesuffix(".log"), device.content(path)
    base_offset = int(prefix.rpartition("/")[2])
    batches = records.split(data)
    at_position = dict(batches)
    files = device.files(prefix.rpartition("/")[0])
    if f"{prefix}.index" in files:
        last = -1
        for relative, position in _entries(device.content(f"{prefix}.index"), _OFFSET_ENTRY):
            header = at_position.get(position)
            offset = base_offset + relative
            if header is None or not header.base_offset <= offset <= header.last_offset:
                raise Violation(f"index: {prefix}.index: offset {offset} at {position}, where {header} stands")
            check(offset > last, "index", f"{prefix}.index: offset {offset} after {last}")
            last = offset
    if f"{prefix}.timeindex" in files:
        last = -1
        for timestamp, relative in _entries(device.content(f"{prefix}.timeindex"), _TIME_ENTRY):
            check(timestamp >= last, "timeindex", f"{prefix}.timeindex: {timestamp} after {last}")
            last = timestamp
            until = base_offset + relative
            largest = max((header.max_timestamp for _, header in batches if header.base_offset <= until), default=-1)
            check(
                largest == timestamp,
                "timeindex",
                f"{prefix}.timeindex: {timestamp} up to offset {until}, where the largest is {largest}",
            )


def _entries(data: bytes, entry: Struct) -> Iterable[tuple[int, int]]:
    """The entries up to the zeros that fill a file made larger in advance (as Kafka makes its active indexes)."""
    for index, position in enumerate(range(0, len(data) - entry.size + 1, entry.size)):
        first, second = entry.unpack_from(data, position)
        if index and not first and not second:
            return
        yield first, second


def check_batches(device: Device, directory: str, start_offset: int = 0) -> None:
    """Segment files hold whole, sound batches with rising offsets, and nothing else."""
    next_offset = 0
    for path in _segments(device, directory, start_offset):
        data = device.content(path)
        base_offset = int(path.removesuffix(".log").rpartition("/")[2])
        check(base_offset >= next_offset, "segments", f"{path} begins before {next_offset}")
        end = 0
        for position, header in records.split(data):
            if header.base_offset < next_offset:
                raise Violation(f"segments: {path}: {header} before {next_offset}")
            if not records.crc_ok(data, position, header.size):
                raise Violation(f"crc: {path}: {header} at {position}")
            next_offset, end = header.next_offset, position + header.size
        check(end == len(data), "segments", f"{path}: {len(data) - end} bytes behind the last batch")
