"""The growing end of a log: where almost every append goes, and nothing else.

Cython compiles this file (types in tail.pxd), and it runs as it stands. `Log` and `Segment` are these two classes and
all the rest; what is here is what a batch passes on its way to the file.
"""

from __future__ import annotations

import errno
from struct import Struct
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.records import HEADER_SIZE, kernel
from ottla.records.batch import (
    CONTROL_FLAG,
    CRC_START,
    HEADER,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from ottla.storage.index import MAX_RELATIVE_OFFSET
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.replication import LeaderEpochs, ProducerState
    from ottla.storage.disk import File
    from ottla.storage.index import OffsetIndex, TimeIndex

NEVER = 2**63 - 1
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
MAX_DECOMPRESSED = 128 * 1024 * 1024

# C integers when compiled; visible only in this module
_NEVER = NEVER
_MAX_RELATIVE_OFFSET = MAX_RELATIVE_OFFSET
_MAX_SEQUENCE = MAX_SEQUENCE

_STAMP = Struct(">qii")  # base offset, length, leader epoch
_UNUSUAL = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
_OF_TRANSACTIONS = TRANSACTIONAL_FLAG | CONTROL_FLAG
_CRC_START = CRC_START


class SegmentTail:
    """What a segment keeps in memory about its end."""

    __slots__ = (
        "_file",
        "base_offset",
        "bytes_since_entry",
        "first_timestamp",
        "is_full",
        "largest_batch_size",
        "max_timestamp",
        "offset_index",
        "offset_limit",
        "offset_of_max_timestamp",
        "reserved",
        "size",
        "time_index",
        "time_limit",
    )

    if TYPE_CHECKING:
        _file: File | None
        base_offset: int
        bytes_since_entry: int
        first_timestamp: int
        is_full: bool
        largest_batch_size: int
        max_timestamp: int
        offset_index: OffsetIndex
        offset_limit: int
        offset_of_max_timestamp: int
        reserved: int
        size: int
        time_index: TimeIndex
        time_limit: int

        def reserve(self, end: int) -> None: ...
        def trim(self) -> None: ...

    def note(
        self,
        position: int,
        size: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        interval_bytes: int,
    ) -> None:
        """Account for a batch at `position`: timestamps and, every so many bytes, index entries."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if not position:
            self.first_timestamp = max_timestamp
        if size > self.largest_batch_size:
            self.largest_batch_size = size
        if self.bytes_since_entry > interval_bytes:
            self.offset_index.append(base_offset, last_offset, position)
            self.time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
            self.bytes_since_entry = size
            if len(self.offset_index) >= self.offset_limit or len(self.time_index) >= self.time_limit:
                self.is_full = True
        else:
            self.bytes_since_entry += size


class LogTail:
    """What a log keeps in memory to append the next batch of a known producer."""

    __slots__ = (
        "_active",
        "_after_max_ms",
        "_before_max_ms",
        "_flush_messages",
        "_index_interval_bytes",
        "_is_compacted",
        "_keeps_batches",
        "_max_message_bytes",
        "_max_record_bytes",
        "_on_failure",
        "_roll_after",
        "_roll_after_wall",
        "_segment_bytes",
        "epochs",
        "high_watermark",
        "is_cut",
        "is_offline",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "validates_schemas",
    )

    if TYPE_CHECKING:
        _active: Any
        _after_max_ms: int
        _before_max_ms: int
        _flush_messages: int
        _index_interval_bytes: int
        _is_compacted: bool
        _keeps_batches: bool
        _max_message_bytes: int
        _max_record_bytes: int
        _on_failure: Callable[[Any, OSError], None] | None
        _roll_after: int
        _roll_after_wall: int
        _segment_bytes: int
        epochs: LeaderEpochs
        high_watermark: int
        is_cut: bool
        is_offline: bool
        log_end_offset: int
        log_start_offset: int
        producers: ProducerState
        recovery_point: int
        validates_schemas: bool

    def place(self, batches: memoryview | bytearray, leader_epoch: int, timestamp: int) -> int:
        """Append one ordinary batch: the next of a producer that is known here (or of one without an id), valid by the
        topic's rules without a change, into the active segment. Returns its base offset; or -1, with nothing changed,
        if anything about it is unusual: then `Log` takes it. KafkaError when the disk refuses it.
        """
        size = len(batches)
        segment = self._active
        if size < HEADER_SIZE or size > self._max_message_bytes or segment is None or not self._keeps_batches:
            return -1
        if segment._file is None:
            return -1
        header = HEADER.unpack_from(batches)
        base_offset, length, _, magic, _, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, _ = header
        if length + LOG_OVERHEAD != size or magic != 2 or base_offset != 0 or attributes & _UNUSUAL or self.is_offline:
            return -1
        offset = self.log_end_offset
        last_offset = offset + delta
        if not self._has_room(segment, size, last_offset, leader_epoch, max_timestamp, timestamp):
            return -1
        producers = self.producers
        entry = None
        last = -1
        if producer_id >= 0:
            entry = producers.producers.get(producer_id)
            if entry is None or entry.next_sequence != sequence or entry.epoch != epoch or not entry.batches:
                return -1
            if producers.verifications or producers.ongoing:
                return -1
            last = sequence + delta
            if last > _MAX_SEQUENCE:
                last -= _MAX_SEQUENCE + 1
        latest = _NEVER
        if self._after_max_ms < _NEVER - timestamp:
            latest = timestamp + self._after_max_ms
        checked = kernel.check(
            batches,
            True,
            timestamp,
            timestamp - self._before_max_ms,
            latest,
            False,
            self._is_compacted,
            True,
            MAX_DECOMPRESSED,
            self._max_record_bytes,
        )
        if checked[0] or checked[3] != max_timestamp or not checked[5]:
            return -1
        self._put(segment, batches, size, last_offset, leader_epoch, max_timestamp)
        if entry is not None:
            entry.extend(last, last_offset, delta, max_timestamp)
        return offset

    def place_made(self, batch: bytearray, count: int, leader_epoch: int, timestamp: int) -> int:
        """Append one ordinary batch that this node made itself: so many records of this timestamp, without a producer.
        Returns its base offset; or -1, with nothing changed, if it does not fit into the active segment.
        KafkaError when the disk refuses it."""
        size = len(batch)
        segment = self._active
        if size > self._max_message_bytes or segment is None or not self._keeps_batches or self.is_offline:
            return -1
        offset = self.log_end_offset
        last_offset = offset + count - 1
        if segment._file is None or not self._has_room(segment, size, last_offset, leader_epoch, timestamp, timestamp):
            return -1
        self._put(segment, batch, size, last_offset, leader_epoch, timestamp)
        return offset

    def copy(self, batches: memoryview | bytearray) -> int:
        """Append ordinary batches as a follower, as the leader has them: each follows the one before it, in the current
        epoch, of known producers, into the active segment; a batch that is cut off at the end is left out. Returns the
        new log end offset; or -1, with nothing changed, if anything about them is unusual. KafkaError when the disk
        refuses them.
        """
        segment = self._active
        if segment is None or segment._file is None or self.is_offline or not segment.size:
            return -1
        end = len(batches)
        position = 0
        next_offset = self.log_end_offset
        newest = -1
        known = self.producers.producers
        found: list[Any] = []
        while end - position >= HEADER_SIZE:
            header = HEADER.unpack_from(batches, position)
            base_offset, length, leader_epoch, magic, crc, attributes, delta, _, max_timestamp, id, epoch, first, _ = (
                header
            )
            size = length + LOG_OVERHEAD
            if size < HEADER_SIZE or magic != 2 or base_offset != next_offset or delta < 0:
                return -1
            if size > end - position:
                break
            if attributes & _OF_TRANSACTIONS or leader_epoch != self.epochs.latest:
                return -1
            entry = None
            if id >= 0:
                entry = known.get(id)
                if entry is None or entry.epoch != epoch:
                    return -1
            if kernel.crc32c_range(batches, position + _CRC_START, position + size) != crc:
                return -1
            last = first + delta
            if last > _MAX_SEQUENCE:
                last -= _MAX_SEQUENCE + 1
            found.append((position, size, base_offset, base_offset + delta, max_timestamp, entry, last))
            if max_timestamp > newest:
                newest = max_timestamp
            next_offset += delta + 1
            position += size
        if not found or not self._has_room(segment, position, next_offset - 1, self.epochs.latest, newest, -1):
            return -1
        start = segment.size
        self._write_at(segment, start, batches[:position], position)
        for place, size, base_offset, last_offset, max_timestamp, entry, last in found:
            segment.note(start + place, size, base_offset, last_offset, max_timestamp, self._index_interval_bytes)
            if entry is not None:
                entry.extend(last, last_offset, last_offset - base_offset, max_timestamp)
        self.log_end_offset = next_offset
        self.producers.end_offset = next_offset
        return next_offset

    def _has_room(
        self,
        segment: SegmentTail,
        size: int,
        last_offset: int,
        leader_epoch: int,
        max_timestamp: int,
        timestamp: int,
    ) -> bool:
        """Whether a batch fits into the active segment, without a roll, a new epoch or a cut to sync."""
        return (
            segment.size != 0
            and segment.size + size <= self._segment_bytes
            and last_offset - segment.base_offset <= _MAX_RELATIVE_OFFSET
            and max_timestamp <= self._roll_after
            and timestamp <= self._roll_after_wall
            and not segment.is_full
            and leader_epoch == self.epochs.latest
            and not self.is_cut
        )

    def _put(
        self,
        segment: SegmentTail,
        batch: memoryview | bytearray,
        size: int,
        last_offset: int,
        leader_epoch: int,
        max_timestamp: int,
    ) -> None:
        """Write a checked batch, with its offset and epoch in it, and account for it."""
        position = segment.size
        offset = self.log_end_offset
        _STAMP.pack_into(batch, 0, offset, size - LOG_OVERHEAD, leader_epoch)
        self._write_at(segment, position, batch, size)
        segment.note(position, size, offset, last_offset, max_timestamp, self._index_interval_bytes)
        self.log_end_offset = last_offset + 1
        self.producers.end_offset = last_offset + 1

    def _write_at(self, segment: SegmentTail, position: int, data: memoryview | bytearray, size: int) -> None:
        file: Any = segment._file
        if position + size > segment.reserved:
            segment.reserve(position + size)
        try:
            file.write(position, data)
        except OSError as trouble:
            self._write_failed(segment, trouble)
        segment.size = position + size

    @property
    def flushes_by_count(self) -> bool:
        """Whether `flush.messages` is set, so that an append may have to wait for the disk."""
        return self._flush_messages != _NEVER

    @property
    def is_flush_due(self) -> bool:
        """Whether `flush.messages` says that the last append must be on disk before it is acknowledged."""
        return self.log_end_offset - self.recovery_point >= self._flush_messages

    def advance_high_watermark(self, offset: int) -> int:
        """Everything below `offset` is committed; limited to the log's bounds (L1). Returns the new high watermark."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = offset
        if self.producers.unreplicated:
            self.producers.advance_high_watermark(offset)
        return offset

    def _write_failed(self, segment: SegmentTail, trouble: OSError) -> NoReturn:
        """Undo a partial write. A full disk may be temporary: reads continue and the next append tries again. Any other
        error takes the log dir offline.
        """
        if trouble.errno in NO_ROOM:
            try:
                segment.trim()
            except OSError as worse:
                self._failed(worse)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The disk is full") from trouble
        self._failed(trouble)

    def _failed(self, trouble: OSError) -> NoReturn:
        """Take the log dir offline: it cannot be trusted any more."""
        if trouble.errno not in NO_ROOM:
            self.is_offline = True
            if self._on_failure is not None:
                self._on_failure(self, trouble)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(trouble)) from trouble
