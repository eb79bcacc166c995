"""One transactional id: its producer, its transaction, and the records that move it on.

States and what moves between them:

    Empty           InitProducerId                                   -> Empty (next epoch)
                    AddPartitionsToTxn, AddOffsetsToTxn              -> Ongoing
    Ongoing         more partitions                                  -> Ongoing
                    InitProducerId keeping a prepared transaction    -> Ongoing (another client identity)
                    EndTxn                                           -> PrepareCommit, PrepareAbort
                    InitProducerId, timeout                          -> PrepareAbort (next epoch)
    PrepareCommit   all markers are written                          -> CompleteCommit
    PrepareAbort    all markers are written                          -> CompleteAbort
    Complete...     as Empty; abort of an empty transaction (protocol version 2) -> PrepareAbort

Invariants
  T1  A pair (producer id, epoch) is never used twice: an id's epoch only rises, and an abandoned id is not used again.
  T2  The outcome of a prepared transaction never changes: PrepareCommit leads to CompleteCommit only.
  T3  The partitions of a prepared transaction are those it had when it was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ottla.records.batch import MAX_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.transactions.effects import SendMarkers, TopicPartition
from ottla.transactions.records import TransactionRecord
from ottla.wire.messages.records.transaction_log_key import TransactionLogKey
from ottla.wire.messages.records.transaction_log_value import PartitionsSchema, TransactionLogValue

NO_EPOCH = -1
LAST_CLIENT_EPOCH = MAX_PRODUCER_EPOCH - 1
"""The last epoch that a client gets: one more is reserved for fencing it."""
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction under two-phase commit: an outside coordinator ends it, never the clock (KIP-939)."""
EPOCH_BUMP_SINCE = 2
"""From this version of the protocol on every transaction ends with a new epoch (KIP-890)."""


class TransactionState(IntEnum):
    """The states in records; `label` is Kafka's name."""

    label: str

    def __new__(cls, code: int, label: str = "") -> TransactionState:
        self = int.__new__(cls, code)
        self._value_ = code
        self.label = label
        return self

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    """Never written or read here: Kafka's mark, in memory, for an id that is being forgotten."""
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"
    """Never written: Kafka's mark, in memory, for a transaction that is about to be aborted by its coordinator."""


STATES_BY_LABEL = {state.label: state for state in TransactionState}
PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_VALID_PREVIOUS = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: (TransactionState.ONGOING, *IDLE),
    TransactionState.PREPARE_COMMIT: (TransactionState.ONGOING,),
    TransactionState.PREPARE_ABORT: (TransactionState.ONGOING, *IDLE),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
}


@dataclass(slots=True)
class Transaction:
    """The state of a transactional id. Only `Transaction.replay` creates one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    partitions: dict[TopicPartition, None]
    start_timestamp: int
    last_update_timestamp: int
    client_version: int = 0
    """The protocol version of the transaction's client."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The id that takes over when the transaction is complete, because the epochs of the present one ran out, or since
    a client that keeps a prepared transaction has taken over."""
    next_producer_epoch: int = NO_EPOCH
    """The epoch that goes with `next_producer_id`; -1 means 0."""
    last_producer_epoch: int = NO_EPOCH
    """The previous epoch, if the same client had it: a retry of InitProducerId with that epoch is recognised. Not
    written, as in Kafka: after a restart such a retry is fenced."""
    awaited: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions of a prepared transaction whose markers are not confirmed yet."""

    @classmethod
    def replay(cls, transactional_id: str, value: TransactionLogValue, before: Transaction | None) -> Transaction:
        """The state after a record. `before` is the state before it; None if unknown or not needed."""
        state = TransactionState(value.transaction_status)
        partitions: dict[TopicPartition, None] = {}
        for schema in value.transaction_partitions or ():
            for partition in schema.partition_ids:
                partitions[TopicPartition(schema.topic, partition)] = None
        last_epoch = NO_EPOCH
        if state in PREPARED and value.client_transaction_version >= EPOCH_BUMP_SINCE:
            last_epoch = value.producer_epoch - 1
        elif before is not None and state != TransactionState.EMPTY:
            last_epoch = before.last_producer_epoch
        return cls(
            transactional_id,
            value.producer_id,
            value.producer_epoch,
            state,
            value.transaction_timeout_ms,
            partitions,
            value.transaction_start_timestamp_ms,
            value.transaction_last_update_timestamp_ms,
            value.client_transaction_version,
            value.previous_producer_id,
            value.next_producer_id,
            value.next_producer_epoch,
            last_epoch,
            dict(partitions) if state in PREPARED else {},
        )

    # --- the producer that may write in the transaction

    @property
    def client_producer_id(self) -> int:
        """The producer id of the client that owns the transactional id now. It differs from the transaction's id while
        a new client keeps a prepared transaction (KIP-939).
        """
        return self.next_producer_id if self.is_kept else self.producer_id

    @property
    def client_producer_epoch(self) -> int:
        return self.next_producer_epoch if self.is_kept else self.producer_epoch

    @property
    def is_kept(self) -> bool:
        """Whether a client has taken over and kept the ongoing transaction to end it (KIP-939)."""
        return self.state == TransactionState.ONGOING and self.next_producer_epoch != NO_EPOCH

    @property
    def is_prepared(self) -> bool:
        return self.state in PREPARED

    @property
    def is_idle(self) -> bool:
        return self.state in IDLE

    @property
    def supports_epoch_bump(self) -> bool:
        return self.client_version >= EPOCH_BUMP_SINCE

    @property
    def has_timeout(self) -> bool:
        return self.timeout_ms != NO_TIMEOUT_MS

    # --- records that change the state

    def value(self, state: TransactionState, timestamp: int, **changes: Any) -> TransactionLogValue:
        """The record value of a transition: the present state with `changes`."""
        assert self.state in _VALID_PREVIOUS[state], (self.state, state)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            next_producer_epoch=self.next_producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=state,
            transaction_partitions=partition_schemas(self.partitions),
            transaction_last_update_timestamp_ms=timestamp,
            transaction_start_timestamp_ms=self.start_timestamp,
            client_transaction_version=self.client_version,
        )
        for name, change in changes.items():
            setattr(value, name, change)
        return value

    def plan_end(
        self, is_commit: bool, client_version: int, next_producer_id: int, timestamp: int
    ) -> TransactionLogValue:
        """The record for PrepareCommit or PrepareAbort. `next_producer_id` is a new id if the client's epochs ran
        out.
        """
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        changes: dict[str, Any] = {"client_transaction_version": client_version}
        if client_version >= EPOCH_BUMP_SINCE:
            changes["producer_epoch"] = min(self.producer_epoch + 1, MAX_PRODUCER_EPOCH)
            changes["previous_producer_id"] = self.client_producer_id
            changes["next_producer_id"] = next_producer_id
            if self.is_kept and next_producer_id == NO_PRODUCER_ID:
                changes["next_producer_id"] = self.next_producer_id
                changes["next_producer_epoch"] = self.next_producer_epoch + 1
            else:
                changes["next_producer_epoch"] = NO_EPOCH
        if self.is_idle:
            changes["transaction_start_timestamp_ms"] = timestamp
        return self.value(state, timestamp, **changes)

    def plan_completion(self, timestamp: int) -> TransactionLogValue:
        """The record for CompleteCommit or CompleteAbort, once all markers are written."""
        is_commit = self.state == TransactionState.PREPARE_COMMIT
        changes: dict[str, Any] = {
            "transaction_partitions": [],
            "next_producer_id": NO_PRODUCER_ID,
            "next_producer_epoch": NO_EPOCH,
        }
        if self.supports_epoch_bump and self.next_producer_id != NO_PRODUCER_ID:
            changes["producer_id"] = self.next_producer_id
            changes["producer_epoch"] = max(self.next_producer_epoch, 0)
            changes["previous_producer_id"] = self.previous_producer_id
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        return self.value(state, timestamp, **changes)

    def record(self, value: TransactionLogValue | None, version: int) -> TransactionRecord:
        return new_record(self.transactional_id, value, version)

    def markers(self, coordinator_epoch: int) -> SendMarkers:
        """The markers to write now that the transaction is prepared."""
        assert self.is_prepared, "T2"
        return SendMarkers(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            coordinator_epoch,
            self.client_version,
            self.state == TransactionState.PREPARE_COMMIT,
            tuple(self.awaited),
        )


def new_record(transactional_id: str, value: TransactionLogValue | None, version: int) -> TransactionRecord:
    if value is not None and version == 0:  # version 0 has no tagged fields, which the next ids need
        value.previous_producer_id = NO_PRODUCER_ID
        value.next_producer_id = NO_PRODUCER_ID
        value.next_producer_epoch = NO_EPOCH
        value.client_transaction_version = 0
    return TransactionRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def partition_schemas(partitions: dict[TopicPartition, None]) -> list[PartitionsSchema]:
    """Partitions as records store them: grouped by topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def is_epoch_exhausted(epoch: int) -> bool:
    return epoch >= LAST_CLIENT_EPOCH
