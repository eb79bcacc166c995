"""The log of one partition: Kafka's UnifiedLog without tiered storage.

A log is a list of segments. Appends go to the last; when it is full or old a new one is rolled. Reads give slices of
files. One thread, no locks: every method but `flush` runs to completion.

Invariants
  L1  log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
  L2  recovery_point <= log_end_offset; everything below it has been synced, with the epochs and snapshots it needs
  L3  segments are ordered by base offset, the last is the active one, and there is always one
  L4  offsets are never given twice: log_end_offset only goes back by `truncate`
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from random import Random
from struct import Struct
from typing import NamedTuple, NoReturn

from ottla.config import TopicConfig
from ottla.records import (
    HEADER_SIZE,
    BatchHeader,
    Compression,
    ControlType,
    CorruptRecords,
    RecordError,
    check,
    crc_ok,
    find_max_timestamp,
    find_timestamp,
    read_end_txn_marker,
    recompress,
    set_max_timestamp,
    split,
)
from ottla.replication import LeaderEpochs, Origin, ProducerState
from ottla.storage.checkpoints import LEADER_EPOCHS, sync_epochs, write_epochs, write_topic_id
from ottla.storage.disk import Disk, File, FileSlice
from ottla.storage.index import MAX_RELATIVE_OFFSET, AbortedTransaction
from ottla.storage.segment import DELETED, SWAP, Segment
from ottla.storage.snapshots import rebuild_producers, remove_if_there, snapshot_path, write_snapshot
from ottla.storage.tail import MAX_DECOMPRESSED, NEVER, NO_ROOM, LogTail
from ottla.wire.errors import ErrorCode, KafkaError

_MAGIC_POSITION, _MAGIC = 16, 2
_STAMP_OFFSET = Struct(">q")
_STAMP_EPOCH = Struct(">i")

_ERRORS = {int(code): code for code in ErrorCode}

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Appended(NamedTuple):
    """What an append did. A duplicate appended nothing: the offsets are those of the first time."""

    base_offset: int
    last_offset: int
    log_append_time: int
    """-1 when the topic keeps the producer's timestamps."""
    log_start_offset: int
    is_duplicate: bool


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class RecordsRefused(KafkaError):
    """A batch with records that the topic does not accept, and which ones (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str | None, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def _remove_at_once(disk: Disk) -> Callable[[list[str], int], None]:
    def remove(paths: list[str], _delay_ms: int) -> None:
        for path in paths:
            try:
                disk.remove(path)
            except FileNotFoundError:
                continue

    return remove


class Log(LogTail):
    """One partition's log on a disk. `Log.create` makes a new one, `recovery.load_log` opens what is there."""

    __slots__ = (
        "_codec",
        "_codec_level",
        "_config",
        "_disk",
        "_file_delete_delay_ms",
        "_flushed_at",
        "_flushing",
        "_fresh_files",
        "_has_log_append_time",
        "_remove_later",
        "_rng",
        "_snapshots",
        "_tail_offset",
        "_tail_position",
        "_truncations",
        "_unsynced_snapshot",
        "directory",
        "partition",
        "segments",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: TopicConfig,
        *,
        segments: list[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: list[int],
        topic_id: bytes | None = None,
        rng: Random | None = None,
        remove_later: Callable[[list[str], int], None] | None = None,
        on_failure: Callable[[Log, OSError], None] | None = None,
    ) -> None:
        assert segments, "L3"
        self._disk = disk
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.epochs = epochs
        self.producers = producers
        self.is_offline = False
        self._snapshots = snapshots
        self._rng = rng
        self._remove_later = remove_later or _remove_at_once(disk)
        self._on_failure = on_failure
        self._flushing: asyncio.Future[None] | None = None
        self._flushed_at = -1
        self._fresh_files = False
        self._active: Segment | None = None
        self._tail_offset = self._tail_position = -1
        self._unsynced_snapshot = -1
        self._truncations = 0
        self._roll_after = self._roll_after_wall = NEVER
        self.config = config

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: TopicConfig,
        *,
        topic_id: bytes | None,
        timestamp: int,
        start_offset: int = 0,
        rng: Random | None = None,
        remove_later: Callable[[list[str], int], None] | None = None,
        on_failure: Callable[[Log, OSError], None] | None = None,
    ) -> Log:
        """A new, empty log in a new folder: the folder, one empty segment and partition.metadata."""
        disk.make_directory(directory)
        segment = Segment.create(disk, directory, start_offset, created_timestamp=timestamp)
        if topic_id is not None:
            write_topic_id(disk, directory, topic_id, is_new=True)
        log = cls(
            disk,
            directory,
            topic,
            partition,
            config,
            segments=[segment],
            log_start_offset=start_offset,
            log_end_offset=start_offset,
            recovery_point=start_offset,
            epochs=LeaderEpochs(),
            producers=ProducerState(),
            snapshots=[],
            topic_id=topic_id,
            rng=rng,
            remove_later=remove_later,
            on_failure=on_failure,
        )
        log.producers.end_offset = start_offset
        log._fresh_files = True
        segment.jitter_ms = log._jitter_ms()
        return log

    def __repr__(self) -> str:
        return (
            f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset},"
            f" high_watermark={self.high_watermark}, segments={len(self.segments)})"
        )

    # --- configuration

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        """Take new settings; they apply from the next append, roll or retention on."""
        self._config = config
        self._segment_bytes = config.segment_bytes
        self._max_message_bytes = config.max_message_bytes
        self._index_interval_bytes = config.index_interval_bytes
        self._has_log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._is_compacted = "compact" in config.cleanup_policy
        self._codec = _CODECS.get(config.compression_type)
        self._codec_level: int | None = {
            "gzip": config.compression_gzip_level,
            "lz4": config.compression_lz4_level,
            "zstd": config.compression_zstd_level,
        }.get(config.compression_type)
        # Whether an ordinary batch goes into the log as the producer made it.
        self._keeps_batches = self._codec is None and not self._has_log_append_time
        self._flush_messages = config.flush_messages
        self._file_delete_delay_ms = config.file_delete_delay_ms
        if self._active is not None:
            self._active.limit_index(config.segment_index_bytes)
            self._arm_roll(self._active)

    def _max_segment_ms(self) -> int:
        """Kafka bounds a compacted topic's segments by its largest compaction lag, too."""
        if self._is_compacted:
            return min(self._config.segment_ms, self._config.max_compaction_lag_ms)
        return self._config.segment_ms

    def _jitter_ms(self) -> int:
        jitter_ms = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return self._rng.randrange(jitter_ms) if jitter_ms > 0 and self._rng is not None else 0

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Give a log from before topic ids (or whose partition.metadata was lost) its id."""
        if self.topic_id is None:
            write_topic_id(self._disk, self.directory, topic_id)
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.topic}-{self.partition} belongs to another topic id"
            )

    # --- appending

    def append(
        self,
        batches: memoryview | bytearray,
        *,
        leader_epoch: int,
        timestamp: int,
        now: int = 0,
        is_verified: bool = True,
    ) -> Appended:
        """Append what a producer sent, as leader: check it, give it offsets (in place: the buffer is changed) and write
        it, in one write. KafkaError when it is refused. `is_verified` is false for a transactional batch whose
        transaction the coordinator has not confirmed."""
        offset = self.place(batches, leader_epoch, timestamp)
        if offset < 0:
            return self._append_unusual(batches, leader_epoch, timestamp, Origin.CLIENT, is_verified, 0)
        return tuple.__new__(Appended, (offset, self.log_end_offset - 1, -1, self.log_start_offset, False))

    def append_control(
        self, batch: bytearray, *, leader_epoch: int, timestamp: int, now: int = 0, transaction_version: int = 0
    ) -> Appended:
        """Append a batch that a coordinator made: a transaction marker, or records of an internal topic."""
        return self._append_unusual(batch, leader_epoch, timestamp, Origin.COORDINATOR, True, transaction_version)

    def begin_epoch(self, epoch: int) -> None:
        """What comes from here on is of a new leader's epoch; known before its first record, so that others who ask
        where the epochs before it end are told. `note_epochs` writes it down, which can wait: recovery finds the epochs
        of records, and one without any is nobody's loss."""
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, self.log_end_offset)
            self.epochs.is_dirty = True

    def append_as_follower(self, batches: memoryview | bytearray) -> int:
        """Append what the leader has, offsets and epochs as they are; the new log end offset. Batches that the log
        already has are an error of the caller."""
        if not len(batches):
            return self.log_end_offset
        copied = self.copy(batches)
        if copied >= 0:
            return copied
        found = self._split(batches)
        first, last = found[0][1], found[-1][1]
        expected = self.log_end_offset
        for position, header in found:
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"{self.topic}-{self.partition}: offset {header.base_offset} comes after {expected - 1}",
                )
            if not crc_ok(batches, position, header.size):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The batch at offset {header.base_offset} is corrupt")
            expected = header.last_offset + 1
        view = memoryview(batches)[: found[-1][0] + last.size]
        self._write(view, found, first.base_offset, -1, Origin.REPLICATION, None, 0)
        return self.log_end_offset

    def _append_unusual(
        self,
        batches: memoryview | bytearray,
        leader_epoch: int,
        timestamp: int,
        origin: Origin,
        is_verified: bool,
        transaction_version: int,
    ) -> Appended:
        """The general case of `append`: several batches, transactions, markers."""
        is_client = origin == Origin.CLIENT
        if len(batches) >= HEADER_SIZE and batches[_MAGIC_POSITION] != _MAGIC:
            self._refuse(batches[_MAGIC_POSITION], 0, len(batches))
        prepared: list[memoryview | bytearray] = []
        headers: list[tuple[int, BatchHeader]] = []
        offset = first_offset = self.log_end_offset
        total = 0
        found = self._split(batches)
        if is_client and len(found) > 1:
            raise KafkaError(ErrorCode.INVALID_RECORD, "A produce request holds one record batch per partition")
        for position, header in found:
            batch: memoryview | bytearray = memoryview(batches)[position : position + header.size]
            if header.size > self._max_message_bytes or (is_client and header.base_offset != 0):
                self._refuse(header.magic, header.base_offset, header.size)
            checked = check(
                batch,
                timestamp=timestamp,
                log_append_time=self._has_log_append_time,
                before_max_ms=self._before_max_ms,
                after_max_ms=self._after_max_ms,
                requires_key=self._is_compacted and not header.is_control,
                max_decompressed=MAX_DECOMPRESSED,
                is_client=is_client,
            )
            if checked.error:
                raise RecordsRefused(_ERRORS[checked.error], checked.message, checked.record_errors)
            attributes = header.attributes
            if not header.is_control and (
                (self._codec is not None and self._codec != attributes & 7) or not checked.is_in_place
            ):
                batch = self._recompress(batch, attributes)
            if checked.max_timestamp != header.max_timestamp or self._has_log_append_time or attributes & 8:
                set_max_timestamp(batch, checked.max_timestamp, self._has_log_append_time)
            _STAMP_OFFSET.pack_into(batch, 0, offset)
            _STAMP_EPOCH.pack_into(batch, 12, leader_epoch)
            placed = header._replace(
                base_offset=offset,
                length=len(batch) - 12,
                max_timestamp=checked.max_timestamp,
                leader_epoch=leader_epoch,
            )
            headers.append((total, placed))
            prepared.append(batch)
            total += len(batch)
            offset = placed.last_offset + 1
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        data = prepared[0] if len(prepared) == 1 else bytearray().join(prepared)
        duplicate = self._write(data, headers, first_offset, timestamp, origin, is_verified, transaction_version)
        if duplicate is not None:
            return duplicate
        return Appended(
            first_offset,
            self.log_end_offset - 1,
            timestamp if self._has_log_append_time else -1,
            self.log_start_offset,
            False,
        )

    def _split(self, batches: memoryview | bytearray) -> list[tuple[int, BatchHeader]]:
        try:
            found = split(batches)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None
        if not found:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "There is no whole record batch")
        return found

    def _write(
        self,
        data: memoryview | bytearray,
        headers: list[tuple[int, BatchHeader]],
        first_offset: int,
        timestamp: int,
        origin: Origin,
        is_verified: bool | None,
        transaction_version: int,
    ) -> Appended | None:
        """Check the producers of placed batches, write them together and replay them; a duplicate writes nothing."""
        producers = self.producers
        markers: dict[int, tuple[bool, int]] = {}
        for position, header in headers:
            if header.producer_id < 0:
                continue
            if header.is_control:
                marker = read_end_txn_marker(memoryview(data)[position : position + header.size])
                markers[position] = (marker.control_type == ControlType.ABORT, marker.coordinator_epoch)
                producers.check_marker(
                    header.producer_id, header.producer_epoch, marker.coordinator_epoch, origin, transaction_version
                )
                continue
            if origin == Origin.REPLICATION:
                continue
            duplicate = producers.check(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                origin,
            )
            if duplicate is not None:
                return Appended(
                    duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, self.log_start_offset, True
                )
            producers.check_transaction(header.producer_id, header.is_transactional)
            if (
                header.is_transactional
                and not is_verified
                and not producers.has_ongoing_transaction(header.producer_id, header.producer_epoch)
            ):
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, "The batch is not part of an ongoing transaction")

        size = len(data)
        last_offset = headers[-1][1].last_offset
        max_timestamp = max(header.max_timestamp for _, header in headers)
        if size > self._segment_bytes and len(headers) > 1 and origin != Origin.REPLICATION:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment")
        segment = self._segment_for(size, last_offset, max_timestamp, timestamp, first_offset)
        position = segment.size
        if position + size > segment.reserved:
            segment.reserve(position + size)
        try:
            segment.file.write(position, data)
        except OSError as trouble:
            self._write_failed(segment, trouble)
        segment.size = position + size
        self.log_end_offset = last_offset + 1
        for at, header in headers:
            segment.note(
                position + at,
                header.size,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                self._index_interval_bytes,
            )
            if header.leader_epoch != self.epochs.latest and header.leader_epoch >= 0:
                self.epochs.assign(header.leader_epoch, header.base_offset)
                self.note_epochs()
            self._replay(header, markers.get(at), segment)
        if not position:
            self._arm_roll(segment)
        return None

    def _replay(self, header: BatchHeader, marker: tuple[bool, int] | None, segment: Segment) -> None:
        producers = self.producers
        if header.producer_id < 0:
            producers.end_offset = header.last_offset + 1
        elif marker is None:
            producers.replay(
                header.producer_id,
                header.producer_epoch,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                header.is_transactional,
            )
        else:
            is_abort, coordinator_epoch = marker
            completed = producers.replay_marker(
                header.producer_id,
                header.producer_epoch,
                coordinator_epoch,
                header.base_offset,
                header.max_timestamp,
                is_abort,
            )
            if completed is not None:
                if is_abort:
                    try:
                        segment.transaction_index.append(
                            AbortedTransaction(
                                completed.producer_id,
                                completed.first_offset,
                                completed.last_offset,
                                producers.last_stable_offset_after(completed),
                            )
                        )
                    except OSError as trouble:
                        if trouble.errno not in NO_ROOM:
                            self._failed(trouble)
                producers.complete(completed)

    def _refuse(self, magic: int, base_offset: int, size: int) -> NoReturn:
        if magic != 2:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Record batches of magic {magic} are not accepted")
        if size > self._max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record batch has {size} bytes, {self.topic} allows {self._max_message_bytes}",
            )
        raise KafkaError(ErrorCode.INVALID_RECORD, f"A produced batch starts at offset 0, not {base_offset}")

    def _recompress(self, batch: memoryview | bytearray, attributes: int) -> bytearray:
        codec = self._codec if self._codec is not None else Compression(attributes & 7)
        rebuilt = recompress(batch, codec, self._codec_level, max_decompressed=MAX_DECOMPRESSED)
        if len(rebuilt) > self._max_message_bytes:
            self._refuse(2, 0, len(rebuilt))
        return rebuilt

    # --- rolling

    def _activate(self) -> Segment:
        """Make the last segment ready for appends."""
        segment = self.segments[-1]
        try:
            segment.prepare_append()
        except OSError as trouble:
            self._failed(trouble)
        segment.limit_index(self._config.segment_index_bytes)
        self._active = segment
        self._arm_roll(segment)
        return segment

    def _arm_roll(self, segment: Segment) -> None:
        """When does the active segment become too old? In the records' time if its first batch has one."""
        max_age_ms = self._max_segment_ms() - segment.jitter_ms
        self._roll_after = self._roll_after_wall = NEVER
        if segment.size:
            if segment.first_timestamp >= 0:
                self._roll_after = min(segment.first_timestamp + max_age_ms, NEVER)
            else:
                self._roll_after_wall = min(segment.created_timestamp + max_age_ms, NEVER)

    def _segment_for(
        self, size: int, last_offset: int, max_timestamp: int, timestamp: int, first_offset: int | None = None
    ) -> Segment:
        segment = self._active
        if segment is None:
            segment = self._activate()
        if size > self._segment_bytes and not segment.size:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment of {self._segment_bytes}"
            )
        if (
            segment.size + size > self._segment_bytes
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or max_timestamp > self._roll_after
            or timestamp > self._roll_after_wall
            or segment.is_full
        ):
            if size > self._segment_bytes:
                raise KafkaError(
                    ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment of {self._segment_bytes}"
                )
            segment = self.roll(first_offset, timestamp=timestamp)
        return segment

    def roll(self, base_offset: int | None = None, *, timestamp: int) -> Segment:
        """Close the active segment and start a new one at the log's end (or further on, for a follower whose leader has
        a gap there). An empty active segment stays."""
        start = self.log_end_offset if base_offset is None else max(base_offset, self.log_end_offset)
        active = self._active or self._activate()
        if active.base_offset == start and not active.size:
            return active
        assert start > active.base_offset, "L3"
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        segment = Segment(self._disk, self.directory, start, created_timestamp=timestamp, jitter_ms=self._jitter_ms())
        try:
            for path in segment.paths():
                remove_if_there(self._disk, path)
            active.seal()
            if self.recovery_point >= self.log_end_offset:
                # Its batches are synced, so neither a flush nor recovery looks at it again: sync its indexes, too.
                active.sync_now()
            segment = Segment.create(
                self._disk, self.directory, start, created_timestamp=timestamp, jitter_ms=segment.jitter_ms
            )
            segment.prepare_append()
            self.producers.end_offset = start
            self.take_snapshot()
        except OSError as trouble:
            # Nothing has been decided yet: the active segment goes on, its index entries in the file or in memory.
            if trouble.errno in NO_ROOM:
                segment.close()
                remove_if_there(self._disk, segment.path)
            self._failed(trouble)
        segment.limit_index(self._config.segment_index_bytes)
        self.segments.append(segment)
        self._active = segment
        self._tail_offset = -1
        self._fresh_files = True
        self._arm_roll(segment)
        return segment

    def take_snapshot(self) -> None:
        """Write the producers down as of now, unless that has been done."""
        if write_snapshot(self._disk, self.directory, self.producers, self._snapshots):
            self._unsynced_snapshot = self.producers.snapshot_offset

    # --- reading

    def read(
        self, start_offset: int, *, max_bytes: int, end_offset: int | None = None, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Bytes of batches from the one that holds `start_offset` (so they may begin before it) up to `end_offset`, the
        high watermark if not given. At most `max_bytes`, so the last batch may be cut; but with `min_one_batch` at
        least the whole first one, and without it nothing if that does not fit. None when there is nothing."""
        if end_offset is None:
            end_offset = self.high_watermark
        log_end_offset = self.log_end_offset
        if start_offset < self.log_start_offset or start_offset > log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {start_offset} of {self.topic}-{self.partition} is outside"
                f" {self.log_start_offset}..{log_end_offset}",
            )
        segments = self.segments
        index = len(segments) - 1
        segment = segments[index]
        if start_offset >= end_offset:
            if start_offset == log_end_offset:
                # Where this reader goes on once there is more: it then finds its place without a look at index or file.
                self._tail_offset, self._tail_position = start_offset, segment.size
            return None
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        try:
            if start_offset == self._tail_offset and start_offset >= segment.base_offset:
                position = self._tail_position
            else:
                if start_offset < segment.base_offset:
                    index = bisect_right(segments, start_offset, key=_base_offset) - 1
                    segment = segments[index]
                position = segment.locate(start_offset)
            while position < 0:
                index += 1
                if index == len(segments):
                    return None
                segment = segments[index]
                position = segment.locate(start_offset)
            end = segment.size
            if end_offset < log_end_offset and (
                index + 1 == len(segments) or end_offset < segments[index + 1].base_offset
            ):
                found = segment.locate(end_offset)
                if found >= 0:
                    end = found
            size = end - position
            if size > max_bytes:
                size = max_bytes
                if max_bytes < segment.largest_batch_size:
                    first = segment.batch_size(position)
                    if max_bytes < first:
                        size = first if min_one_batch else 0
            return segment.slice(position, size) if size > 0 else None
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None

    @property
    def size(self) -> int:
        """Bytes of all segments, without indexes."""
        return sum(segment.size for segment in self.segments)

    @property
    def active_segment(self) -> Segment:
        return self.segments[-1]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def earliest(self) -> TimestampOffset:
        """ListOffsets' -2 (and -4: all of the log is local)."""
        first = self.epochs.earliest
        epoch = first[0] if first is not None and first[1] <= self.log_start_offset else -1
        return TimestampOffset(-1, self.log_start_offset, epoch)

    @property
    def latest(self) -> TimestampOffset:
        """ListOffsets' -1, before the high watermark or last stable offset cuts it."""
        return TimestampOffset(-1, self.log_end_offset, self.epochs.latest)

    def max_timestamp(self) -> TimestampOffset | None:
        """ListOffsets' -3: the first record with the largest timestamp."""
        try:
            segment = max(self.segments, key=lambda segment: _known_max_timestamp(segment))
            if segment.max_timestamp < 0:
                return None
            start = segment.locate(segment.offset_of_max_timestamp)
            for _, header, batch in segment.batches(max(start, 0)):
                if header.max_timestamp == segment.max_timestamp:
                    offset, timestamp = find_max_timestamp(batch)
                    return TimestampOffset(timestamp, offset, header.leader_epoch)
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None
        return None

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after a timestamp."""
        try:
            for segment in self.segments:
                if segment.largest_timestamp >= timestamp:
                    found = self._find_timestamp(segment, timestamp)
                    if found is not None:
                        return found
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None
        return None

    def _find_timestamp(self, segment: Segment, timestamp: int) -> TimestampOffset | None:
        start_offset = self.log_start_offset
        offset = max(segment.time_index.lookup(timestamp), start_offset)
        position = segment.locate(offset)
        if position < 0:
            return None
        for _, header, batch in segment.batches(position):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = find_timestamp(batch, timestamp, start_offset=start_offset)
                if found is not None:
                    return TimestampOffset(found[1], found[0], header.leader_epoch)
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above the asked one; (-1, -1) if unknown (KIP-101)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with batches in [start, end): a read_committed fetch carries them."""
        aborted: list[AbortedTransaction] = []
        index = max(0, bisect_right(self.segments, start_offset, key=_base_offset) - 1)
        try:
            for segment in self.segments[index:]:
                if segment.transaction_index.collect(start_offset, end_offset, aborted):
                    break
        except OSError as trouble:
            self._failed(trouble)
        return aborted

    def upper_bound_offset(self, slice: FileSlice) -> int:
        """An offset that no batch in a slice reaches: bounds the aborted transactions that belong to it."""
        index = bisect_right(self.segments, slice.segment_base_offset, key=_base_offset) - 1
        segment = self.segments[max(index, 0)]
        if segment.base_offset == slice.segment_base_offset:
            bound = segment.offset_index.upper_bound(slice.position + slice.size)
            if bound is not None:
                return bound
        return self.segments[index + 1].base_offset if index + 1 < len(self.segments) else self.log_end_offset

    # --- offsets that move

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of an undecided transaction, not below the log's start."""
        offset = self.producers.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """What read_committed may read up to."""
        producers = self.producers
        if not producers.ongoing and not producers.unreplicated:
            return self.high_watermark
        offset = self.first_unstable_offset
        return self.high_watermark if offset is None or offset > self.high_watermark else offset

    def delete_records(self, offset: int) -> int:
        """DeleteRecords: forget what is below `offset` (-1: the high watermark); the new log start offset. The files go
        with the next retention run."""
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} of {self.name} is above the high watermark {self.high_watermark}",
            )
        self.advance_log_start(offset)
        return self.log_start_offset

    def advance_log_start(self, offset: int) -> bool:
        """Move the log's start up; never back."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.advance_high_watermark(offset)
        if self.recovery_point < offset:
            self.recovery_point = offset
        self.epochs.truncate_from_start(offset)
        self.producers.advance_log_start(offset)
        if self._snapshots:
            self.producers.snapshot_offset = self._snapshots[-1]
        return True

    # --- losing data on purpose

    def remove_segments(self, count: int, *, timestamp: int) -> int:
        """Give up the `count` oldest segments: the log starts behind them, their files are renamed now and removed
        after file.delete.delay.ms. Giving up all of them rolls first, so that offsets go on."""
        if not count:
            return 0
        if count == len(self.segments):
            if not self.segments[-1].size:
                count -= 1
            else:
                self.roll(timestamp=timestamp)
        if not count:
            return 0
        removed = self.segments[:count]
        start = self.segments[count].base_offset
        is_synced = self.recovery_point >= start
        try:
            self.advance_log_start(start)
            del self.segments[:count]
            self._discard(removed)
            if not is_synced:
                # The recovery point is beyond them now: should their names come back, nobody would check their bytes.
                self._disk.sync_directory(self.directory)
        except OSError as trouble:
            self._failed(trouble)
        return count

    def _discard(self, segments: list[Segment], *, keep_snapshots: bool = False) -> None:
        paths: list[str] = []
        for segment in segments:
            segment.rename(DELETED)
            paths += segment.paths()
            if not keep_snapshots:
                paths += self._discard_snapshot(segment.base_offset)
        self._remove_later(paths, self._file_delete_delay_ms)
        for segment in segments:
            segment.offset_index.close()
            segment.time_index.close()
            segment.transaction_index.close()

    def _discard_snapshot(self, offset: int) -> list[str]:
        if offset not in self._snapshots:
            return []
        self._snapshots.remove(offset)
        path = snapshot_path(self.directory, offset)
        try:
            self._disk.rename(path, path + DELETED)
        except FileNotFoundError:
            return []
        return [path + DELETED]

    def truncate(self, offset: int, *, timestamp: int) -> bool:
        """Drop everything from `offset` on: what a follower does whose leader knows better. False if there is
        nothing."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        try:
            if offset < self.segments[0].base_offset:
                self.truncate_fully(offset, timestamp=timestamp)
                return True
            self._tail_offset = -1
            self._truncations += 1
            gone = [segment for segment in self.segments if segment.base_offset > offset]
            del self.segments[len(self.segments) - len(gone) :]
            self._active = None
            self._discard(gone)
            self.segments[-1].truncate(offset)
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self.epochs.truncate_from_end(offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self._activate()
            self.rebuild_producers(offset, timestamp=timestamp)
            self.advance_high_watermark(min(self.high_watermark, offset))
        except OSError as trouble:
            self._failed(trouble)
        except CorruptRecords as trouble:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(trouble)) from None
        return True

    async def sync_end(self) -> None:
        """Put the end of the log on disk as it is, so that what was cut off there cannot come back."""
        segment = self.active_segment
        try:
            await segment.file.sync()
            # Segments that are gone must stay so, too.
            await asyncio.get_running_loop().run_in_executor(None, self._disk.sync_directory, self.directory)
        except FileNotFoundError as trouble:
            if not self.is_offline and segment is self.active_segment:
                self._failed(trouble)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None  # deleted under our hands
        except OSError as trouble:
            self._failed(trouble)

    def truncate_fully(self, offset: int, *, timestamp: int) -> None:
        """Drop everything and go on at `offset`: a follower that fell behind its leader's log start."""
        try:
            self._tail_offset = -1
            self._truncations += 1
            self._discard(self.segments)
            self.segments = [
                Segment.create(
                    self._disk, self.directory, offset, created_timestamp=timestamp, jitter_ms=self._jitter_ms()
                )
            ]
            self._active = None
            self._fresh_files = True
            for snapshot in self._snapshots:
                remove_if_there(self._disk, snapshot_path(self.directory, snapshot))
            self._snapshots.clear()
            self.log_start_offset = self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self.epochs.clear()
            self.producers.clear(offset)
            self.advance_high_watermark(offset)
            self._activate()
        except OSError as trouble:
            self._failed(trouble)

    def rebuild_producers(
        self, end_offset: int, *, timestamp: int, expiration_ms: int = 86_400_000, is_clean: bool = False
    ) -> None:
        """Know the producers as of `end_offset`: from the latest good snapshot not beyond it and the batches since."""
        rebuild_producers(
            self._disk,
            self.directory,
            self.segments,
            self.producers,
            self._snapshots,
            log_start_offset=self.log_start_offset,
            end_offset=end_offset,
            timestamp=timestamp,
            expiration_ms=expiration_ms,
            is_clean=is_clean,
        )
        self.take_snapshot()

    # --- compaction

    def cleaned_segment(self, base_offset: int, *, timestamp: int) -> Segment:
        """A new segment beside the log, under .cleaned names, for the cleaner to fill. What an interrupted cleaning
        left there is removed."""
        segment = Segment(self._disk, self.directory, base_offset, suffix=".cleaned", created_timestamp=timestamp)
        for path in segment.paths():
            remove_if_there(self._disk, path)
        segment = Segment.create(
            self._disk, self.directory, base_offset, created_timestamp=timestamp, suffix=".cleaned"
        )
        segment.limit_index(self._config.segment_index_bytes)
        return segment

    def replace_segments(self, new: list[Segment], old: list[Segment]) -> None:
        """Put cleaned segments (sealed and synced) in the place of `old` ones, which are neighbours and not active.

        Kafka's steps, so that a crash at any point leaves the old or the new: all new ones become .swap, from the
        last to the first (a .cleaned that is left makes every .swap not below it void); the old ones become .deleted;
        the new ones lose their suffix. Recovery finishes what a .swap has begun."""
        assert new and old and self.segments[-1] not in old
        try:
            for segment in reversed(new):
                segment.rename(SWAP)
            # From here on the new segments are the log.
            index = self.segments.index(old[0])
            assert self.segments[index : index + len(old)] == old
            self._disk.sync_directory(self.directory)
            self.segments[index : index + len(old)] = new
            bases = [segment.base_offset for segment in new]
            paths: list[str] = []
            for segment in old:
                segment.rename(DELETED)
                paths += segment.paths()
                if segment.base_offset not in bases:
                    paths += self._discard_snapshot(segment.base_offset)
            for segment in new:
                segment.rename("")
            self._remove_later(paths, self._file_delete_delay_ms)
            self._fresh_files = True
        except OSError as trouble:
            self._failed(trouble)

    # --- durability

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether closed segments are not on disk yet; they should be soon, so that recovery stays short."""
        return self.recovery_point < self.segments[-1].base_offset

    async def flush(self, offset: int | None = None) -> None:
        """Return once everything below `offset` (the log's end now) is on the medium. One sync serves all who wait:
        those who come while one runs share the next."""
        target = self.log_end_offset if offset is None else min(offset, self.log_end_offset)
        while self.recovery_point < target:
            await asyncio.shield(self._flush_under_way(self.log_end_offset, include_active=True))

    async def flush_closed_segments(self) -> None:
        """What Kafka does in the background after a roll: the recovery point moves up to the active segment."""
        target = self.segments[-1].base_offset
        while self.recovery_point < target:
            await asyncio.shield(self._flush_under_way(target, include_active=False))

    def _flush_under_way(self, end_offset: int, *, include_active: bool) -> asyncio.Future[None]:
        """The flush that runs, or a new one. One that is done is none: to wait for it would be to spin."""
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush(end_offset, include_active=include_active))
        return self._flushing

    async def _flush(self, end_offset: int, *, include_active: bool) -> None:
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        truncations = self._truncations
        segments = self.segments
        start = max(0, bisect_right(segments, self.recovery_point, key=_base_offset) - 1)
        active = segments[-1]
        try:
            if self.epochs.is_dirty:
                self.write_epochs(sync=True)
            for segment in segments[start:-1]:
                await self._sync_closed(segment)
            if include_active:
                await active.file.sync()
                if active is not self.segments[-1]:
                    # It was closed meanwhile. With the recovery point behind it nobody would sync its indexes any more.
                    await self._sync_closed(active)
            if self._unsynced_snapshot >= 0:
                snapshot, self._unsynced_snapshot = self._unsynced_snapshot, -1
                await self._sync_snapshot(snapshot)
            if self._fresh_files:
                self._fresh_files = False
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, self._disk.sync_directory, self.directory)
        except FileNotFoundError as trouble:
            if not self.is_offline:
                self._failed(trouble)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from None  # deleted under our hands
        except OSError as trouble:
            self._failed(trouble)
        if truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, min(end_offset, self.log_end_offset))

    async def _sync_closed(self, segment: Segment) -> None:
        try:
            await segment.sync()
        except FileNotFoundError:
            if segment in self.segments:
                raise
        segment.offset_index.close()
        segment.time_index.close()

    async def _sync_snapshot(self, offset: int) -> None:
        try:
            file = self._disk.open(snapshot_path(self.directory, offset))
        except FileNotFoundError:
            return  # its segment has been removed
        try:
            await file.sync()
        finally:
            file.close()

    def flush_now(self) -> None:
        """`flush`, blocking: for a stop without a loop."""
        segments = self.segments
        start = max(0, bisect_right(segments, self.recovery_point, key=_base_offset) - 1)
        try:
            if self.epochs.is_dirty:
                self.write_epochs(sync=True)
            if self.recovery_point < self.log_end_offset:
                for segment in segments[start:]:
                    segment.sync_now()
            if self._fresh_files:
                self._fresh_files = False
                self._disk.sync_directory(self.directory)
        except OSError as trouble:
            self._failed(trouble)
        self.recovery_point = self.log_end_offset

    def note_epochs(self) -> None:
        """An epoch began: tell the file, as Kafka does. Without room for it, a flush or a stop will."""
        try:
            if self._is_epoch_file_due:
                self.write_epochs(sync=False)
        except OSError as trouble:
            if trouble.errno not in NO_ROOM:
                self._failed(trouble)
        self.epochs.is_dirty = True  # until a flush has synced it

    @property
    def _is_epoch_file_due(self) -> bool:
        """Whether the file must be written: not again and again for a log without records, whose epochs say nothing."""
        if self.epochs.is_dirty and self.log_end_offset:
            return True
        return not self._disk.exists(f"{self.directory}/{LEADER_EPOCHS}")

    def write_epochs(self, *, sync: bool) -> None:
        """Bring leader-epoch-checkpoint up to date. It may lag: recovery finds the epochs of what was not flushed."""
        write_epochs(self._disk, self.directory, self.epochs.entries, sync=sync)
        self.epochs.is_dirty = False

    def close(self, *, sync: bool = False) -> None:
        """Write what only memory knows (indexes, epochs, producers) and give the descriptors back. With `sync` it is on
        the medium: a clean stop is only clean if a power loss after it changes nothing."""
        try:
            for file in self._write_out(sync=sync):
                if sync:
                    file.sync_now()
                file.close()
            if sync and self._fresh_files:
                self._fresh_files = False
                self._disk.sync_directory(self.directory)
        except OSError as trouble:
            self._failed(trouble)
        finally:
            self._give_back()

    async def shut(self) -> None:
        """`flush` and `close` with `sync`, without stopping the loop: many logs at once take little longer than one. A
        log that never held a record has nothing that a power loss could take."""
        if not self.log_end_offset:
            self.close()
            return
        await self.flush()
        try:
            if self.epochs.is_dirty:
                await sync_epochs(self._disk, self.directory, self.epochs.entries)
                self.epochs.is_dirty = False
            for file in self._write_out(sync=True):
                await file.sync()
                file.close()
            if self._fresh_files:
                self._fresh_files = False
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, self._disk.sync_directory, self.directory)
        except OSError as trouble:
            self._failed(trouble)
        finally:
            self._give_back()

    def _write_out(self, *, sync: bool) -> list[File]:
        """Write down what only memory knows; the files that a power loss could take it from."""
        if self._is_epoch_file_due:
            self.write_epochs(sync=sync and bool(self.epochs.epochs))
        self.take_snapshot()
        files: list[File] = []
        active = self.segments[-1]
        if self._active is not None or active.is_index_missing():
            active.seal()
            self._fresh_files = True
            for index in (active.offset_index, active.time_index, active.transaction_index):
                file = index.file()
                if file is not None and len(index):
                    files.append(file)
        if self._unsynced_snapshot >= 0:
            files.append(self._disk.open(snapshot_path(self.directory, self._unsynced_snapshot)))
            self._unsynced_snapshot = -1
            self._fresh_files = True
        return files

    def _give_back(self) -> None:
        for segment in self.segments:
            segment.close()
        self._active = None

    def moved(self, directory: str) -> None:
        """Its folder was renamed."""
        self.directory = directory
        for segment in self.segments:
            segment.moved(directory)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _known_max_timestamp(segment: Segment) -> int:
    segment.prepare_append()
    return segment.max_timestamp
