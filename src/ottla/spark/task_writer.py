"""A task's whole write, without Spark: a transaction is begun, its rows are sent, and it stays open for the driver.

Spark's side of it (which task this is, what a worker does around it) is in `writer`; here is what a task says to
brokers, so the simulator runs it as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.spark.blocking_cluster import BlockingCluster, Clusters
from ottla.spark.decisions import TaskTransaction
from ottla.spark.options import AT_LEAST_ONCE, OptionError, WriteOptions
from ottla.spark.row_sender import RowSender
from ottla.spark.transactions import (
    NO_IDENTITY,
    ProducerIdentity,
    end_transactions,
    has_transactions,
    init_idempotent_producer,
    init_transactional_producer,
)

if TYPE_CHECKING:
    import pyarrow

_log = logging.getLogger("ottla.spark")


class Task(NamedTuple):
    """Which task of a job writes, and under which transactional id."""

    partition: int
    """The task's number, not a topic's partition."""
    attempt: int
    transactional_id: str


class Rows(NamedTuple):
    """The result of a task."""

    row_count: int
    topic: str | None = None
    """One of the topics that it wrote to."""
    transaction: TaskTransaction | None = None
    """None: nothing was written, or without a transaction."""


def write_task(
    clusters: Clusters,
    options: WriteOptions,
    batches: Iterable[pyarrow.RecordBatch],
    task: Task,
    *,
    may_wait_for_ever: bool = False,
) -> Rows:
    """Write a task's rows. The transaction stays open when this returns; it is aborted when this fails."""
    sender: RowSender | None = None
    transaction: TaskTransaction | None = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if sender is None:
                cluster = clusters.shared(options.config)
                identity = NO_IDENTITY
                if _is_transactional(cluster, options):
                    identity = init_transactional_producer(
                        cluster,
                        task.transactional_id,
                        timeout_ms=options.transaction_timeout_ms,
                        may_wait_for_ever=may_wait_for_ever,
                    )
                    transaction = TaskTransaction(task.partition, task.attempt, *identity)
                elif options.config.enable_idempotence:
                    identity = init_idempotent_producer(cluster)
                sender = RowSender(
                    cluster,
                    options.config,
                    topic=options.topic,
                    batch_size=options.batch_size,
                    identity=identity,
                    transactional_id=None if transaction is None else task.transactional_id,
                )
            sender.send(batch)
        if sender is None:
            return Rows(0)
        sender.finish()
    except BaseException:
        clusters.drop(options.config)
        if transaction is not None:
            _abort(clusters, options, task.transactional_id, transaction)
        raise
    finally:
        if sender is not None:
            sender.close()
    return Rows(sender.row_count, next(iter(sender.topics)), transaction)


def _is_transactional(cluster: BlockingCluster, options: WriteOptions) -> bool:
    if options.delivery_guarantee == AT_LEAST_ONCE:
        return False
    if has_transactions(cluster):
        return True
    if options.is_guarantee_given:
        raise OptionError(
            "deliveryGuarantee=exactly_once: the brokers are too old for it (Kafka 3.0 or later is needed); "
            "at_least_once works with them"
        )
    _log.warning("the brokers are too old for deliveryGuarantee=exactly_once: rows are written at least once")
    return False


def _abort(clusters: Clusters, options: WriteOptions, name: str, transaction: TaskTransaction) -> None:
    """Best effort: otherwise the driver's sweep aborts the transaction, or its timeout."""
    cluster = clusters.new(options.config)
    try:
        identity = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        end_transactions(cluster, [(name, identity)], committed=False)
    except Exception as error:
        _log.warning("the transaction %s could not be aborted: %s", name, error)
    finally:
        cluster.close()
