"""Tables as a data source of Spark, named `ottla-table`, that pipelines register: batches of a stream written inside of
`foreachBatch`, tables read at once or followed version by version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ottla.spark.faults import fault_point
from ottla.spark.stream_writer import BATCH_ID, QUERY_ID
from ottla.spark.tables.data_files import DataFile
from ottla.spark.tables.table import NOTHING, BatchOfQuery, FileToRead, TableSettings, open_table, write_batch

NAME = "ottla-table"
SETTINGS = "settings"
REPLACES = "replaces"
VERSION = "tableVersion"


@dataclass
class TaskFiles(WriterCommitMessage):
    """The files that a task has written, and its batch."""

    files: list[DataFile] = field(default_factory=list)
    batch: BatchOfQuery | None = None


class TableWriter(DataSourceArrowWriter):
    """Writes rows to files, and makes them part of the table when all tasks are done."""

    def __init__(self, settings: TableSettings, replaces: bool) -> None:
        self._settings = settings
        self._replaces = replaces

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskFiles:
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(QUERY_ID)
        number = None if context is None else context.getLocalProperty(BATCH_ID)
        batch = None if query_id is None or number is None else BatchOfQuery(query_id, int(number))
        files = open_table(self._settings).write_files(iterator)
        fault_point("table-task", NOTHING if batch is None else batch.batch_id)
        return TaskFiles(files, batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        files, batch = _written(messages)
        write_batch(open_table(self._settings), files, batch, replaces=self._replaces)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The files stay where they are: a commit that failed for its writer may have reached the table all the same.
        Those that no commit names are removed with the table's other old files (vacuum)."""


def _written(messages: list[WriterCommitMessage | None]) -> tuple[list[DataFile], BatchOfQuery | None]:
    tasks = [one for one in messages if isinstance(one, TaskFiles)]
    return [file for task in tasks for file in task.files], next((task.batch for task in tasks if task.batch), None)


@dataclass
class FilePartition(InputPartition):
    """One file for one task."""

    file: FileToRead

    def __init__(self, file: FileToRead) -> None:
        super().__init__(file)
        self.file = file


def _read(settings: TableSettings, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    assert isinstance(partition, FilePartition), "Spark hands back what the readers' partitions() gave it"
    return open_table(settings).read(partition.file)


class TableReader(DataSourceReader):
    """Reads a table as it is now."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        table = open_table(self._settings)
        return [FilePartition(file) for file in table.files_of(table.version())]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return _read(self._settings, partition)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a table: first its rows, then appended ones, version by version."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        is_latest = self._settings.starting == "latest"
        return {VERSION: open_table(self._settings).version() if is_latest else NOTHING}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = open_table(self._settings).version()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {VERSION: open_table(self._settings).version() if self._target is None else self._target}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = int(start[VERSION]), int(end[VERSION])
        table = open_table(self._settings)
        if first == last or last == NOTHING:
            return []
        files = table.files_of(last) if first == NOTHING else table.files_between(first, last)
        return [FilePartition(file) for file in files]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return _read(self._settings, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Only the checkpoint has the position in the table."""


class TableSource(DataSource):
    """Registered by the pipeline that uses it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    @property
    def _settings(self) -> TableSettings:
        return TableSettings.from_json(self.options[SETTINGS])

    def schema(self) -> StructType:
        return from_arrow_schema(open_table(self._settings).schema())

    def reader(self, schema: StructType) -> TableReader:
        return TableReader(self._settings)

    def streamReader(self, schema: StructType) -> TableStreamReader:
        return TableStreamReader(self._settings)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        return TableWriter(self._settings, self.options.get(REPLACES) == "true")
