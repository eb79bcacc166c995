"""The effect of a transaction shard's decisions: markers to be written when the records are durable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Write the transaction's markers into its partitions, with retries until that succeeds, and report each with
    `markers_written`. A partition that no longer exists counts as written.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    """The protocol version of the transaction: from 2 on `producer_epoch` is already higher than that of the data."""
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
