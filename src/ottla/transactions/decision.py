"""What a command of a transaction shard decided: records, a reply, and markers to be written when they are durable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.transactions.records import TransactionRecord
from ottla.wire.errors import KafkaError

Reply = TypeVar("Reply")


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Call:
    """When a command comes, and in which version of its API."""

    now: int
    """Monotonic milliseconds: deadlines."""
    timestamp: int
    """Wall clock milliseconds: what goes into records."""
    api_version: int = 0
    waiter: Any = None
    """Always None: every command is answered by its own decision."""


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Write the outcome of a transaction into its partitions, however often that takes, and tell the shard with
    `markers_written`. A partition that no longer exists counts as written."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    """The protocol version of the transaction: from 2 on the epoch above is already above that of the data."""
    is_commit: bool
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class TransactionDecision(Generic[Reply]):
    """Records to be written as one batch, and what may leave once they are durable: the reply and the effects."""

    records: list[TransactionRecord]
    reply: Reply
    effects: list[SendMarkers] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    """Always empty: nobody waits for another's command here."""
    refused: Callable[[KafkaError, Any], TransactionDecision[Any]] | None = None
    """Always None: a decision changes nothing but by its records, so its caller just gets the error."""
