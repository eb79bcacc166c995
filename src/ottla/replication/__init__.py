"""What one partition's replicas must agree on, as pure data: idempotent producers and leader epochs."""

from ottla.replication.epochs import LeaderEpochs
from ottla.replication.producers import (
    CompletedTransaction,
    CorruptSnapshot,
    Origin,
    ProducerBatch,
    ProducerEntry,
    ProducerState,
)

__all__ = [
    "CompletedTransaction",
    "CorruptSnapshot",
    "LeaderEpochs",
    "Origin",
    "ProducerBatch",
    "ProducerEntry",
    "ProducerState",
]
