"""The log of one partition: Kafka's UnifiedLog without tiered storage.

A log is a list of segments. Appends go to the last; when it is full or old a new one is rolled. Reads give slices of
files. One thread, no locks: every method but the flushes runs to completion.

The class is built in chapters, each on the one before: `tail` (compiled: ordinary appends), `log_segments` (state,
settings, rolling), `log_reads`, `log_truncation` (retention, truncation, compaction), `log_flush` (durability and
closing), and here the less common appends.

Invariants
  L1  log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
  L2  recovery_point <= log_end_offset; everything below it has been synced, with the epochs and snapshots it needs
  L3  segments are ordered by base offset, the last is the active one, and there is always one
  L4 no offset is assigned twice: log_end_offset only goes back by `truncate`
  L5  nothing is appended after a `cut` that is not on disk: after a power loss pages of the records that were cut off
      could stand among those of the records that came after them, and nothing would show the difference
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import Struct
from typing import NamedTuple, NoReturn

from ottla.config import TopicConfig
from ottla.records import (
    HEADER_SIZE,
    WITHOUT_KEY,
    BatchHeader,
    Compression,
    ControlType,
    CorruptRecords,
    RecordError,
    check,
    crc_ok,
    read_end_txn_marker,
    recompress,
    set_max_timestamp,
    split,
)
from ottla.replication import LeaderEpochs, Origin, ProducerState
from ottla.storage.checkpoints import write_topic_id
from ottla.storage.disk import Disk
from ottla.storage.index import AbortedTransaction
from ottla.storage.log_flush import LogFlush
from ottla.storage.segment import Segment
from ottla.storage.tail import MAX_DECOMPRESSED, NO_ROOM
from ottla.wire.errors import ErrorCode, KafkaError

_MAGIC_POSITION, _MAGIC = 16, 2
_STAMP_OFFSET = Struct(">q")
_STAMP_EPOCH = Struct(">i")

_ERRORS = {int(code): code for code in ErrorCode}


class Appended(NamedTuple):
    """The result of an append. A duplicate appends nothing: the offsets are those of the first append."""

    base_offset: int
    last_offset: int
    log_append_time: int
    """-1 when the topic keeps the producer's timestamps."""
    log_start_offset: int
    is_duplicate: bool


class RecordsRefused(KafkaError):
    """A batch has records that the topic does not accept (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str | None, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def invalid_records(errors: list[RecordError]) -> RecordsRefused:
    """INVALID_RECORD in Kafka's words."""
    first = ", ".join(f"RecordError(batchIndex={at}, message='{text}')" for at, text in errors[:3])
    return RecordsRefused(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{first}]",
        errors,
    )


class Log(LogFlush):
    """One partition's log on a disk. `Log.create` makes a new one, `recovery.load_log` opens an existing one."""

    __slots__ = ()

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
        """Append a producer's batches, as leader: check them, assign offsets (the buffer is changed in place) and write
        them with one write. KafkaError when it is refused. `is_verified` is false for a transactional batch whose
        transaction the coordinator has not confirmed.
        """
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
        """Begin a new leader's epoch at the log's end. It is kept from now on, before its first record, so that
        followers can ask where earlier epochs end. `note_epochs` writes it to the file later: recovery finds the epochs
        of records, and an epoch without records loses nothing.
        """
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, self.log_end_offset)
            self.epochs.is_dirty = True

    def append_as_follower(self, batches: memoryview | bytearray) -> int:
        """Append the leader's batches with their offsets and epochs; returns the new log end offset. The caller must
        not pass batches that the log already has.
        """
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
            # A batch whose last offset is before its first would move the log's end back (L3).
            if header.last_offset_delta < 0 or not crc_ok(batches, position, header.size):
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
                max_record=self._max_record_bytes,
                is_client=is_client,
            )
            if checked.error:
                self._refuse_records(_ERRORS[checked.error], checked.message, checked.record_errors)
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
        if self.is_cut:
            # L5. Clients retry: this replica was a follower until now, and cannot lead yet.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} was truncated, which is not on disk yet")
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
        segment = self._segment_for(size, last_offset, max_timestamp, timestamp, first_offset, origin)
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

    def _refuse_records(self, code: ErrorCode, message: str | None, found: list[RecordError]) -> NoReturn:
        """Refuse a batch with Kafka's message, which names the partition if records lack a key."""
        place = f" in topic partition {self.topic}-{self.partition}"
        errors = [RecordError(at, text + place if text == WITHOUT_KEY else text) for at, text in found]
        if errors and code is ErrorCode.INVALID_RECORD:
            raise invalid_records(errors)
        raise RecordsRefused(code, message, errors)

    def _recompress(self, batch: memoryview | bytearray, attributes: int) -> bytearray:
        codec = self._codec if self._codec is not None else Compression(attributes & 7)
        rebuilt = recompress(batch, codec, self._codec_level, max_decompressed=MAX_DECOMPRESSED)
        if len(rebuilt) > self._max_message_bytes:
            self._refuse(2, 0, len(rebuilt))
        return rebuilt
