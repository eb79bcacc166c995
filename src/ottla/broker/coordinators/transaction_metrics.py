"""What /metrics shows of transactions: how many there are, how they end, and which partitions wait for one too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics import Sample
from ottla.transactions.transaction import TransactionState

if TYPE_CHECKING:
    from ottla.broker.coordinators.transactions import TransactionCoordinator

PREFIX = "kafka_server_transaction_coordinator_metrics_"
OUTCOMES = ("committed", "aborted", "timed_out")
_STATES = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


def register_transaction_metrics(transactions: TransactionCoordinator) -> None:
    """Let the node's metrics show its transaction coordinator, and what partitions know of transactions."""
    metrics = transactions.ground.metrics
    metrics.gauge(
        "ottla_transactional_ids", "Transactional ids by the state of their transaction.", lambda: _ids(transactions)
    )
    metrics.counter("ottla_transactions_total", "Transactions by their outcome.", lambda: _outcomes(transactions))
    metrics.counter(
        "kafka_server_addpartitionstotxnmanager_verificationfailures_total",
        "Batches of transactions that the coordinator did not confirm.",
        lambda: transactions.unconfirmed_count,
    )
    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction that its coordinator should have ended five minutes ago.",
        lambda: _late(transactions),
    )
    metrics.gauge(
        PREFIX + "partition_load_time_max",
        "Milliseconds that the slowest load of a partition of __transaction_state took.",
        lambda: transactions.load_ms_max,
    )
    metrics.gauge(
        PREFIX + "partition_load_time_avg",
        "Milliseconds that a load of a partition of __transaction_state took.",
        lambda: transactions.load_ms_total / transactions.load_count if transactions.load_count else 0.0,
    )


def _ids(transactions: TransactionCoordinator) -> Iterator[Sample]:
    counts: Counter[TransactionState] = Counter()
    for hosted in transactions.active():
        if hosted.machine is not None:
            counts.update(hosted.machine.counts_by_state())
    for state in _STATES:
        yield (("state", state.label),), counts[state]


def _outcomes(transactions: TransactionCoordinator) -> Iterator[Sample]:
    counts = Counter(transactions.past_counts)
    for hosted in transactions.active():
        if hosted.machine is not None:
            counts.update(hosted.machine.counts)
    for outcome in OUTCOMES:
        yield (("outcome", outcome),), counts[outcome]


def _late(transactions: TransactionCoordinator) -> int:
    ground, partitions = transactions.ground, transactions.replicas.partitions
    timestamp, limit_ms = ground.clock(), ground.config.transaction_max_timeout_ms
    return sum(partition.log.producers.has_late_transaction(timestamp, limit_ms) for partition in partitions)
