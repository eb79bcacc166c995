"""The streaming writer: `df.writeStream.format("ottla")`. `exactly_once` and `decisions` describe how it writes each
row exactly once; this file has the methods that Spark calls.

Spark tells a Python sink neither its query nor its batch until a task runs, and makes a new writer for each batch and
each commit. So the tasks read the query's id from their context and send it along with what they wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.errors import AuthenticationError, ConfigError, in_context
from ottla.spark.blocking_cluster import WORKER
from ottla.spark.decisions import TaskTransaction, run_id_of, transactional_id
from ottla.spark.exactly_once import Sink, SinkCommit
from ottla.spark.faults import fault_point
from ottla.spark.options import WriteOptions
from ottla.spark.workers import set_modules_aside
from ottla.spark.writer import DEFAULT_PREFIX, TaskWritten, write_rows, writes

if TYPE_CHECKING:
    import pyarrow

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"


@dataclass
class BatchTaskWritten(TaskWritten):
    """A task's message to the driver."""

    sink: Sink | None = None


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one batch, or commits one."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> BatchTaskWritten:
        batch_id = int(_property(BATCH_ID))
        query_id = UUID(_property(QUERY_ID))
        sink_id = self._options.transactional_id_prefix or f"{DEFAULT_PREFIX}-{query_id}"
        sink = Sink(sink_id, query_id, run_id_of(_property(RUN_ID)))

        def name_of(partition: int, attempt: int) -> str:
            return transactional_id(sink.sink_id, sink.run_id, batch_id, partition, attempt)

        what = f"{writes(self._options)} (query {query_id}, batch {batch_id})"
        written = write_rows(self._options, iterator, name_of, may_wait_for_ever=True, what=what)
        fault_point("task", batch_id)
        return BatchTaskWritten(written.row_count, written.topic, written.transaction, sink)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        set_modules_aside()
        sink, topic, transactions = _written(messages)
        if sink is None or topic is None or not transactions:
            return  # nothing was written, or without transactions
        try:
            SinkCommit(WORKER.shared(self._options.config), sink).commit(batchId, topic, transactions)
        except BaseException as error:
            WORKER.drop(self._options.config)
            if isinstance(error, AuthenticationError | ConfigError):
                who = f"{writes(self._options)} (query {sink.query_id}, batch {batchId})"
                raise in_context(error, who) from error
            raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        sink, _, transactions = _written(messages)
        if sink is None or not transactions:
            return  # tasks abort their own transactions; what dead ones left open is swept by the next batch
        try:
            SinkCommit(WORKER.shared(self._options.config), sink).abort(batchId, transactions)
        except BaseException:
            WORKER.drop(self._options.config)
            raise


def _property(name: str) -> str:
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(name)
    if value is None:
        raise RuntimeError(f"Spark's tasks have no property {name}: this connector is made for PySpark 4.3")
    return value


def _written(
    messages: list[WriterCommitMessage | None],
) -> tuple[Sink | None, str | None, list[TaskTransaction]]:
    tasks = [one for one in messages if isinstance(one, BatchTaskWritten)]
    transactions = [one.transaction for one in tasks if one.transaction is not None]
    sink = next((one.sink for one in tasks if one.sink is not None), None)
    return sink, next((one.topic for one in tasks if one.topic is not None), None), transactions
