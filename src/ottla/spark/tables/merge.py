"""Changes of a stream applied to a Delta or Iceberg table: a data source of Spark, named `ottla-changes`, which
pipelines write to inside of `foreachBatch`.

Each task has all changes of its keys. It reads the rows and tombstones of those keys, plans what has to be done
(`change_plan`) and writes that to a file beside the table. The commit first appends new tombstones to a table of their
own, then changes the table, in one commit that names the batch. A driver that is killed between the two does both
again: tombstones that come twice say nothing new.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.faults import fault_point
from ottla.spark.stream_writer import BATCH_ID, QUERY_ID
from ottla.spark.tables.change_plan import DELETED, OPERATION, ORDER, PUT, SEQUENCE, ChangeRules, Plan, plan_changes
from ottla.spark.tables.data_files import DataFile, in_columns
from ottla.spark.tables.matching import bounds_of, joined_bounds
from ottla.spark.tables.table import (
    NOTHING,
    BatchOfQuery,
    NoTable,
    Table,
    TableSettings,
    check_table,
    open_table,
    prepare_table,
    write_batch,
)

NAME = "ottla-changes"
MERGE = "merge"
BATCH = "batch-"
"""The beginning of the name of a staged file; the number of its batch follows."""
TOMBSTONES = "__tombstones"
REMEMBERED_AT = "__AT"
PURGE_EVERY = 100
"""After how many batches tombstones that are old enough are removed."""
_CHANGE_COLUMNS = (SEQUENCE, DELETED, ORDER)


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """A table, and how changes are applied to it."""

    table: TableSettings
    rules: ChangeRules
    replaces: bool = False
    """Whether what the changes make of an empty table takes the place of all rows and tombstones."""

    @property
    def tombstones(self) -> TableSettings:
        place = self.table.place.rstrip("/") + TOMBSTONES
        return replace(self.table, place=place, partition_by=(), evolves=False)

    def to_json(self) -> str:
        return json.dumps({"table": self.table.to_json(), "rules": self.rules.to_json(), "replaces": self.replaces})

    @classmethod
    def from_json(cls, text: str) -> MergeSettings:
        given = json.loads(text)
        return cls(TableSettings.from_json(given["table"]), ChangeRules.from_json(given["rules"]), given["replaces"])


def prepare_merge(settings: MergeSettings, schema: pyarrow.Schema, *, may_change: bool) -> None:
    """Make the table and that of its tombstones ready for rows of a schema; or only look whether they would be."""
    make = prepare_table if may_change else check_table
    make(settings.table, schema)
    if settings.rules.has_tombstones:
        make(settings.tombstones, _tombstone_schema(settings.rules, schema))


def _tombstone_schema(rules: ChangeRules, schema: pyarrow.Schema) -> pyarrow.Schema:
    assert rules.sequence is not None
    columns = [schema.field(name) for name in (*rules.keys, rules.sequence)]
    return pyarrow.schema([*columns, pyarrow.field(REMEMBERED_AT, pyarrow.int64())])


@dataclass
class TaskChanges(WriterCommitMessage):
    """The plan of a task: files of operations or of rows, and of tombstones."""

    paths: list[str] = field(default_factory=list)
    bounds: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    tombstones: list[DataFile] = field(default_factory=list)
    batch: BatchOfQuery | None = None
    rows: list[DataFile] = field(default_factory=list)
    """Files of the table's new rows, if they take the place of all others."""


def plan_for_table(settings: MergeSettings, changes: pyarrow.Table) -> Plan:
    """The result of changes on a table as it is now."""
    rules, table = settings.rules, open_table(settings.table)
    given = [name for name in changes.column_names if name in _CHANGE_COLUMNS]
    columns = in_columns(changes.drop_columns(given), table.schema())
    for name in given:
        columns = columns.append_column(name, changes.column(name))
    if rules.sequence is None or settings.replaces:
        return plan_changes(rules, columns)
    keys = columns.select(list(rules.keys))
    needed = table.schema().names if rules.is_history else [*rules.keys, rules.sequence]
    stored = table.rows_with(keys, needed)
    tombstones = None
    if rules.has_tombstones:
        tombstones = open_table(settings.tombstones).rows_with(keys, [*rules.keys, rules.sequence])
    return plan_changes(rules, columns, stored, tombstones)


def _stage(table: Table, operations: pyarrow.Table, batch: BatchOfQuery | None) -> str:
    system, folder = table.staging()
    folder = f"{folder}/{'once' if batch is None else batch.query_id}"
    with suppress(NotImplementedError):  # stores of objects have no folders
        system.create_dir(folder)
    number = "" if batch is None else f"{BATCH}{batch.batch_id}-"
    path = f"{folder}/{number}{uuid4()}.parquet"
    with system.open_output_stream(path) as stream:
        pq.write_table(operations, stream)
    return path


def _staged(table: Table, paths: list[str]) -> pyarrow.Table:
    system, _ = table.staging()
    found = []
    for path in paths:
        with system.open_input_file(path) as stream:
            found.append(pq.read_table(stream))
    return pyarrow.concat_tables(found, promote_options="default")


def _drop_staged(table: Table, paths: list[str], batch: BatchOfQuery | None) -> None:
    """Remove the staged files of a batch, and those that dead drivers left for earlier ones. Files of later batches
    stay: this driver may have been taken for dead, and another one may be at work on them."""
    system, _ = table.staging()
    found = set(paths)
    if paths and batch is not None:
        files = system.get_file_info(FileSelector(paths[0].rpartition("/")[0]))
        found |= {file.path for file in files if _is_before(file.base_name, batch.batch_id)}
    for path in found:
        with suppress(FileNotFoundError):
            system.delete_file(path)


def _is_before(name: str, batch_id: int) -> bool:
    """Whether a staged file is of an earlier batch. The version before had no number in its names."""
    number = name.removeprefix(BATCH).partition("-")[0]
    return not name.startswith(BATCH) or int(number) < batch_id


class ChangeWriter(DataSourceArrowWriter):
    """Plans changes in tasks, and applies them when all are done."""

    def __init__(self, settings: MergeSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskChanges:
        batch = _batch_of_task()
        given = [one for one in iterator if one.num_rows]
        table = open_table(self._settings.table)
        if not given or table.has_batch(batch):
            return TaskChanges(batch=batch)
        plan = plan_for_table(self._settings, pyarrow.Table.from_batches(given))
        made = TaskChanges(batch=batch)
        if self._settings.replaces:
            rows = plan.operations.filter(pc.equal(plan.operations.column(OPERATION), PUT)).drop_columns([OPERATION])
            made.rows += table.write_files(iter(rows.to_batches()))
        elif plan.operations.num_rows:
            made.paths.append(_stage(table, plan.operations, batch))
            made.bounds.update(bounds_of(plan.operations, self._settings.rules.match))
        if plan.tombstones.num_rows:
            dead = remembered(plan.tombstones)
            made.tombstones += open_table(self._settings.tombstones).write_files(iter(dead.to_batches()))
        fault_point("merge-task", NOTHING if batch is None else batch.batch_id)
        return made

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        apply_planned(self._settings, [one for one in messages if isinstance(one, TaskChanges)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Files stay where they are: the next batch that is committed removes them."""


def remembered(tombstones: pyarrow.Table) -> pyarrow.Table:
    """Tombstones with the time at which they are noted, in milliseconds."""
    now = pyarrow.scalar(int(time.time() * 1000), pyarrow.int64())
    return tombstones.append_column(REMEMBERED_AT, pyarrow.repeat(now, tombstones.num_rows))


def _batch_of_task() -> BatchOfQuery | None:
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(QUERY_ID)
    number = None if context is None else context.getLocalProperty(BATCH_ID)
    return None if query_id is None or number is None else BatchOfQuery(query_id, int(number))


def apply_planned(settings: MergeSettings, tasks: list[TaskChanges]) -> None:
    """Apply what the tasks of a batch have planned, unless the batch is in the table already."""
    table = open_table(settings.table)
    batch = next((task.batch for task in tasks if task.batch is not None), None)
    number = NOTHING if batch is None else batch.batch_id
    paths = [path for task in tasks for path in task.paths]
    remembered = [file for task in tasks for file in task.tombstones]
    if settings.replaces:
        _replace_rows(settings, table, [file for task in tasks for file in task.rows], remembered, batch)
    elif not table.has_batch(batch):
        if remembered:
            write_batch(open_table(settings.tombstones), remembered, batch)
            fault_point("merge-tombstones", number)
        if paths:
            bounds = joined_bounds(task.bounds for task in tasks if task.paths)
            fault_point("merge-undecided", number)
            table.change(_staged(table, paths), settings.rules.match, bounds, batch)
            fault_point("merge-committed", number)
    elif remembered:
        open_table(settings.tombstones).drop_files(remembered)
    _drop_staged(table, paths, batch)
    if settings.rules.has_tombstones and batch is not None and batch.batch_id % PURGE_EVERY == PURGE_EVERY - 1:
        purge(settings)


def _replace_rows(
    settings: MergeSettings, table: Table, rows: list[DataFile], dead: list[DataFile], batch: BatchOfQuery | None
) -> None:
    number = NOTHING if batch is None else batch.batch_id
    if settings.rules.has_tombstones and not table.has_batch(batch):
        write_batch(open_table(settings.tombstones), dead, batch, replaces=True)
        fault_point("merge-tombstones", number)
    write_batch(table, rows, batch, replaces=True)
    fault_point("merge-committed", number)


def purge(settings: MergeSettings) -> None:
    """Remove tombstones that are old enough."""
    with suppress(NoTable):
        tombstones = open_table(settings.tombstones)
        tombstones.remove_below(REMEMBERED_AT, int((time.time() - settings.rules.retention_s) * 1000))
        open_table(settings.tombstones).compact()


class ChangeSink(DataSource):
    """Registered by the pipeline that uses it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> ChangeWriter:
        return ChangeWriter(MergeSettings.from_json(self.options[MERGE]))
