"""The metadata log on disk: `__cluster_metadata-0` in Kafka's own format, one replica of it.

    log = MetadataLog(disk, config, clock=clock, rng=rng)
    image = log.load()                                  # formats an empty folder; what the latest snapshot says
    log.append(decision.records, epoch)                 # as leader: in the log when this returns, in the order of calls
    log.append_fetched(batches)                         # as follower
    await log.sync()                                    # on the disk when this returns
    for written in log.commit(high_watermark): ...      # what may be counted on, in the order of the log
    if log.is_snapshot_due(): await log.snapshot(image)

It decides nothing: who writes, and what is committed, is the quorum's (quorum.py, raft/).

Invariants:
 M1  what is flushed was written before an fsync began that has ended; one fsync serves everything before it;
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

from ottla import raft
from ottla.broker.metadata.data_folder import (
    BOOTSTRAP_CHECKPOINT,
    DataFolderError,
    format_data_folder,
    formatted_records,
    read_file,
    replace_file,
)
from ottla.broker.metadata.snapshots import Snapshot, SnapshotId, decode_snapshot, encode_snapshot, voters_records
from ottla.cluster import ClusterImage, decode_records, encode_record, features, snapshot
from ottla.config import BrokerConfig
from ottla.raft import QuorumState, Voter, Voters, format_quorum_state, parse_quorum_state
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

Buffer = bytes | bytearray | memoryview

log = logging.getLogger("ottla.metadata")

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
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def configured_voters(config: BrokerConfig) -> Voters:
    """The voters that the configuration names. Where it names none the log does (dynamic voters), or else a controller
    that knows of no other is a quorum of one."""
    if not config.voters:
        return Voters.static(config.node_id) if _is_alone(config) else Voters()
    listener = config.controller_listener_names[0] if config.controller_listener_names else ""
    return Voters(
        0,
        {
            voter.node_id: Voter(voter.node_id, endpoints=((listener, voter.host, voter.port),))
            for voter in sorted(config.voters)
        },
    )


def _is_alone(config: BrokerConfig) -> bool:
    """Whether a node that names no voters is a controller, and finds the quorum nowhere but at its own address."""
    own = {
        f"{host}:{listener.port}"
        for listener in (*config.controller_listeners, *config.advertised_controller_listeners)
        for host in (listener.host, *_LOOPBACK)
    }
    return config.is_controller and all(server in own for server in config.controller_quorum_bootstrap_servers)


class _Segment(NamedTuple):
    base_offset: int
    path: str


class Written(NamedTuple):
    """Records of the log that nobody may count on yet."""

    end_offset: int
    records: Sequence[Message]
    """Empty for what the quorum keeps in the log for itself."""


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
        self._written: deque[Written] = deque()
        self._syncs = 0
        self._failure: OSError | None = None
        self._voters: list[tuple[int, Voters]] = [(-1, configured_voters(config))]
        """Where in the log each set of voters begins to count: at once, committed or not."""
        self._incoming: File | None = None
        self.meta: MetaProperties
        self.start_offset = 0
        self.end_offset = 0
        """Offset of the next record: what is written, not what is durable."""
        self.flushed_offset = 0
        """Everything before it is on the disk."""
        self.high_watermark = 0
        """Everything before it is committed, as far as this replica knows."""
        self.metadata_version = features.MIN_METADATA_VERSION

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
        return self._voters[-1][1]

    @property
    def has_dynamic_voters(self) -> bool:
        return len(self._voters) > 1

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1][0] if self._epochs else 0

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The latest epoch that is not above this one, and where it ends."""
        end_offset = self.end_offset
        for known, start in reversed(self._epochs):
            if known <= epoch:
                return known, end_offset
            end_offset = start
        return 0, self.start_offset if not self._epochs else min(end_offset, self._epochs[0][1])

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[0] if self._snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    def has_snapshot(self, snapshot: raft.SnapshotId) -> bool:
        return snapshot in self._snapshots

    @property
    def is_empty(self) -> bool:
        """Whether no metadata was ever written: the controller has to write the bootstrap records."""
        return self.end_offset == 0 and not self._snapshots

    @property
    def are_voters_only_formatted(self) -> bool:
        """Whether the folder was formatted with voters that the log does not name yet: nobody else knows them."""
        return self.has_dynamic_voters and self._voters[-1][0] < 0

    # Start

    def load(self, log_dirs: Sequence[str] | None = None) -> ClusterImage:
        """The metadata of the latest snapshot; what the log has behind it waits to be committed. An empty folder is
        formatted, with the log dirs (all, if not given); a torn tail is cut off."""
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
            self._format()
        self._remove_leftovers()
        image = ClusterImage(self.cluster_id)
        self._load_state()
        snapshot_end, snapshot_timestamp = self._load_snapshot(image)
        self._last_timestamp = snapshot_timestamp
        self.metadata_version = image.metadata_version
        self.high_watermark = snapshot_end
        self._load_segments(snapshot_end)
        self.flushed_offset = self.end_offset
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
                self._use_voters(id.end_offset - 1, latest.voters)
            if id.end_offset:
                self._epochs = [(id.epoch, id.end_offset - 1)]
            return id.end_offset, latest.last_contained_timestamp
        return 0, -1

    def _load_segments(self, snapshot_end: int) -> None:
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
                    self._remember(header, batch, snapshot_end)
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

    def _batches(
        self, file: File, size: int, expected: int, *, is_counted: bool = True
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Every batch of a segment up to the first one that is not to be trusted (M3). `is_counted`: while it is
        loaded, so that its epochs are known up to here."""
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
                if is_counted and self._epochs and header.leader_epoch < self._epochs[-1][0]:
                    return
                yield start + position, header, chunk[position:end]
                expected = header.next_offset
                position = end
            if position == 0:
                return
            start += position

    def _remember(self, header: BatchHeader, batch: memoryview, from_offset: int = 0) -> None:
        """What a batch of the log says, until it is committed. Who votes counts at once (KIP-853)."""
        records = [record for record in read(batch) if record.offset >= from_offset]
        messages: list[Message] = []
        if header.is_control:
            for record in records:
                value = record.value or b""
                control = parse_control_key(record.key)
                if control is ControlType.KRAFT_VERSION:
                    kraft_version = decode(KraftVersionRecord, 0, memoryview(value)).kraft_version
                    self._use_voters(record.offset, Voters(kraft_version, self.voters.by_id))
                elif control is ControlType.KRAFT_VOTERS:
                    self._use_voters(record.offset, Voters.from_record(decode(VotersRecord, 0, memoryview(value))))
        else:
            messages = decode_records(record.value or b"" for record in records)
            self._use_metadata_version(messages)
        self._written.append(Written(header.next_offset, messages))

    def _use_voters(self, offset: int, voters: Voters) -> None:
        if voters.kraft_version and voters.by_id:
            self._voters.append((offset, voters))

    def _use_metadata_version(self, records: Sequence[Message]) -> None:
        for record in records:
            if isinstance(record, FeatureLevelRecord) and record.name == features.METADATA_VERSION:
                self.metadata_version = record.feature_level

    def _drop(self, segments: Sequence[_Segment], reason: str) -> None:
        for segment in segments:
            log.warning("%s is removed: %s", segment.path, reason)
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                path = segment.path[:-4] + suffix
                if self._disk.exists(path):
                    self._disk.remove(path)

    # Writing

    def append(self, records: Sequence[Message], epoch: int, *, is_atomic: bool = True) -> None:
        """Write records behind all others, as leader of an epoch.

        Atomic records that do not fit one batch go into a metadata transaction. OSError: nothing was written.
        """
        self._check()
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
                build([Record(0, timestamp, None, value) for value in chunk], base_offset=offset, leader_epoch=epoch)
            )
            offset += len(chunk)
        self._put(batches, offset - self.end_offset)
        self._last_timestamp = timestamp
        self._use_metadata_version(records)
        self._written.append(Written(self.end_offset, records))

    def append_leader_change(self, epoch: int, leader_id: int, granting: Sequence[int]) -> None:
        """The first record of an epoch."""
        self._check()
        message = self.voters.leader_change(leader_id, list(granting))
        batch = control_batch(
            ControlType.LEADER_CHANGE,
            encode_bytes(message, message.version),
            timestamp=self._clock(),
            base_offset=self.end_offset,
            leader_epoch=epoch,
        )
        self._append_control(batch, 1, epoch)
        self._save_epochs()

    def append_voters(self, voters: Voters, epoch: int, *, with_kraft_version: bool = False) -> None:
        """Who votes from here on; `with_kraft_version` where voters were static until now."""
        self._check()
        records = voters_records(voters, self._clock())
        if not with_kraft_version:
            records = records[1:]
        batch = build(records, base_offset=self.end_offset, leader_epoch=epoch, is_control=True)
        self._append_control(batch, len(records), epoch)
        self._save_state(self._state)

    def _append_control(self, batch: bytes | bytearray, count: int, epoch: int) -> None:
        self._put([batch], count)
        self._note_epoch(epoch, self.end_offset - count)
        self._remember(read_header(batch), memoryview(batch))

    def append_fetched(self, data: Buffer) -> None:
        """Write batches that the leader sent. CorruptRecords, before anything is written, if they do not continue the
        log; a last batch that is cut short is left out, as the leader sends what fits."""
        self._check()
        view = memoryview(data).cast("B")
        expected, epoch, position = self.end_offset, self.last_epoch, 0
        batches: list[tuple[BatchHeader, memoryview]] = []
        while position + HEADER_SIZE <= len(view):
            header = read_header(view, position)
            end = position + header.size
            if end > len(view):
                break
            if header.base_offset != expected or header.leader_epoch < epoch or not crc_ok(view, position, header.size):
                raise CorruptRecords(f"the leader sent a batch at {header.base_offset} that does not continue the log")
            batches.append((header, view[position:end]))
            expected, epoch, position = header.next_offset, header.leader_epoch, end
        for header, batch in batches:
            self._put([batch], header.next_offset - header.base_offset)
            self._last_timestamp = header.max_timestamp
            is_new_epoch = header.leader_epoch > self.last_epoch
            self._note_epoch(header.leader_epoch, header.base_offset)
            if is_new_epoch:
                self._save_epochs()
            voters = self.voters
            self._remember(header, batch)
            if voters is not self.voters:
                self._save_state(self._state)

    def truncate(self, offset: int) -> None:
        """Remove everything from this offset on: it was never committed."""
        self._check()
        assert offset >= self.high_watermark
        while self._segments and len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._close_file()
            self._drop([self._segments.pop()], f"the leader has something else from {offset} on")
            self._file = self._disk.open(self._segments[-1].path)
            self._file_size = self._file.size()
        assert self._file is not None
        base_offset = self._segments[-1].base_offset
        position = 0
        for position, header, _ in self._batches(self._file, self._file_size, base_offset, is_counted=False):
            if header.next_offset > offset:
                break
            position += header.size
        self._file.truncate(position)
        self._file_size = position
        self.end_offset = max(offset, base_offset)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        while self._epochs and self._epochs[-1][1] >= self.end_offset:
            self._epochs.pop()
        while len(self._voters) > 1 and self._voters[-1][0] >= self.end_offset:
            self._voters.pop()
        while self._written and self._written[-1].end_offset > self.end_offset:
            self._written.pop()
        self._save_epochs()

    def commit(self, high_watermark: int) -> Iterator[Written]:
        """Everything before the high watermark counts: what that is, one write after the other."""
        self.high_watermark = max(self.high_watermark, high_watermark)
        while self._written and self._written[0].end_offset <= self.high_watermark:
            yield self._written.popleft()

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds an offset, at least one if there is any."""
        for index in range(len(self._segments) - 1, -1, -1):
            if self._segments[index].base_offset <= offset:
                break
        else:
            return b""
        segment = self._segments[index]
        is_last = index == len(self._segments) - 1
        file = self._file if is_last else self._disk.open(segment.path)
        assert file is not None
        try:
            start, end, size = -1, 0, self._file_size if is_last else file.size()
            for position, header, _ in self._batches(file, size, segment.base_offset, is_counted=False):
                if header.next_offset <= offset:
                    continue
                if start < 0:
                    start = position
                elif position + header.size - start > max_bytes:
                    break
                end = position + header.size
            return b"" if start < 0 else file.read(start, end - start)
        finally:
            if not is_last:
                file.close()

    async def sync(self) -> int:
        """Put on the disk what was written so far; its end offset. A node whose sync fails must end: nobody knows any
        more what is on its disk."""
        self._check()
        end_offset, file = self.end_offset, self._file
        assert file is not None
        self._syncs += 1
        try:
            await file.sync()
        except OSError as error:
            self._failure = error
            raise
        finally:
            self._syncs -= 1
            while self._retired and not self._syncs:
                self._retired.pop().close()
        self.flushed_offset = max(self.flushed_offset, min(end_offset, self.end_offset))
        return self.flushed_offset

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self.last_epoch or not self._epochs:
            self._epochs.append((epoch, start_offset))

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

    def _put(self, batches: Sequence[Buffer], count: int) -> None:
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

    def close(self) -> None:
        self._close_file()
        if self._incoming is not None:
            self._incoming.close()
            self._incoming = None

    def _close_file(self) -> None:
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
        self.flushed_offset = self.end_offset
        if not self._syncs:
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

    def save_state(self, state: QuorumState) -> None:
        """On the disk when this returns."""
        self._save_state(state)

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
                voters=self.voters if self.has_dynamic_voters else None,
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
            if self.start_offset > end_offset or (self._snapshots and self._snapshots[-1].end_offset >= end_offset):
                # The leader sent one meanwhile that stands for more, or for the same.
                if self._disk.exists(f"{path}.part"):
                    self._disk.remove(f"{path}.part")
                return None
            self._disk.rename(f"{path}.part", path)
            self._disk.sync_directory(self._directory)
            self._snapshots.append(id)
            self._snapshot_record_count = count
            self._bytes_since_snapshot -= bytes_before
            self._snapshot_at = timestamp
            if not self._written and self.flushed_offset == self.end_offset:
                self._roll()
            self.clean()
            return id
        finally:
            self._is_snapshotting = False

    def read_snapshot(self, snapshot: raft.SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of a snapshot, and a piece of it."""
        file = self._disk.open(f"{self._directory}/{SnapshotId(*snapshot).name}")
        try:
            return file.size(), file.read(position, max_bytes)
        finally:
            file.close()

    def write_snapshot(self, snapshot: raft.SnapshotId, position: int, data: Buffer) -> None:
        """A piece of a snapshot that the leader sends."""
        self._check()
        id = SnapshotId(*snapshot)
        if position == 0 or self._incoming is None:
            if self._incoming is not None:
                self._incoming.close()
            self._incoming = self._disk.open(f"{self._directory}/{id.name}.part", create=True)
            self._incoming.truncate(0)
        self._incoming.write(position, bytes(data))

    def install_snapshot(self, snapshot: raft.SnapshotId) -> list[Message]:
        """The leader's snapshot is whole: it takes the place of everything here. CorruptRecords if it is damaged."""
        assert self._incoming is not None
        id = SnapshotId(*snapshot)
        path = f"{self._directory}/{id.name}"
        self._incoming.sync_now()
        self._incoming.close()
        self._incoming = None
        latest = decode_snapshot(read_file(self._disk, f"{path}.part"))
        self._disk.rename(f"{path}.part", path)
        self._disk.sync_directory(self._directory)
        self._close_file()
        self._drop(self._segments, f"the leader's snapshot at {id.end_offset} replaces it")
        for old in self._snapshots:
            if old != id:
                self._disk.remove(f"{self._directory}/{old.name}")
        self._segments, self._snapshots = [], [id]
        self._written.clear()
        self._voters = self._voters[:1]
        if latest.voters is not None:
            self._use_voters(id.end_offset - 1, latest.voters)
        self._epochs = [(id.epoch, id.end_offset - 1)]
        self.start_offset = self.end_offset = self.flushed_offset = self.high_watermark = id.end_offset
        self._last_timestamp = latest.last_contained_timestamp
        self._snapshot_record_count = len(latest.records)
        self._bytes_since_snapshot = 0
        self._snapshot_at = self._clock()
        self._open_segment()
        self._save_epochs()
        self._save_state(self._state)
        self._use_metadata_version(latest.records)
        return latest.records

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
