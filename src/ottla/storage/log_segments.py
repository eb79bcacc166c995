"""The segments of a log: its state, its settings, and when a new segment is rolled. log.py has the invariants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ottla.config import TopicConfig
from ottla.records import Compression
from ottla.replication import LeaderEpochs, Origin, ProducerState
from ottla.storage.checkpoints import LEADER_EPOCHS, write_epochs, write_topic_id
from ottla.storage.disk import Disk
from ottla.storage.index import MAX_RELATIVE_OFFSET
from ottla.storage.segment import Segment
from ottla.storage.snapshots import remove_if_there, write_snapshot
from ottla.storage.tail import NEVER, NO_ROOM, LogTail
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.storage.log import Log

logger = logging.getLogger(__name__)

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def _remove_at_once(disk: Disk) -> Callable[[list[str], int], None]:
    def remove(paths: list[str], _delay_ms: int) -> None:
        for path in paths:
            try:
                disk.remove(path)
            except FileNotFoundError:
                continue

    return remove


class LogSegments(LogTail):
    """The parts of a log, and where the next batch goes."""

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
        "is_always_recovered",
        "is_cut_below_recovery_point",
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
        self.is_always_recovered = False
        """Whether each start reads the records again, as after a crash: true for the metadata log."""
        self.is_cut = self.is_cut_below_recovery_point = False
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

    def __repr__(self) -> str:
        return (
            f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset},"
            f" high_watermark={self.high_watermark}, segments={len(self.segments)})"
        )

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

    # --- configuration

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        """Apply new settings; they count from the next append, roll or retention on."""
        self._config = config
        self._segment_bytes = config.segment_bytes
        self._max_message_bytes = config.max_message_bytes
        self._max_record_bytes = config.max_decompressed_message_bytes
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
        # Whether an ordinary batch is written as the producer made it.
        self._keeps_batches = self._codec is None and not self._has_log_append_time
        self._flush_messages = config.flush_messages
        self.validates_schemas = config.validates_schemas
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
        """Compute when the active segment becomes too old: in the records' time if its first batch has a timestamp."""
        max_age_ms = self._max_segment_ms() - segment.jitter_ms
        self._roll_after = self._roll_after_wall = NEVER
        if segment.size:
            if segment.first_timestamp >= 0:
                self._roll_after = min(segment.first_timestamp + max_age_ms, NEVER)
            else:
                self._roll_after_wall = min(segment.created_timestamp + max_age_ms, NEVER)

    def _segment_for(
        self, size: int, last_offset: int, max_timestamp: int, timestamp: int, first_offset: int, origin: Origin
    ) -> Segment:
        segment = self._active
        if segment is None:
            segment = self._activate()
        if size > self._segment_bytes and origin != Origin.REPLICATION:
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
                # Its batches are synced, so neither a flush nor recovery will read it again: sync its indexes, too.
                active.sync_now()
            segment = Segment.create(
                self._disk, self.directory, start, created_timestamp=timestamp, jitter_ms=segment.jitter_ms
            )
            segment.prepare_append()
            self.producers.end_offset = start
            self.take_snapshot()
        except OSError as trouble:
            # No file has changed yet: the active segment goes on, with its index entries in the file or in memory.
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
        logger.info("%s: rolled at offset %d, the closed segment has %d bytes", self.name, start, active.size)
        return segment

    def take_snapshot(self) -> None:
        """Write a producer snapshot as of now, unless there is one."""
        if write_snapshot(self._disk, self.directory, self.producers, self._snapshots):
            self._unsynced_snapshot = self.producers.snapshot_offset

    # --- leader epochs on disk

    def note_epochs(self) -> None:
        """An epoch began: write the file, as Kafka does. If the disk has no room, a later flush or stop does."""
        try:
            if self._is_epoch_file_due:
                self.write_epochs(sync=False)
        except OSError as trouble:
            if trouble.errno not in NO_ROOM:
                self._failed(trouble)
        self.epochs.is_dirty = True  # until a flush has synced it

    @property
    def _is_epoch_file_due(self) -> bool:
        """Whether the file must be written: not repeatedly for a log without records, whose epochs mean nothing."""
        if self.epochs.is_dirty and self.log_end_offset:
            return True
        return not self._disk.exists(f"{self.directory}/{LEADER_EPOCHS}")

    def write_epochs(self, *, sync: bool) -> None:
        """Write leader-epoch-checkpoint. It may lag: recovery finds the epochs of what was not flushed."""
        write_epochs(self._disk, self.directory, self.epochs.entries, sync=sync)
        self.epochs.is_dirty = False
