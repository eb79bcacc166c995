"""Delta tables by delta-rs. A batch is a `txn` action of the commit: the application is the query, the version the
batch, as Delta's own sink for Spark writes it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import field
from pyarrow.fs import FileSystem, PyFileSystem

from ottla.spark.tables.change_plan import OPERATION, PUT, REMOVE
from ottla.spark.tables.data_files import (
    DataFile,
    chunks,
    in_columns,
    partition_folder,
    partition_text,
    partitions,
    write_file,
)
from ottla.spark.tables.matching import Bounds, bounds_of, bounds_sql, with_keys
from ottla.spark.tables.table import (
    BatchOfQuery,
    Compacted,
    FileToRead,
    NoTable,
    Table,
    TableError,
    TableSettings,
    check_storable,
)

try:
    from deltalake import CommitProperties, DeltaTable, Field, Transaction
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler
    from deltalake.schema import Schema
    from deltalake.transaction import AddAction
except ModuleNotFoundError as error:
    raise TableError("Delta tables need delta-rs: pip install 'ottla[delta]'") from error

LOG = "_delta_log"
STAGING = "_ottla_staging"
"""Readers and vacuum ignore it, like every name that begins with an underscore."""
COMMIT_ATTEMPTS = 5
UNREADABLE = ("deletionVectors", "columnMapping", "v2Checkpoint")


class DeltaFiles(Table):
    """A Delta table."""

    def __init__(self, settings: TableSettings, table: DeltaTable) -> None:
        self.settings = settings
        self._table = table
        self._cached_schema: pyarrow.Schema | None = None

    @classmethod
    def open(cls, settings: TableSettings) -> DeltaFiles:
        try:
            return cls(settings, DeltaTable(settings.place, storage_options=dict(settings.options)))
        except TableNotFoundError:
            raise NoTable(f"there is no Delta table in {settings.place}") from None

    @classmethod
    def make(cls, settings: TableSettings, schema: pyarrow.Schema) -> DeltaFiles:
        try:
            return cls.open(settings)
        except NoTable:
            check_storable(settings.kind, schema)
            made = DeltaTable.create(
                settings.place,
                Schema.from_arrow(_as_delta_has(schema)),
                mode="ignore",
                partition_by=list(settings.partition_by) or None,
                storage_options=dict(settings.options),
            )
            return cls(settings, made)

    def schema(self) -> pyarrow.Schema:
        if self._cached_schema is None:
            self._cached_schema = pyarrow.schema(self._table.schema().to_arrow())
        return self._cached_schema

    def partition_columns(self) -> list[str]:
        return list(self._table.metadata().partition_columns)

    def add_columns(self, fields: list[pyarrow.Field]) -> None:
        schema = Schema.from_arrow(_as_delta_has(pyarrow.schema(fields)))
        self._table.alter.add_columns([Field(one.name, one.type, nullable=True) for one in schema.fields])
        self._cached_schema = None

    def _files(self) -> FileSystem:
        return PyFileSystem(DeltaStorageHandler(self._table.table_uri, dict(self.settings.options)))

    # Writing

    def write_files(self, batches: Iterator[pyarrow.RecordBatch]) -> list[DataFile]:
        names = self.partition_columns()
        stored = [one.name for one in self.schema() if one.name not in names]
        return [
            write_file(self._files(), partition_folder(values), mine.select(stored), values)
            for rows in chunks(batches, self.schema())
            for values, mine in partitions(rows, names)
        ]

    def drop_files(self, files: list[DataFile]) -> None:
        system = self._files()
        for file in files:
            system.delete_file(file.path)

    def last_batch(self, query_id: str) -> int | None:
        return self._table.transaction_version(query_id)

    def commit(self, files: list[DataFile], batch: BatchOfQuery | None) -> None:
        self._write(files, "append", batch)

    def replace(self, files: list[DataFile], batch: BatchOfQuery | None) -> None:
        self._write(files, "overwrite", batch)

    def _write(self, files: list[DataFile], mode: Literal["append", "overwrite"], batch: BatchOfQuery | None) -> None:
        now = int(time.time() * 1000)
        self._table.create_write_transaction(
            [AddAction(file.path, file.size, file.values, now, True, file.statistics) for file in files],
            mode,
            self._table.schema(),
            self.partition_columns() or None,
            commit_properties=_properties(batch),
        )

    # Changing rows

    def rows_with(self, keys: pyarrow.Table, columns: list[str]) -> pyarrow.Table:
        self._check_readable()
        where = None
        for name, (least, greatest) in bounds_of(keys, keys.column_names).items():
            is_near = (field(name) >= least) & (field(name) <= greatest)
            where = is_near if where is None else where & is_near
        read = [*columns, *(name for name in keys.column_names if name not in columns)]
        scanner = self._table.to_pyarrow_dataset(schema=self.schema()).scanner(columns=read, filter=where)
        kept = (with_keys(pyarrow.Table.from_batches([one]), keys, keys.column_names) for one in scanner.to_batches())
        empty = pyarrow.schema([self.schema().field(name) for name in read]).empty_table()
        return pyarrow.concat_tables([empty, *(one for one in kept if one.num_rows)]).select(columns)

    def staging(self) -> tuple[FileSystem, str]:
        return self._files(), STAGING

    def change(
        self, operations: pyarrow.Table, match: tuple[str, ...], bounds: Bounds, batch: BatchOfQuery | None
    ) -> None:
        failure: Exception | None = None
        for _ in range(COMMIT_ATTEMPTS):
            try:
                self._merge(operations, match, bounds, batch)
                return
            except CommitFailedError as error:
                failure = error
            self._table.update_incremental()
            if self.has_batch(batch):
                return
        raise TableError(
            f"the Delta table {self.settings.place} was changed by others {COMMIT_ATTEMPTS} times while a batch was to "
            f"be committed: {failure}"
        )

    def _merge(
        self, operations: pyarrow.Table, match: tuple[str, ...], bounds: Bounds, batch: BatchOfQuery | None
    ) -> None:
        is_same = [f"old.`{name}` = new.`{name}`" for name in match]
        values = {f"`{name}`": f"new.`{name}`" for name in operations.column_names if name != OPERATION}
        merger = self._table.merge(
            operations,
            " and ".join([*is_same, *bounds_sql(bounds, "old")]),
            source_alias="new",
            target_alias="old",
            commit_properties=_properties(batch),
        )
        merger = merger.when_matched_delete(f"new.`{OPERATION}` = '{REMOVE}'")
        merger = merger.when_matched_update(values, f"new.`{OPERATION}` = '{PUT}'")
        merger.when_not_matched_insert(values, f"new.`{OPERATION}` = '{PUT}'").execute()

    def remove_below(self, column: str, value: int) -> None:
        self._table.delete(f"`{column}` < {value}")

    def compact(self) -> Compacted:
        metrics = self._table.optimize.compact()
        return Compacted(int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"]))

    # Reading

    def version(self) -> int:
        return int(self._table.version())

    def files_of(self, version: int) -> list[FileToRead]:
        self._check_readable()
        self._table.load_as_version(version)
        actions = pyarrow.table(self._table.get_add_actions(flatten=False)).to_pylist()
        return [
            FileToRead(unquote(one["path"]), _partition_values(one.get("partition_values") or one.get("partition")))
            for one in actions
        ]

    def _check_readable(self) -> None:
        features = self._table.protocol().reader_features or []
        found = [name for name in UNREADABLE if name in features]
        if found:
            raise TableError(
                f"the Delta table {self.settings.place} uses {', '.join(found)}, which cannot be read here"
            )

    def files_between(self, after: int, until: int) -> list[FileToRead]:
        self._check_readable()
        return [file for version in range(after + 1, until + 1) for file in self._appended(version)]

    def _appended(self, version: int) -> Iterator[FileToRead]:
        """The files that one commit appended. Those of a compaction have no new rows (`dataChange` is false)."""
        path = f"{LOG}/{version:020d}.json"
        try:
            with self._files().open_input_stream(path) as stream:
                lines = stream.read().decode().splitlines()
        except FileNotFoundError:
            raise TableError(
                f"version {version} of the Delta table {self.settings.place} is no longer in its log: rows may be "
                "missing. Begin anew with an empty --state, and keep the log for longer (delta.logRetentionDuration)"
            ) from None
        for action in map(json.loads, filter(None, lines)):
            if action.get("remove", {}).get("dataChange"):
                raise TableError(
                    f"version {version} of the Delta table {self.settings.place} changes or removes rows: only tables "
                    "that are appended to can be followed"
                )
            added = action.get("add")
            if added is not None and added.get("dataChange"):
                yield FileToRead(unquote(added["path"]), added.get("partitionValues") or {})

    def read(self, file: FileToRead) -> Iterator[pyarrow.RecordBatch]:
        schema = self.schema()
        with self._files().open_input_file(file.path) as opened:
            for batch in pq.ParquetFile(opened).iter_batches():
                rows = pyarrow.Table.from_batches([batch])
                for name, text in file.values.items():
                    column = _column(text, schema.field(name).type, batch.num_rows)
                    rows = rows.append_column(name, column)
                yield from in_columns(rows, schema).to_batches()


def _properties(batch: BatchOfQuery | None) -> CommitProperties | None:
    if batch is None:
        return None
    done = Transaction(batch.query_id, batch.batch_id, int(time.time() * 1000))
    return CommitProperties(app_transactions=[done])


def _column(text: str | None, kind: Any, count: int) -> Any:
    """A partition's value, in the log's text form, for each row of a file. Moments are in UTC, with or without a Z."""
    given = pyarrow.array([text] * count, pyarrow.string())
    if not pyarrow.types.is_timestamp(kind) or kind.tz is None:
        return given.cast(kind)
    has_zone = text is not None and text.endswith("Z")
    return given.cast(kind) if has_zone else pc.assume_timezone(given.cast(pyarrow.timestamp(kind.unit)), "UTC")


def _partition_values(given: Any) -> Mapping[str, str | None]:
    """Values of partition columns as text, as the log has them."""
    pairs = given.items() if isinstance(given, dict) else given or ()
    return {str(name): partition_text(value) for name, value in pairs}


def _as_delta_has(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Every column of a stream's table may be null: what comes later may lack it."""
    return pyarrow.schema([one.with_nullable(True) for one in schema])
