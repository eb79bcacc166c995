"""A topic as the target of `foreachBatch`, exactly once.

Spark lets a Python sink append only: a query in the mode `update` (the new count of each word) has to go through
`foreachBatch`, whose writes are plain batch writes. The tasks of such a write still know their query and their batch,
so this sink does what the streaming sink does: the same transactions, the same decision, the same recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.options import WriteOptions, parse_write_options
from ottla.spark.schema import check_write_schema
from ottla.spark.stream_writer import BATCH_ID, BatchTaskWritten, StreamWriter

if TYPE_CHECKING:
    import pyarrow

NAME = "ottla-batch"


@dataclass
class TaskOfBatch(WriterCommitMessage):
    """The result of a task, and its batch."""

    batch_id: int
    written: BatchTaskWritten


class BatchOfStreamWriter(DataSourceArrowWriter):
    """Writes one batch of a stream as the streaming sink would."""

    def __init__(self, options: WriteOptions) -> None:
        self._writer = StreamWriter(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskOfBatch:
        from pyspark import TaskContext

        context = TaskContext.get()
        batch_id = None if context is None else context.getLocalProperty(BATCH_ID)
        if batch_id is None:
            raise RuntimeError(f"{NAME} writes batches of a stream only, inside of foreachBatch")
        return TaskOfBatch(int(batch_id), self._writer.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        for batch_id, written in _by_batch(messages).items():
            self._writer.commit(written, batch_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        for batch_id, written in _by_batch(messages).items():
            self._writer.abort(written, batch_id)


def _by_batch(messages: list[WriterCommitMessage | None]) -> dict[int, list[WriterCommitMessage | None]]:
    found: dict[int, list[WriterCommitMessage | None]] = {}
    for one in messages:
        if isinstance(one, TaskOfBatch):
            found.setdefault(one.batch_id, []).append(one.written)
    return found


class BatchOfStream(DataSource):
    """Registered by the pipeline that uses it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> BatchOfStreamWriter:
        options = parse_write_options(self.options)
        check_write_schema(schema, options.topic)
        return BatchOfStreamWriter(options)
