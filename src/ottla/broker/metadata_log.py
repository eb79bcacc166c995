"""The metadata log on disk: `__cluster_metadata-0` in Kafka's own format, led by this node alone.

    log = MetadataLog(disk, config, clock=clock, rng=rng)
    image = log.load()                                  # formats an empty folder; the committed metadata
    await log.lead()                                    # next epoch, LeaderChange record
    log.on_commit = apply                               # called with (records, end offset) in log order, once durable
    durable = log.append(decision.records)              # in the log when this returns, in the order of calls ...
    await durable                                       # ... and on the disk when this does
    if log.is_snapshot_due(): await log.snapshot(image)

Invariants:
 M1  a record is committed (seen by `on_commit`, by waiters and by snapshots) only after an fsync that began after it
     was written; one fsync serves everything written before it began;
 M2  offsets are contiguous and epochs never go back, whatever a crash left behind;
 M3  what a file of the log says is trusted only up to its first batch that is cut short, fails its CRC or does not
     continue the one before; nothing behind it is kept, for a hole there was never acknowledged;
 M4  a snapshot stands under its name only when it is whole and durable.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.data_folder import (
    BOOTSTRAP_CHECKPOINT,
    DataFolderError,
    format_data_folder,
    formatted_records,
    read_file,
    replace_file,
)
from ottla.broker.metadata_snapshot import Snapshot, SnapshotId, decode_snapshot, encode_snapshot, voters_records
from ottla.cluster import ClusterImage, decode_records, encode_record, features, snapshot
from ottla.config import BrokerConfig
from ottla.raft import Leader, QuorumState, Voter, Voters, format_quorum_state, parse_quorum_state
from ottla.records import (
    HEADER_SIZE,
    BatchHeader,
    ControlType,
    CorruptRecords,
    Record,
    build,
    control_batch,
    crc_ok,
    parse_control_key,
    read,
    read_header,
)
from ottla.wire import Message, decode, encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.records.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.kraft_version_record import KraftVersionRecord
from ottla.wire.messages.records.voters_record import VotersRecord

if TYPE_CHECKING:
    from ottla.storage import Disk, File, MetaProperties

log = logging.getLogger("ottla.metadata_log")

FOLDER = "__cluster_metadata-0"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
QUORUM_STATE = "quorum-state"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
MAX_RECORDS_PER_BATCH = 10_000
MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_RECORDS_TO_REPLAY = 10_000
"""A snapshot is due when a start would have to replay more than this, or more than the last snapshot has: it takes
about 0.1 s. Kafka counts bytes only, which we do as well."""
_READ_BYTES = 4 * 1024 * 1024


class _Segment(NamedTuple):
    base_offset: int
    path: str


class _Written(NamedTuple):
    end_offset: int
    records: Sequence[Message]
    durable: asyncio.Future[int]


class MetadataLog:
    """The metadata log of a quorum of one: this node is its only voter and therefore its leader."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, clock: Callable[[], int], rng: Random) -> None:
        self._disk = disk
        self._config = config
        self._clock = clock
        self._rng = rng
        self._directory = f"{config.metadata_log_directory}/{FOLDER}"
        self._segments: list[_Segment] = []
        self._file: File | None = None
        self._file_size = 0
        self._retired: list[File] = []
        self._epochs: list[tuple[int, int]] = []
        self._state = QuorumState()
        self._snapshots: list[SnapshotId] = []
        self._bytes_since_snapshot = 0
        self._snapshot_at = 0
        self._snapshot_record_count = 0
        self._is_snapshotting = False
        self._last_timestamp = -1
        self._written: deque[_Written] = deque()
        self._sync: asyncio.Task[None] | None = None
        self._failure: OSError | None = None
        self._has_dynamic_voters = False
        self.meta: MetaProperties
        self.voters = Voters.static(*(voter.node_id for voter in config.voters)) if config.voters else Voters()
        if not self.voters.by_id:
            self.voters = Voters.static(config.node_id)
        self.leader: Leader | None = None
        self.start_offset = 0
        self.end_offset = 0
        """Offset of the next record: what is written, not what is durable."""
        self.metadata_version = features.MIN_METADATA_VERSION
        self.on_commit: Callable[[Sequence[Message], int], None] | None = None
        """Told of committed records, in the order of the log, before anybody who waits for them."""
        self.on_failure: Callable[[OSError], None] | None = None
        """Told when the log can no longer be synced: nothing is written to it any more."""

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id

    @property
    def directory_id(self) -> bytes:
        """The id of the log dir that holds the metadata log."""
        assert self.meta.directory_id is not None
        return self.meta.directory_id

    @property
    def epoch(self) -> int:
        return self._state.leader_epoch

    @property
    def high_watermark(self) -> int:
        """Everything before it is durable."""
        if self.leader is None or self.leader.high_watermark is None:
            return self.start_offset
        return self.leader.high_watermark

    @property
    def is_empty(self) -> bool:
        """Whether no metadata was ever written: the controller has to write the bootstrap records."""
        return self.end_offset == 0 and not self._snapshots

    # Start

    def load(self, log_dirs: Sequence[str] | None = None) -> ClusterImage:
        """The metadata that the folder holds. An empty folder is formatted, with the log dirs (all, if not given); a
        torn tail is cut off."""
        config = self._config
        if log_dirs is None:
            log_dirs = config.log_directories
        log_dirs = list(dict.fromkeys((config.metadata_log_directory, *log_dirs)))
        self.meta = format_data_folder(self._disk, log_dirs, config.node_id, self._rng)
        if not self._disk.exists(self._directory):
            self._format()
        self._remove_leftovers()
        image = ClusterImage(self.cluster_id)
        self._load_state()
        snapshot_end, snapshot_timestamp = self._load_snapshot(image)
        self._last_timestamp = snapshot_timestamp
        self._load_segments(image, snapshot_end)
        self.metadata_version = image.metadata_version
        self._snapshot_at = self._clock()
        return image

    def bootstrap_records(self) -> list[Message]:
        """The records that the controller writes first of all, into a log that is empty."""
        path = f"{self._config.metadata_log_directory}/{BOOTSTRAP_CHECKPOINT}"
        if not self._disk.exists(path):
            return formatted_records()
        try:
            return decode_snapshot(read_file(self._disk, path)).records
        except CorruptRecords as error:
            raise DataFolderError(f"{path} is damaged: {error}") from None

    async def lead(self) -> None:
        """Become leader of the next epoch: the epoch is on disk before anything is written in it."""
        node_id = self._config.node_id
        if list(self.voters.by_id) != [node_id]:
            named = ", ".join(map(str, self.voters.by_id))
            raise DataFolderError(f"the metadata quorum has the voters {named}; node {node_id} can only lead alone")
        last_epoch = self._epochs[-1][0] if self._epochs else 0
        epoch = max(self._state.leader_epoch, last_epoch) + 1
        self._save_state(self._state.led_by(node_id, epoch))
        start_offset = self.end_offset
        self.leader = Leader(node_id, epoch, start_offset, self.voters)
        self._epochs.append((epoch, start_offset))
        message = self.voters.leader_change(node_id, [node_id])
        version = message.version
        batch = control_batch(
            ControlType.LEADER_CHANGE,
            encode_bytes(message, version),
            timestamp=self._clock(),
            base_offset=start_offset,
            leader_epoch=epoch,
        )
        self._put([batch], 1)
        assert self._file is not None
        self._file.sync_now()
        self._save_epochs()
        self.leader.flushed(node_id, self.end_offset)

    def _format(self) -> None:
        """What `kafka-storage format` writes besides meta.properties. The folder comes last: it marks the end."""
        directory = self._config.metadata_log_directory
        if not self._disk.exists(f"{directory}/{BOOTSTRAP_CHECKPOINT}"):
            batches = encode_snapshot(
                formatted_records(),
                metadata_version=features.LATEST_METADATA_VERSION,
                epoch=0,
                timestamp=self._clock(),
                last_contained_timestamp=0,
            )
            replace_file(self._disk, directory, BOOTSTRAP_CHECKPOINT, b"".join(batches))
        self._disk.make_directory(self._directory)
        self._disk.sync_directory(directory)

    def _remove_leftovers(self) -> None:
        for name in self._disk.names(self._directory):
            if name.endswith((".part", ".deleted", ".tmp", ".swap", ".cleaned")):
                self._disk.remove(f"{self._directory}/{name}")

    def _load_state(self) -> None:
        path = f"{self._directory}/{QUORUM_STATE}"
        if self._disk.exists(path):
            try:
                self._state = parse_quorum_state(read_file(self._disk, path).decode())
            except ValueError as error:
                raise DataFolderError(f"{path}: {error}") from None

    def _load_snapshot(self, image: ClusterImage) -> tuple[int, int]:
        """Replay the latest snapshot that is whole; its end offset and last timestamp, 0 and -1 without one."""
        found = (SnapshotId.parse(name) for name in self._disk.names(self._directory))
        self._snapshots = sorted(id for id in found if id is not None)
        for id in reversed(self._snapshots[:]):
            path = f"{self._directory}/{id.name}"
            try:
                latest: Snapshot = decode_snapshot(read_file(self._disk, path))
            except CorruptRecords as error:
                log.warning("metadata snapshot %s is passed over: %s", path, error)
                self._disk.rename(path, f"{path}.deleted")
                self._snapshots.remove(id)
                continue
            image.apply(latest.records)
            self._snapshot_record_count = len(latest.records)
            if latest.voters is not None:
                self._use_voters(latest.voters)
            if id.end_offset:
                self._epochs = [(id.epoch, id.end_offset - 1)]
            return id.end_offset, latest.last_contained_timestamp
        return 0, -1

    def _load_segments(self, image: ClusterImage, snapshot_end: int) -> None:
        names = [name for name in self._disk.names(self._directory) if name.endswith(".log") and name[:-4].isdigit()]
        segments = [_Segment(int(name[:-4]), f"{self._directory}/{name}") for name in names]
        if segments and segments[0].base_offset > snapshot_end:
            raise DataFolderError(
                f"{self._directory}: the log begins at {segments[0].base_offset} but the latest snapshot that is whole "
                f"ends at {snapshot_end}: the metadata between them is lost"
            )
        first = 0
        for index, segment in enumerate(segments):
            if segment.base_offset <= snapshot_end:
                first = index
        self._epochs = self._saved_epochs(segments[first].base_offset) if segments else self._epochs
        kept = segments[:first]
        expected = segments[first].base_offset if segments else snapshot_end
        for index in range(first, len(segments)):
            segment = segments[index]
            if segment.base_offset != expected:
                self._drop(segments[index:], f"a segment begins at {segment.base_offset}, not at {expected}")
                break
            kept.append(segment)
            file = self._disk.open(segment.path)
            size = file.size()
            position = 0
            for position, header, batch in self._batches(file, size, expected):
                expected = header.next_offset
                self._last_timestamp = header.max_timestamp
                if not self._epochs or header.leader_epoch > self._epochs[-1][0]:
                    self._epochs.append((header.leader_epoch, header.base_offset))
                if expected > snapshot_end:
                    self._bytes_since_snapshot += header.size
                    self._replay(image, header, batch, snapshot_end)
                position += header.size
            self._file, self._file_size = file, position
            if position != size:
                log.warning("%s: %d bytes behind offset %d are cut off", segment.path, size - position, expected)
                file.truncate(position)
                file.sync_now()
                self._drop(segments[index + 1 :], "it follows a batch that was cut off")
                break
            if index + 1 < len(segments):
                file.close()
        self._segments = kept
        self.start_offset = kept[0].base_offset if kept else snapshot_end
        self.end_offset = expected
        if expected < snapshot_end:
            self._drop(kept, f"the log ends at {expected}, before the snapshot at {snapshot_end}")
            self._segments = []
            self.start_offset = self.end_offset = snapshot_end
            self._epochs = [(self._snapshots[-1].epoch, snapshot_end - 1)]
            self._file = None
        if not self._segments:
            self._open_segment()

    def _batches(self, file: File, size: int, expected: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Every batch of a segment up to the first one that is not to be trusted (M3)."""
        start = 0
        while start + HEADER_SIZE <= size:
            chunk = memoryview(file.read(start, _READ_BYTES))
            position = 0
            while position + HEADER_SIZE <= len(chunk):
                try:
                    header = read_header(chunk, position)
                except CorruptRecords:
                    return
                end = position + header.size
                if start + end > size or header.base_offset != expected or header.last_offset_delta < 0:
                    return
                if end > len(chunk):
                    if position == 0:
                        chunk = memoryview(file.read(start, header.size))
                        continue
                    break
                if not crc_ok(chunk, position, header.size):
                    return
                if self._epochs and header.leader_epoch < self._epochs[-1][0]:
                    return
                yield start + position, header, chunk[position:end]
                expected = header.next_offset
                position = end
            if position == 0:
                return
            start += position

    def _replay(self, image: ClusterImage, header: BatchHeader, batch: memoryview, snapshot_end: int) -> None:
        records = [record for record in read(batch) if record.offset >= snapshot_end]
        if not header.is_control:
            image.apply(decode_records(record.value or b"" for record in records))
            return
        for record in records:
            value = record.value or b""
            control = parse_control_key(record.key)
            if control is ControlType.KRAFT_VERSION:
                kraft_version = decode(KraftVersionRecord, 0, memoryview(value)).kraft_version
                self._use_voters(Voters(kraft_version, self.voters.by_id))
            elif control is ControlType.KRAFT_VOTERS:
                self._use_voters(Voters.from_record(decode(VotersRecord, 0, memoryview(value))))

    def _use_voters(self, voters: Voters) -> None:
        if voters.kraft_version and voters.by_id:
            self._has_dynamic_voters = True
            self.voters = voters

    def _drop(self, segments: Sequence[_Segment], reason: str) -> None:
        for segment in segments:
            log.warning("%s is removed: %s", segment.path, reason)
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                path = segment.path[:-4] + suffix
                if self._disk.exists(path):
                    self._disk.remove(path)

    # Writing

    def append(self, records: Sequence[Message], *, is_atomic: bool = True) -> asyncio.Future[int]:
        """Write records behind all others. The future gives the end offset once they are durable.

        Atomic records that do not fit one batch go into a metadata transaction. OSError: nothing was written. A node
        whose future fails must end: nobody knows any more what is on its disk.
        """
        if self._failure is not None:
            raise self._failure
        assert self.leader is not None, "only the leader writes"
        chunks = self._chunks(records)
        if len(chunks) > 1 and is_atomic:
            if not features.supports_metadata_transactions(self.metadata_version):
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "too many records for one batch of the metadata log")
            chunks = self._chunks([BeginTransactionRecord(), *records, EndTransactionRecord()])
        timestamp = self._clock()
        offset = self.end_offset
        batches = []
        for chunk in chunks:
            batches.append(
                build(
                    [Record(0, timestamp, None, value) for value in chunk],
                    base_offset=offset,
                    leader_epoch=self.epoch,
                )
            )
            offset += len(chunk)
        self._put(batches, offset - self.end_offset)
        self._last_timestamp = timestamp
        for record in records:
            if isinstance(record, FeatureLevelRecord) and record.name == features.METADATA_VERSION:
                self.metadata_version = record.feature_level
        return self._durable(records)

    def _durable(self, records: Sequence[Message]) -> asyncio.Future[int]:
        durable: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._written.append(_Written(self.end_offset, records, durable))
        if self._sync is None:
            self._sync = asyncio.get_running_loop().create_task(self._sync_written())
        return durable

    async def make_voters_dynamic(self, endpoints: tuple[tuple[str, str, int], ...]) -> None:
        """Raise `kraft.version` from 0 to 1: from here on the log says who votes, which is still this node alone."""
        assert self.leader is not None and self.voters.kraft_version == 0
        node_id = self._config.node_id
        voters = Voters(1, {node_id: Voter(node_id, self.directory_id, endpoints)})
        timestamp = self._clock()
        self._put(
            [
                build(
                    voters_records(voters, timestamp),
                    base_offset=self.end_offset,
                    leader_epoch=self.epoch,
                    is_control=True,
                )
            ],
            2,
        )
        await self._durable(())
        self.voters = self.leader.voters = voters
        self._has_dynamic_voters = True
        self._save_state(self._state)

    async def flush(self) -> None:
        """Return when everything that was appended is durable."""
        while self._sync is not None:
            await asyncio.wait([self._sync])

    def _chunks(self, records: Sequence[Message]) -> list[list[bytes]]:
        chunks: list[list[bytes]] = [[]]
        size = 0
        for record in records:
            value = encode_record(record, self.metadata_version)
            size += len(value) + 20
            if len(chunks[-1]) == MAX_RECORDS_PER_BATCH or (size > MAX_BATCH_BYTES and chunks[-1]):
                chunks.append([])
                size = len(value) + 20
            chunks[-1].append(value)
        return chunks

    def _put(self, batches: Sequence[bytes | bytearray], count: int) -> None:
        """Write whole batches at the end of the log, or nothing."""
        data = b"".join(batches)
        if self._file_size and self._file_size + len(data) > self._segment_bytes:
            self._roll()
        assert self._file is not None
        try:
            self._file.write(self._file_size, data)
        except OSError:
            try:
                self._file.truncate(self._file_size)
            except OSError as error:
                self._failure = error
            raise
        self._file_size += len(data)
        self._bytes_since_snapshot += len(data)
        self.end_offset += count

    async def _sync_written(self) -> None:
        """Sync until there is nothing left to wait for. What is written meanwhile waits for the next round (M1)."""
        try:
            while self._written:
                end_offset, file = self.end_offset, self._file
                assert file is not None and self.leader is not None
                try:
                    await file.sync()
                except OSError as error:
                    self._fail(error)
                    return
                if self.leader.flushed(self.leader.id, end_offset):
                    self._commit(self.high_watermark)
        finally:
            self._sync = None
            while self._retired:
                self._retired.pop().close()

    def _commit(self, high_watermark: int) -> None:
        while self._written and self._written[0].end_offset <= high_watermark:
            written = self._written.popleft()
            if self.on_commit is not None:
                self.on_commit(written.records, written.end_offset)
            if not written.durable.done():
                written.durable.set_result(written.end_offset)

    def _fail(self, error: OSError) -> None:
        self._failure = error
        if self.on_failure is not None:
            self.on_failure(error)
        log.critical("the metadata log cannot be synced: %s", error)
        while self._written:
            written = self._written.popleft()
            if not written.durable.done():
                written.durable.set_exception(error)

    async def close(self) -> None:
        await self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    # Files

    @property
    def _segment_bytes(self) -> int:
        internal = self._config.internal_metadata_log_segment_bytes
        return self._config.metadata_log_segment_bytes if internal is None else internal

    def _roll(self) -> None:
        """Begin a new segment. The old one is synced first, so that a later sync of the new one covers everything."""
        assert self._file is not None
        self._file.sync_now()
        if self._sync is None:
            self._file.close()
        else:
            self._retired.append(self._file)  # a thread may be about to sync it
        self._open_segment()

    def _open_segment(self) -> None:
        self._disk.make_directory(self._directory)
        path = f"{self._directory}/{self.end_offset:020d}.log"
        self._file = self._disk.open(path, create=True)
        self._file.truncate(0)
        self._file_size = 0
        self._segments.append(_Segment(self.end_offset, path))
        self._disk.sync_directory(self._directory)

    def _save_state(self, state: QuorumState) -> None:
        text = format_quorum_state(state, list(self.voters.by_id), self.voters.kraft_version)
        replace_file(self._disk, self._directory, QUORUM_STATE, text.encode())
        self._state = state

    def _save_epochs(self) -> None:
        lines = ["0", str(len(self._epochs)), *(f"{epoch} {start}" for epoch, start in self._epochs)]
        replace_file(self._disk, self._directory, LEADER_EPOCHS, ("\n".join(lines) + "\n").encode())
        if not self._disk.exists(f"{self._directory}/{PARTITION_METADATA}"):
            text = f"version: 0\ntopic_id: {METADATA_TOPIC_ID}"
            replace_file(self._disk, self._directory, PARTITION_METADATA, text.encode())

    def _saved_epochs(self, before_offset: int) -> list[tuple[int, int]]:
        """Epochs that began before an offset, as the checkpoint file remembers them; a damaged file is no loss."""
        path = f"{self._directory}/{LEADER_EPOCHS}"
        if not self._disk.exists(path):
            return []
        try:
            lines = read_file(self._disk, path).decode().splitlines()[2:]
            epochs = [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]
        except ValueError:
            return []
        return [(epoch, start) for epoch, start in epochs if start < before_offset]

    # Snapshots

    def is_snapshot_due(self) -> bool:
        """Whether enough was written, or enough time has passed, for a snapshot to be worth it."""
        if self._is_snapshotting or self._bytes_since_snapshot == 0:
            return False
        if self._bytes_since_snapshot >= self._config.metadata_log_max_record_bytes_between_snapshots:
            return True
        snapshot_end = self._snapshots[-1].end_offset if self._snapshots else 0
        if self.high_watermark - snapshot_end >= max(MAX_RECORDS_TO_REPLAY, self._snapshot_record_count):
            return True
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        return interval_ms > 0 and self._clock() - self._snapshot_at >= interval_ms

    async def snapshot(self, image: ClusterImage) -> SnapshotId | None:
        """Write a snapshot of the image, which must hold exactly what is committed; then remove what it replaces.

        The work is cut into pieces, so that requests go on being answered. None if there was nothing to do.
        """
        end_offset = self.high_watermark
        if self._is_snapshotting or image.is_in_transaction or end_offset == 0:
            return None
        if self._snapshots and self._snapshots[-1].end_offset >= end_offset:
            return None
        id = SnapshotId(end_offset, self._epoch_of(end_offset - 1))
        path = f"{self._directory}/{id.name}"
        self._is_snapshotting = True
        try:
            bytes_before, timestamp = self._bytes_since_snapshot, self._clock()
            frozen = image.copy()
            batches = encode_snapshot(
                snapshot.snapshot_records(frozen),
                metadata_version=frozen.metadata_version,
                epoch=id.epoch,
                timestamp=timestamp,
                last_contained_timestamp=max(self._last_timestamp, 0),
                voters=self.voters if self._has_dynamic_voters else None,
            )
            file = self._disk.open(f"{path}.part", create=True)
            try:
                file.truncate(0)
                position = 0
                count = 0
                for batch in batches:
                    file.write(position, batch)
                    position += len(batch)
                    count += read_header(batch).count
                    await asyncio.sleep(0)
                await file.sync()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                log.warning("there is no room for a metadata snapshot; it is tried again later: %s", error)
                file.truncate(0)
                return None
            finally:
                file.close()
            self._disk.rename(f"{path}.part", path)
            self._disk.sync_directory(self._directory)
            self._snapshots.append(id)
            self._snapshot_record_count = count
            self._bytes_since_snapshot -= bytes_before
            self._snapshot_at = timestamp
            if not self._written:
                self._roll()
            self.clean()
            return id
        finally:
            self._is_snapshotting = False

    def clean(self) -> None:
        """Remove snapshots beyond the retention, never the latest, and segments that only they needed."""
        while len(self._snapshots) > 1 and self._is_beyond_retention(self._snapshots[0]):
            self._disk.remove(f"{self._directory}/{self._snapshots[0].name}")
            del self._snapshots[0]
        if not self._snapshots:
            return
        needed = self._snapshots[0].end_offset
        while len(self._segments) > 1 and self._segments[1].base_offset <= needed:
            self._drop([self._segments[0]], f"snapshots cover everything before {needed}")
            del self._segments[0]
        self.start_offset = self._segments[0].base_offset

    def _is_beyond_retention(self, oldest: SnapshotId) -> bool:
        path = f"{self._directory}/{oldest.name}"
        retention_ms = self._config.metadata_max_retention_ms
        if retention_ms >= 0 and self._clock() - self._disk.modified_timestamp(path) > retention_ms:
            return True
        retention_bytes = self._config.metadata_max_retention_bytes
        if retention_bytes < 0:
            return False
        paths = [segment.path for segment in self._segments]
        paths += [f"{self._directory}/{id.name}" for id in self._snapshots]
        return sum(self._disk.size(path) for path in paths) > retention_bytes

    def _epoch_of(self, offset: int) -> int:
        return next((epoch for epoch, start in reversed(self._epochs) if start <= offset), 0)
