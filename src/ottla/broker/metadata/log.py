"""The metadata log on disk: `__cluster_metadata-0` in Kafka's own format, one replica of it.

    log = MetadataLog(disk, config, clock=clock, rng=rng)
    image = log.load()                                  # formats an empty folder; what the latest snapshot says
    log.append(decision.records, epoch)                 # as leader: in the log when this returns, in the order of calls
    log.append_fetched(batches)                         # as follower
    await log.sync()                                    # on the disk when this returns
    for written in log.commit(high_watermark): ...      # committed records, in the order of the log
    if log.is_snapshot_due(): await log.snapshot(image)

Segments, indexes, leader epochs, recovery, rolling and truncation are those of `storage.Log`, as in Kafka, whose
KafkaMetadataLog wraps a UnifiedLog. What the quorum adds is here: snapshots, voters, quorum-state, and the records that
wait to be committed. The quorum decides which node writes and what is committed (quorum.py, raft/).

Invariants:
 M1  offsets are contiguous and epochs never go back, whatever a crash left behind;
 M2  everything before the end of a snapshot is flushed before the snapshot has its name, so that recovery checks the
     log from there on;
 M3 a snapshot gets its name only when it is whole and durable.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from ottla import raft
from ottla.broker.metadata.configured_voters import configured_voters
from ottla.broker.metadata.data_folder import (
    DataFolderError,
    bootstrap_records,
    format_data_folder,
    format_metadata_folder,
    read_file,
    replace_file,
)
from ottla.broker.metadata.snapshot_files import SnapshotFiles
from ottla.broker.metadata.snapshots import Snapshot, SnapshotId, encode_snapshot, voters_records
from ottla.broker.metadata.uncommitted import Uncommitted, Written
from ottla.cluster import ClusterImage, encode_record, features, snapshot
from ottla.config import BrokerConfig, TopicConfig
from ottla.raft import QuorumState, Voters, format_quorum_state, parse_quorum_state
from ottla.records import (
    BatchHeader,
    ControlType,
    CorruptRecords,
    Record,
    build,
    control_batch,
    crc_ok,
    read_header,
    split,
    whole_size,
)
from ottla.storage import LastStop, Log, load_log
from ottla.wire import Message, encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages.records.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.records.end_transaction_record import EndTransactionRecord

if TYPE_CHECKING:
    from ottla.storage import Disk, MetaProperties

Buffer = bytes | bytearray | memoryview

log = logging.getLogger("ottla.metadata")

FOLDER = "__cluster_metadata-0"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
QUORUM_STATE = "quorum-state"
MAX_RECORDS_PER_BATCH = 10_000
MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_RECORDS_TO_REPLAY = 10_000
"""A snapshot is due when a start would have to replay more than this, or more than the last snapshot has: it takes
about 0.1 s. Kafka counts bytes only, which we do as well."""
_LOG_FILE = re.compile(r"\d{20}\.log")


class MetadataLog:
    """One replica's files."""

    def __init__(
        self,
        disk: Disk,
        config: BrokerConfig,
        *,
        clock: Callable[[], int],
        rng: Random,
        new_cluster_id: str | None = None,
    ) -> None:
        self._disk = disk
        self._new_cluster_id = new_cluster_id
        self._config = config
        self._clock = clock
        self._rng = rng
        self._directory = f"{config.metadata_log_directory}/{FOLDER}"
        self._log: Log
        self._state = QuorumState()
        self._snapshots = SnapshotFiles(disk, self._directory)
        self._bytes_since_snapshot = 0
        self._snapshot_at = clock()
        self._snapshot_record_count = 0
        self._is_snapshotting = False
        self._last_timestamp = -1
        self._uncommitted = Uncommitted(configured_voters(config))
        self._is_cut = False
        """Whether the log was truncated and its new end is not synced yet."""
        self._failure: OSError | None = None
        self.meta: MetaProperties

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id

    @property
    def directory_id(self) -> bytes:
        """The id of the log dir that holds the metadata log."""
        assert self.meta.directory_id is not None
        return self.meta.directory_id

    @property
    def state(self) -> QuorumState:
        return self._state

    @property
    def voters(self) -> Voters:
        return self._uncommitted.voters

    @property
    def has_dynamic_voters(self) -> bool:
        return self._uncommitted.has_dynamic_voters

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """Offset of the next record: after what is written, not after what is durable."""
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        """Everything before it is on the disk."""
        return self._log.recovery_point

    @property
    def high_watermark(self) -> int:
        """Everything before it is committed, as far as this replica knows."""
        return self._log.high_watermark

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; the latest snapshot's if the log has no record after it."""
        if len(self._log.epochs):
            return self._log.epochs.latest
        return self.latest_snapshot.epoch if self.latest_snapshot is not None else 0

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The latest epoch that is not above this one, and where it ends."""
        if epoch >= self.last_epoch:
            return self.last_epoch, self.end_offset
        first = self._log.epochs.earliest
        if first is not None and first[0] <= epoch:
            return self._log.end_offset_for_epoch(epoch)
        earliest = self.earliest_snapshot
        known = earliest.epoch if earliest is not None and earliest.epoch <= epoch else 0
        return known, self.start_offset if first is None else first[1]

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self._snapshots.earliest

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._snapshots.latest

    def has_snapshot(self, snapshot: raft.SnapshotId) -> bool:
        return snapshot in self._snapshots.ids

    @property
    def is_empty(self) -> bool:
        """Whether no metadata was ever written: the controller then writes the bootstrap records."""
        return self.end_offset == 0 and not self._snapshots.ids

    @property
    def are_voters_only_formatted(self) -> bool:
        """Whether the folder was formatted with voters that the log does not have yet: only this folder knows them."""
        return self._uncommitted.are_voters_only_formatted

    # Start

    def load(self, log_dirs: Sequence[str] | None = None) -> ClusterImage:
        """The image of the latest snapshot; later records of the log wait to be committed. An empty folder is
        formatted, with the log dirs (all, if not given); a torn end of the log is cut off.
        """
        config = self._config
        if log_dirs is None:
            log_dirs = config.log_directories
        log_dirs = list(dict.fromkeys((config.metadata_log_directory, *log_dirs)))
        self.meta = format_data_folder(
            self._disk,
            log_dirs,
            config.node_id,
            self._rng,
            new_cluster_id=self._new_cluster_id,
            is_alone=len(config.voters) < 2 and not config.controller_quorum_bootstrap_servers,
        )
        if not self._disk.exists(self._directory):
            format_metadata_folder(self._disk, config.metadata_log_directory, FOLDER, self._clock())
        self._remove_leftovers()
        image = ClusterImage(self.cluster_id)
        self._load_state()
        snapshot_end = self._load_snapshot(image)
        self._uncommitted.metadata_version = image.metadata_version
        with self._disk_errors():
            self._load_log(snapshot_end)
        return image

    def bootstrap_records(self) -> list[Message]:
        """The first records of the controller, for a log that is empty."""
        return bootstrap_records(self._disk, self._config.metadata_log_directory)

    def _remove_leftovers(self) -> None:
        for name in self._disk.names(self._directory):
            if name.endswith((".part", ".deleted", ".tmp")):
                self._disk.remove(f"{self._directory}/{name}")

    def _load_state(self) -> None:
        path = f"{self._directory}/{QUORUM_STATE}"
        if self._disk.exists(path):
            try:
                self._state = parse_quorum_state(read_file(self._disk, path).decode())
            except ValueError as error:
                raise DataFolderError(f"{path}: {error}") from None

    def _load_snapshot(self, image: ClusterImage) -> int:
        """Replay the latest whole snapshot; returns its end offset, 0 without one."""
        content = self._snapshots.load()
        id = self._snapshots.latest
        if content is None or id is None:
            return 0
        image.apply(content.records)
        self._use_snapshot(id, content)
        return id.end_offset

    def _use_snapshot(self, id: SnapshotId, content: Snapshot) -> None:
        self._snapshot_record_count = len(content.records)
        self._snapshot_at = self._clock()
        self._last_timestamp = content.last_contained_timestamp
        if content.voters is not None:
            self._uncommitted.use_voters(id.end_offset - 1, content.voters)

    def _load_log(self, snapshot_end: int) -> None:
        """Open the log and replay it from the snapshot on. Recovery checks every batch after the snapshot; a log that
        ends before it, as after a crash within `install_snapshot`, begins again after it.
        """
        config = self._config
        internal = config.internal_metadata_log_segment_bytes
        names = self._disk.names(self._directory)
        start_offset = min((int(name[:-4]) for name in names if _LOG_FILE.fullmatch(name)), default=0)
        if start_offset > snapshot_end:
            raise DataFolderError(
                f"{self._directory}: the log begins at {start_offset} but the latest snapshot that is whole "
                f"ends at {snapshot_end}: the metadata between them is lost"
            )
        self._log = load_log(
            self._disk,
            self._directory,
            METADATA_TOPIC,
            0,
            TopicConfig(
                segment_bytes=config.metadata_log_segment_bytes if internal is None else internal,
                segment_ms=max(1, config.metadata_log_segment_ms),
            ),
            LastStop(is_clean=False, recovery_point=snapshot_end),
            timestamp=self._clock(),
            on_failure=self._disk_failed,
        )
        self._log.is_always_recovered = True
        if self._log.topic_id is None:
            self._log.assign_topic_id(METADATA_TOPIC_ID)
        self._replay(snapshot_end)
        if self.end_offset < snapshot_end:
            log.warning("%s ends before the snapshot at %d: emptying it", self._directory, snapshot_end)
            self._log.truncate_fully(snapshot_end, timestamp=self._clock())
        self._log.flush_now()
        self._log.advance_high_watermark(snapshot_end)

    def _replay(self, snapshot_end: int) -> None:
        for header, batch in self._log.batches(max(snapshot_end, self.start_offset)):
            offset = header.base_offset
            if header.leader_epoch < (self._log.epochs.epoch_for_offset(offset) or 0):
                log.warning("%s: the epoch decreases at offset %d; truncating the log there", self._directory, offset)
                self._log.truncate(offset, timestamp=self._clock())  # M1: no CRC covers the epoch
                return
            self._last_timestamp = header.max_timestamp
            self._bytes_since_snapshot += header.size
            self._uncommitted.add_batch(header, batch, snapshot_end)

    # Writing

    def append(self, records: Sequence[Message], epoch: int, *, is_atomic: bool = True) -> None:
        """Append records as leader of an epoch. Atomic records that do not fit one batch go into a metadata
        transaction. OSError: nothing was written.
        """
        chunks = self._chunks(records)
        if len(chunks) > 1 and is_atomic:
            if not features.supports_metadata_transactions(self._uncommitted.metadata_version):
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "too many records for one batch of the metadata log")
            chunks = self._chunks([BeginTransactionRecord(), *records, EndTransactionRecord()])
        timestamp = self._clock()
        offset = self.end_offset
        batches = []
        for chunk in chunks:
            batches.append(
                build([Record(0, timestamp, None, value) for value in chunk], base_offset=offset, leader_epoch=epoch)
            )
            offset += len(chunk)
        self._put(batches)
        self._last_timestamp = timestamp
        self._uncommitted.add(self.end_offset, records)

    def append_leader_change(self, epoch: int, leader_id: int, granting: Sequence[int]) -> None:
        """The first record of an epoch."""
        message = self.voters.leader_change(leader_id, list(granting))
        batch = control_batch(
            ControlType.LEADER_CHANGE,
            encode_bytes(message, message.version),
            timestamp=self._clock(),
            base_offset=self.end_offset,
            leader_epoch=epoch,
        )
        self._put([batch])
        self._uncommitted.add_batch(read_header(batch), memoryview(batch))

    def append_voters(self, voters: Voters, epoch: int, *, with_kraft_version: bool = False) -> None:
        """Append the voters from now on; `with_kraft_version` if voters were static until now."""
        records = voters_records(voters, self._clock())
        if not with_kraft_version:
            records = records[1:]
        batch = build(records, base_offset=self.end_offset, leader_epoch=epoch, is_control=True)
        self._put([batch])
        self._uncommitted.add_batch(read_header(batch), memoryview(batch))
        self.save_state(self._state)

    def append_fetched(self, data: Buffer) -> None:
        """Append batches that the leader sent. CorruptRecords, before anything is written, if they do not continue the
        log; an incomplete last batch is left out, since the leader cuts at a size.
        """
        view = memoryview(data).cast("B")
        expected, epoch = self.end_offset, self.last_epoch
        batches: list[tuple[BatchHeader, memoryview]] = []
        for position, header in split(view):
            if header.base_offset != expected or header.leader_epoch < epoch or not crc_ok(view, position, header.size):
                raise CorruptRecords(f"the leader sent a batch at {header.base_offset} that does not continue the log")
            batches.append((header, view[position : position + header.size]))
            expected, epoch = header.next_offset, header.leader_epoch
        for header, batch in batches:
            self._put([batch])
            self._last_timestamp = header.max_timestamp
            voters = self.voters
            self._uncommitted.add_batch(header, batch)
            if voters is not self.voters:
                self.save_state(self._state)

    def truncate(self, offset: int) -> None:
        """Remove everything from this offset on: it was never committed."""
        self._check()
        assert offset >= self.high_watermark
        self._is_cut = True
        with self._disk_errors():
            self._log.truncate(offset, timestamp=self._clock())
        self._uncommitted.truncate(self.end_offset)

    def commit(self, high_watermark: int) -> Iterator[Written]:
        """Everything before the high watermark is committed: returns the newly committed records, one write after the
        other.
        """
        if high_watermark > self.high_watermark:
            self._log.advance_high_watermark(high_watermark)
        return self._uncommitted.commit(self.high_watermark)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds an offset, at least one if there is any."""
        if not self.start_offset <= offset < self.end_offset:
            return b""
        with self._disk_errors():
            try:
                found = self._log.read(offset, max_bytes=max_bytes, end_offset=self.end_offset)
            except KafkaError as error:
                if error.code is not ErrorCode.CORRUPT_MESSAGE:
                    raise
                log.warning("%s cannot be read at offset %d: %s", self._directory, offset, error)
                return b""
            data = b"" if found is None else found.read()
        if len(data) < max_bytes:
            return data
        return data[: whole_size(data)]

    async def sync(self) -> int:
        """Sync what was written or truncated so far; returns the offset up to which the log is on the disk. A node
        whose sync fails must end: the content of its disk is unknown.
        """
        self._check()
        with self._disk_errors():
            if self._is_cut:
                self._is_cut = False
                await self._log.sync_end()
            await self._log.flush()
        return self.flushed_offset

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _disk_failed(self, _: Log, error: OSError) -> None:
        self._failure = error

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Raise the disk's own error in place of the one that a client of a partition would get."""
        try:
            yield
        except KafkaError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            self._check()
            raise

    def _chunks(self, records: Sequence[Message]) -> list[list[bytes]]:
        chunks: list[list[bytes]] = [[]]
        size = 0
        for record in records:
            value = encode_record(record, self._uncommitted.metadata_version)
            size += len(value) + 20
            if len(chunks[-1]) == MAX_RECORDS_PER_BATCH or (size > MAX_BATCH_BYTES and chunks[-1]):
                chunks.append([])
                size = len(value) + 20
            chunks[-1].append(value)
        return chunks

    def _put(self, batches: Sequence[Buffer]) -> None:
        """Write whole batches at the end of the log, or nothing. They already have their offsets and epoch."""
        self._check()
        start_offset = self.end_offset
        try:
            for batch in batches:
                self._log.append_as_follower(memoryview(batch))
        except KafkaError:
            with self._disk_errors():
                if self.end_offset > start_offset:
                    self._log.truncate(start_offset, timestamp=self._clock())
                raise
        self._bytes_since_snapshot += sum(map(len, batches))

    def close(self) -> None:
        try:
            self._log.close()
        except KafkaError as error:
            log.warning(
                "%s: its index files were not written; the next start rebuilds them: %s", self._directory, error
            )
        self._snapshots.close()

    def save_state(self, state: QuorumState) -> None:
        """On the disk when this returns."""
        text = format_quorum_state(state, list(self.voters.by_id), self.voters.kraft_version)
        replace_file(self._disk, self._directory, QUORUM_STATE, text.encode())
        self._state = state

    # Snapshots

    def is_snapshot_due(self) -> bool:
        """Whether enough was written, or enough time has passed, for a new snapshot."""
        if self._is_snapshotting or self._bytes_since_snapshot == 0:
            return False
        if self._bytes_since_snapshot >= self._config.metadata_log_max_record_bytes_between_snapshots:
            return True
        if self.high_watermark - self._snapshot_end >= max(MAX_RECORDS_TO_REPLAY, self._snapshot_record_count):
            return True
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        return interval_ms > 0 and self._clock() - self._snapshot_at >= interval_ms

    async def snapshot(self, image: ClusterImage) -> SnapshotId | None:
        """Write a snapshot of the image, which must be exactly the committed metadata; then remove what it replaces.

        The work is cut into pieces, so that requests go on being answered. None if there was nothing to do.
        """
        end_offset = self.high_watermark
        if self._is_snapshotting or image.is_in_transaction or end_offset <= self._snapshot_end:
            return None
        self._is_snapshotting = True
        try:
            return await self._snapshot(image.copy(), end_offset)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            log.warning("there is no room for a metadata snapshot; it is tried again later: %s", error)
            return None
        finally:
            self._is_snapshotting = False

    async def _snapshot(self, frozen: ClusterImage, end_offset: int) -> SnapshotId | None:
        id = SnapshotId(end_offset, self._log.epochs.epoch_for_offset(end_offset - 1) or 0)
        bytes_before, timestamp = self._bytes_since_snapshot, self._clock()
        batches = encode_snapshot(
            snapshot.snapshot_records(frozen),
            metadata_version=frozen.metadata_version,
            epoch=id.epoch,
            timestamp=timestamp,
            last_contained_timestamp=max(self._last_timestamp, 0),
            voters=self.voters if self.has_dynamic_voters else None,
        )
        count = await self._snapshots.write(id, batches)
        with self._disk_errors():
            await self._log.flush(end_offset)  # M2
        if end_offset <= self._snapshot_end:
            self._snapshots.discard(id)  # the leader sent one meanwhile that covers as much or more
            return None
        self._snapshots.keep(id)
        self._snapshot_record_count = count
        self._bytes_since_snapshot -= bytes_before
        self._snapshot_at = timestamp
        if not self._uncommitted.written and self.flushed_offset == self.end_offset:
            self._roll()
        with self._disk_errors():
            self.clean()
        return id

    def _roll(self) -> None:
        """Begin a new segment, so that the segments before the snapshot can be deleted."""
        try:
            self._log.roll(timestamp=self._clock())
        except KafkaError:
            self._check()  # without room for a new segment the active one is kept

    @property
    def _snapshot_end(self) -> int:
        return self.latest_snapshot.end_offset if self.latest_snapshot is not None else 0

    def read_snapshot(self, snapshot: raft.SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of a snapshot, and a piece of it."""
        return self._snapshots.read(snapshot, position, max_bytes)

    def write_snapshot(self, snapshot: raft.SnapshotId, position: int, data: Buffer) -> None:
        """A piece of a snapshot that the leader sends."""
        self._check()
        self._snapshots.receive(snapshot, position, data)

    def install_snapshot(self, snapshot: raft.SnapshotId) -> list[Message]:
        """The leader's snapshot is complete: it replaces the whole log. CorruptRecords if it is damaged."""
        id = SnapshotId(*snapshot)
        content = self._snapshots.install(id)
        with self._disk_errors():
            self._log.truncate_fully(id.end_offset, timestamp=self._clock())
            self._log.flush_now()
        self._snapshots.keep_only(id)
        self._uncommitted.clear()
        self._use_snapshot(id, content)
        self._bytes_since_snapshot = 0
        self.save_state(self._state)
        self._uncommitted.use_metadata_version(content.records)
        return content.records

    def clean(self) -> None:
        """Remove snapshots beyond the retention, never the latest, and segments that only they needed."""
        while len(self._snapshots.ids) > 1 and self._is_beyond_retention():
            self._snapshots.remove_earliest()
        if self.earliest_snapshot is not None:
            needed = self.earliest_snapshot.end_offset
            count = sum(segment.base_offset <= needed for segment in self._log.segments[1:])
            self._log.remove_segments(count, timestamp=self._clock())

    def _is_beyond_retention(self) -> bool:
        """Whether the earliest snapshot is too old, or all together are too large."""
        retention_ms = self._config.metadata_max_retention_ms
        if retention_ms >= 0 and self._clock() - self._snapshots.earliest_timestamp() > retention_ms:
            return True
        retention_bytes = self._config.metadata_max_retention_bytes
        return 0 <= retention_bytes < self._log.size + self._snapshots.size
