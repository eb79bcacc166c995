"""The batch writer: `df.write.format("ottla").mode("append")`, and what both writers share.

exactly_once: each task writes in a transaction of its own, and the driver commits them all when the last task is done.
A task that fails and is run again leaves nothing behind; a job that fails leaves nothing at all, unless its driver dies
in the very moment of committing. at_least_once: rows of a task that failed may be there twice.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ottla.client.errors import AuthenticationError, ConfigError, KafkaError, in_context
from ottla.spark.blocking_cluster import WORKER, BlockingCluster
from ottla.spark.decisions import TaskTransaction
from ottla.spark.options import EXACTLY_ONCE, OptionError, WriteOptions
from ottla.spark.task_writer import Task, write_task
from ottla.spark.transactions import (
    ProducerIdentity,
    end_transactions,
    init_transactional_producer,
    open_transactions,
)
from ottla.spark.workers import exchange_at_once, set_modules_aside

if TYPE_CHECKING:
    import pyarrow

_log = logging.getLogger("ottla.spark")
DEFAULT_PREFIX = "ottla-spark"


@dataclass
class TaskWritten(WriterCommitMessage):
    """A task's message to the driver."""

    row_count: int
    topic: str | None = None
    """One of the topics that it wrote to."""
    transaction: TaskTransaction | None = None
    """None: nothing was written, or without a transaction."""


def write_rows(
    options: WriteOptions,
    batches: Iterator[pyarrow.RecordBatch],
    name_of: Callable[[int, int], str],
    *,
    may_wait_for_ever: bool = False,
    what: str | None = None,
) -> TaskWritten:
    """In an executor: write a task's rows. `name_of` makes a transactional id of the task's number and attempt.

    A transaction stays open when this returns; it is aborted when this fails. `what` names the writer in errors.
    """
    context = TaskContext.get()
    assert context is not None, "rows are written by Spark's tasks"
    partition, attempt = context.partitionId(), context.attemptNumber()
    exchange_at_once()  # the first rows may be under way
    try:
        written = write_task(
            WORKER,
            options,
            batches,
            Task(partition, attempt, name_of(partition, attempt)),
            may_wait_for_ever=may_wait_for_ever,
        )
    except (AuthenticationError, ConfigError) as error:
        raise in_context(error, f"{what or writes(options)}: task {partition}") from error
    finally:
        set_modules_aside()
    return TaskWritten(*written)


def writes(options: WriteOptions) -> str:
    return f"the query that writes to {options.topic or 'the topics its rows name'}"


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once. Made in the driver; tasks and the commit get copies of it."""

    def __init__(self, options: WriteOptions, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode('append')")
        self._options = options
        self._prefix = f"{options.transactional_id_prefix or DEFAULT_PREFIX}-{secrets.token_hex(8)}"

    def _name_of(self, partition: int, attempt: int) -> str:
        return f"{self._prefix}-{partition}-{attempt}"

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
        return write_rows(self._options, iterator, self._name_of)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        refused = self._end(messages, committed=True)
        if refused:
            raise RuntimeError(
                f"{len(refused)} of the job's transactions were aborted by the broker before they could be committed "
                f"({', '.join(sorted(refused))}): the job took longer than their timeout. Raise "
                "kafka.transaction.timeout.ms and transaction.max.timeout.ms of the brokers, or use at_least_once"
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Best effort, since the job has failed already and its error is the one to show. What tasks left open is
        aborted by its timeout."""
        try:
            self._end(messages, committed=False)
        except KafkaError as error:
            _log.warning("the job's transactions could not be aborted: %s", error)

    def _end(self, messages: list[WriterCommitMessage | None], *, committed: bool) -> list[str]:
        """End the tasks' transactions, and abort those of tasks that were run again or never came back."""
        if self._options.delivery_guarantee != EXACTLY_ONCE:
            return []
        written = [one.transaction for one in messages if isinstance(one, TaskWritten) and one.transaction]
        cluster = BlockingCluster(self._options.config, writes(self._options))
        try:
            if not committed:
                cluster.any()  # fails if no broker answers: the transactions then end by their timeout
            named = [
                (self._name_of(one.partition, one.attempt), ProducerIdentity(one.producer_id, one.producer_epoch))
                for one in written
            ]
            refused = end_transactions(cluster, named, committed=committed)
            if not committed or any(one.attempt for one in written):
                ended = {name for name, _ in named}
                for name in open_transactions(cluster, f"{self._prefix}-"):
                    if name not in ended:
                        init_transactional_producer(cluster, name)
            return sorted(refused)
        finally:
            cluster.close()
