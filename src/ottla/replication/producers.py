"""Idempotent and transactional producers of one partition: Kafka's ProducerStateManager as pure data.

For each producer id the last five batches are remembered, so that a retry of any of the five requests a client may
have in flight is recognised and answered with the offsets it got the first time. Transactions are the same data: a
producer with a first offset has an open transaction; the earliest first offset bounds what read_committed consumers may
read.

Invariants
  P1  `ongoing` maps the first offset of every open transaction to its producer, in rising order; entries agree with
      their `current_first_offset`.
  P2  `unreplicated` maps first offset to last offset of decided transactions whose marker is not below the high
  watermark. P3  `end_offset` is the offset up to which batches have been replayed; a snapshot taken now is named after
  it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.records import crc32c
from ottla.records.batch import MAX_PRODUCER_EPOCH, MAX_SEQUENCE
from ottla.wire.errors import ErrorCode, KafkaError

BATCHES_REMEMBERED = 5
NO_OFFSET = -1
"""In place of the first offset of a transaction: the producer has none open."""

SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_CRC_END = 6


class CorruptSnapshot(ValueError):
    """A .snapshot file that cannot be what Kafka or we wrote."""


class Origin(IntEnum):
    """The appender's role: it decides whether a producer's mistake is refused or accepted as history."""

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2
    RAFT_LEADER = 3


class ProducerBatch(NamedTuple):
    """What is remembered of a batch: enough to recognise and answer its retry."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_sequence(self) -> int:
        return previous_sequence(self.last_sequence, self.offset_delta)

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction whose marker was just appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Verification:
    """A transaction that the coordinator must confirm before its first batch is accepted (KIP-890)."""

    __slots__ = ("epoch", "lowest_sequence", "supports_epoch_bump", "timestamp")

    def __init__(self, timestamp: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.timestamp = timestamp
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump


class ProducerEntry:
    """One producer id on this partition."""

    __slots__ = ("batches", "coordinator_epoch", "current_first_offset", "epoch", "last_timestamp", "next_sequence")

    def __init__(
        self,
        epoch: int = -1,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        current_first_offset: int = NO_OFFSET,
        batches: Iterable[ProducerBatch] = (),
    ) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_first_offset = current_first_offset
        self.batches: list[ProducerBatch] = list(batches)
        self.next_sequence = next_sequence(self.batches[-1].last_sequence) if self.batches else 0

    def extend(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        """Add the next batch of the producer, in the same epoch."""
        batches = self.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        batches.append(tuple.__new__(ProducerBatch, (last_sequence, last_offset, offset_delta, timestamp)))
        self.next_sequence = last_sequence + 1 if last_sequence != MAX_SEQUENCE else 0
        self.last_timestamp = timestamp

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0


class ProducerState:
    """All producers of a partition that have not expired."""

    __slots__ = ("end_offset", "ongoing", "producers", "snapshot_offset", "unreplicated", "verifications")

    def __init__(self) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        self.unreplicated: dict[int, int] = {}
        self.verifications: dict[int, Verification] = {}
        self.end_offset = 0
        self.snapshot_offset = 0

    def __len__(self) -> int:
        return len(self.producers)

    def is_empty(self) -> bool:
        return not self.producers and not self.unreplicated

    # --- what may be appended

    def check(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_sequence: int,
        base_offset: int,
        origin: Origin = Origin.CLIENT,
    ) -> ProducerBatch | None:
        """May a data batch be appended at `base_offset`? The remembered batch if a client repeats itself (answer with
        its offsets and append nothing), None if it may, KafkaError if not. An unknown producer may start with any
        sequence: its earlier batches may have been deleted.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            if origin == Origin.CLIENT and self.verifications:
                self._check_verification(producer_id, epoch, base_sequence, None, base_offset)
            return None
        if epoch == entry.epoch and origin == Origin.CLIENT:
            if base_sequence == entry.next_sequence and entry.batches and not self.verifications:
                return None
            for batch in entry.batches:
                if batch.last_sequence == last_sequence and batch.base_sequence == base_sequence:
                    return batch
        if epoch < entry.epoch and origin != Origin.REPLICATION:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {epoch} of producer {producer_id} at offset {base_offset} is older than {entry.epoch}",
            )
        if origin != Origin.CLIENT:
            return None
        if self.verifications:
            self._check_verification(producer_id, epoch, base_sequence, entry, base_offset)
        if epoch != entry.epoch:
            if base_sequence != 0 and entry.epoch != -1:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {producer_id} starts epoch {epoch} with sequence {base_sequence}, not 0"
                    f" (offset {base_offset}, its epoch so far is {entry.epoch})",
                )
        elif entry.epoch != -1 and base_sequence != entry.next_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} sent sequence {base_sequence} at offset {base_offset}"
                f" after {entry.last_sequence}",
            )
        return None

    def _check_verification(
        self, producer_id: int, epoch: int, base_sequence: int, entry: ProducerEntry | None, base_offset: int
    ) -> None:
        verification = self.verifications.get(producer_id)
        if verification is None or verification.epoch < epoch:
            return  # a late batch of an older epoch says nothing about the sequence of this epoch's batches
        is_new = entry is None or not entry.batches
        is_bumped = verification.supports_epoch_bump and base_sequence != 0 and is_new
        if is_bumped or base_sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} sent sequence {base_sequence} at offset {base_offset}"
                f" before its earlier ones (lowest seen: {verification.lowest_sequence})",
            )

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        origin: Origin = Origin.COORDINATOR,
        transaction_version: int = 0,
    ) -> None:
        """May this transaction marker be appended? From transaction version 2 on a marker carries a bumped epoch, so an
        equal one is a retry: allowed when the transaction is already over (or the epoch cannot rise)."""
        entry = self.producers.get(producer_id)
        if entry is None or origin == Origin.REPLICATION:
            return
        is_retry = (
            transaction_version >= 2
            and producer_epoch == entry.epoch
            and (entry.current_first_offset == NO_OFFSET or producer_epoch == MAX_PRODUCER_EPOCH)
        )
        is_old = producer_epoch < entry.epoch or (transaction_version >= 2 and producer_epoch == entry.epoch)
        if is_old and not is_retry:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Marker epoch {producer_epoch} of producer {producer_id} is not above {entry.epoch}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {coordinator_epoch} for producer {producer_id} is older than"
                f" {entry.coordinator_epoch}",
            )

    def check_transaction(self, producer_id: int, is_transactional: bool) -> None:
        """Refuse a plain batch inside a producer's transaction."""
        entry = self.producers.get(producer_id)
        if entry is not None and entry.current_first_offset != NO_OFFSET and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {producer_id} has an open transaction and sent a batch outside it",
            )

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and entry.current_first_offset != NO_OFFSET and entry.epoch == producer_epoch

    def begin_verification(
        self, timestamp: int, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> Verification | None:
        """Start (or join) the verification of a transaction's first batch; None when the transaction is already
        here."""
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        entry = self.producers.get(producer_id)
        if entry is not None and entry.epoch == epoch and sequence < entry.next_sequence:
            # A retry of what is in the log already. Its sequence is not noted for the verification: all batches that
            # follow would be out of order after it.
            sequence = entry.next_sequence
        verification = self.verifications.get(producer_id)
        if verification is None:
            verification = Verification(timestamp, sequence, epoch, supports_epoch_bump)
            self.verifications[producer_id] = verification
        elif epoch > verification.epoch:
            verification.epoch = epoch
            verification.lowest_sequence = sequence
        elif epoch == verification.epoch and sequence < verification.lowest_sequence:
            verification.lowest_sequence = sequence
        return verification

    def end_verification(self, producer_id: int, epoch: int, verification: Verification) -> None:
        """The coordinator refused the transaction. The verification stays if a later epoch of the producer waits for
        its answer by now.
        """
        if self.verifications.get(producer_id) is verification and verification.epoch == epoch:
            del self.verifications[producer_id]

    # --- what was appended

    def replay(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        is_transactional: bool,
    ) -> None:
        """A data batch is in the log."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(epoch)
        if entry.epoch != epoch:
            entry.batches.clear()
            entry.epoch = epoch
        entry.extend(last_sequence, last_offset, last_offset - base_offset, timestamp)
        if is_transactional:
            if entry.current_first_offset == NO_OFFSET:
                entry.current_first_offset = base_offset
                self.ongoing[base_offset] = producer_id
            self.verifications.pop(producer_id, None)
        self.end_offset = last_offset + 1

    def replay_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int, is_abort: bool
    ) -> CompletedTransaction | None:
        """A transaction marker is in the log. What it completed, for the transaction index; the caller then calls
        `complete`. None for a transaction without data here."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(epoch)
        completed = None
        if entry.current_first_offset != NO_OFFSET:
            completed = CompletedTransaction(producer_id, entry.current_first_offset, offset, is_abort)
        if entry.epoch != epoch:
            entry.batches.clear()
            entry.next_sequence = 0
            entry.epoch = epoch
        entry.coordinator_epoch = coordinator_epoch
        entry.current_first_offset = NO_OFFSET
        entry.last_timestamp = timestamp
        self.verifications.pop(producer_id, None)
        self.end_offset = offset + 1
        return completed

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """What the last stable offset will be once `completed` is replicated: the next open transaction's start."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        del self.ongoing[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Decided transactions below the high watermark no longer hold the last stable offset back."""
        if self.unreplicated:
            for first in [first for first, last in self.unreplicated.items() if last < high_watermark]:
                del self.unreplicated[first]

    def advance_log_start(self, log_start_offset: int) -> None:
        self.advance_high_watermark(log_start_offset)
        if self.end_offset < log_start_offset:
            self.end_offset = log_start_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The earliest offset whose transaction is undecided, or decided by a marker not yet replicated."""
        if self.unreplicated:
            first_offset = min(self.unreplicated)
            return min(first_offset, next(iter(self.ongoing))) if self.ongoing else first_offset
        return next(iter(self.ongoing)) if self.ongoing else None

    @property
    def first_undecided_offset(self) -> int | None:
        return next(iter(self.ongoing)) if self.ongoing else None

    # --- the passing of time

    def expire(self, timestamp: int, expiration_ms: int) -> None:
        """Forget producers that have written nothing for `expiration_ms` and are not inside a transaction."""
        for producer_id in [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.current_first_offset == NO_OFFSET and timestamp - entry.last_timestamp >= expiration_ms
        ]:
            del self.producers[producer_id]
        for producer_id in [
            producer_id
            for producer_id, verification in self.verifications.items()
            if timestamp - verification.timestamp >= expiration_ms
        ]:
            del self.verifications[producer_id]

    def has_late_transaction(self, timestamp: int, max_transaction_timeout_ms: int) -> bool:
        """Whether a transaction is open that its coordinator should have ended five minutes ago."""
        if not self.ongoing:
            return False
        entry = self.producers.get(next(iter(self.ongoing.values())))
        if entry is None or entry.last_timestamp <= 0:
            return False
        return timestamp - entry.last_timestamp > max_transaction_timeout_ms + 5 * 60 * 1000

    # --- snapshots

    def clear(self, end_offset: int) -> None:
        """Forget all producers, as the whole log was lost; the next batch is at `end_offset`."""
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.verifications.clear()
        self.end_offset = end_offset
        self.snapshot_offset = 0

    def encode_snapshot(self) -> bytes:
        """Kafka's .snapshot file, version 1: every producer with the last of its batches."""
        body = bytearray(_SNAPSHOT_HEADER.size + _SNAPSHOT_ENTRY.size * len(self.producers))
        position = _SNAPSHOT_HEADER.size
        for producer_id, entry in self.producers.items():
            _SNAPSHOT_ENTRY.pack_into(
                body,
                position,
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_offset,
                entry.last_offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_first_offset,
            )
            position += _SNAPSHOT_ENTRY.size
        _SNAPSHOT_HEADER.pack_into(body, 0, SNAPSHOT_VERSION, 0, len(self.producers))
        _SNAPSHOT_HEADER.pack_into(
            body, 0, SNAPSHOT_VERSION, crc32c(memoryview(body)[_SNAPSHOT_CRC_END:]), len(self.producers)
        )
        return bytes(body)

    def load_snapshot(self, data: bytes, offset: int, timestamp: int, expiration_ms: int) -> None:
        """Start from a .snapshot taken at `offset`, leaving out producers that have expired. CorruptSnapshot when it is
        not whole; nothing is changed then."""
        entries = decode_snapshot(data)
        self.clear(offset)
        self.snapshot_offset = offset
        for producer_id, entry in entries.items():
            if entry.current_first_offset == NO_OFFSET and timestamp - entry.last_timestamp >= expiration_ms:
                continue
            self.producers[producer_id] = entry
        self.ongoing = dict(
            sorted(
                (entry.current_first_offset, producer_id)
                for producer_id, entry in self.producers.items()
                if entry.current_first_offset != NO_OFFSET
            )
        )


def decode_snapshot(data: bytes) -> dict[int, ProducerEntry]:
    """The producers in a .snapshot file."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"version {version}")
    if crc32c(memoryview(data)[_SNAPSHOT_CRC_END:]) != crc:
        raise CorruptSnapshot("its CRC does not match")
    if count < 0 or len(data) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{count} producers do not fit {len(data)} bytes")
    producers: dict[int, ProducerEntry] = {}
    for fields in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = fields
        batches = [ProducerBatch(sequence, offset, delta, timestamp)] if offset >= 0 else []
        producers[producer_id] = ProducerEntry(
            epoch, coordinator_epoch, timestamp, first_offset if first_offset >= 0 else NO_OFFSET, batches
        )
    return producers


def next_sequence(sequence: int) -> int:
    """The sequence after `count` records; sequences wrap from 2^31 - 1 to 0."""
    return sequence + 1 if sequence != MAX_SEQUENCE else 0


def previous_sequence(sequence: int, delta: int) -> int:
    return sequence - delta if sequence >= delta else MAX_SEQUENCE - (delta - sequence) + 1
