"""Iceberg tables by pyiceberg. A batch is named in the summary of its snapshot and, for as long as the table lives, in
a property of the table that the same commit sets: snapshots expire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date
from typing import Any
from urllib.parse import urlsplit
from warnings import catch_warnings, simplefilter

import pyarrow
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from ottla.spark.tables.change_plan import OPERATION, PUT
from ottla.spark.tables.data_files import DataFile, chunks, in_columns, partitions, write_file
from ottla.spark.tables.matching import Bounds, bounds_of, positions, with_keys
from ottla.spark.tables.table import (
    NOTHING,
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
    from pyiceberg import expressions
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NoSuchTableError,
        TableAlreadyExistsError,
    )
    from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
    from pyiceberg.io.pyarrow import (
        ArrowScan,
        PyArrowFileIO,
        _dataframe_to_data_files,
        parquet_files_to_data_files,
    )
    from pyiceberg.manifest import DataFile as FileOfTable
    from pyiceberg.table import Table as PyIcebergTable
    from pyiceberg.table import TableProperties, Transaction
    from pyiceberg.table.snapshots import Operation
except ModuleNotFoundError as error:
    raise TableError("Iceberg tables need pyiceberg: pip install 'ottla[iceberg]'") from error

BATCH_PROPERTY = "ottla.batch."
QUERY_SUMMARY, BATCH_SUMMARY = "ottla.query-id", "ottla.batch-id"
STAGING = "ottla-staging"
TARGET_FILE_SIZE = 128 * 1024 * 1024
COMMIT_ATTEMPTS = 5
RETRIES = "commit.retry.num-retries"
_MADE: Any = expressions  # the hints of its conditions do not have the arguments that they take


class IcebergFiles(Table):
    """An Iceberg table of a catalog."""

    def __init__(self, settings: TableSettings, table: PyIcebergTable) -> None:
        self.settings = settings
        self._table = table

    @classmethod
    def open(cls, settings: TableSettings) -> IcebergFiles:
        try:
            return cls(settings, _catalog(settings).load_table(settings.place))
        except NoSuchTableError:
            raise NoTable(f"there is no Iceberg table {settings.place} in the catalog") from None

    @classmethod
    def make(cls, settings: TableSettings, schema: pyarrow.Schema) -> IcebergFiles:
        namespace = settings.place.rpartition(".")[0]
        if not namespace:
            raise TableError(f"an Iceberg table is named NAMESPACE.TABLE, and this one is {settings.place!r}")
        catalog = _catalog(settings)
        if catalog.table_exists(settings.place):
            return cls.open(settings)
        check_storable(settings.kind, schema)
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
        given = pyarrow.schema([field.with_nullable(True) for field in schema])
        with (
            suppress(TableAlreadyExistsError),
            catalog.create_table_transaction(settings.place, given) as making,
            making.update_spec() as spec,
        ):
            for name in settings.partition_by:
                spec.add_identity(name)
        return cls.open(settings)

    def schema(self) -> pyarrow.Schema:
        return _plain_text(self._table.schema().as_arrow())

    def partition_columns(self) -> list[str]:
        spec, schema = self._table.spec(), self._table.schema()
        others = [field for field in spec.fields if str(field.transform) != "identity"]
        if others:
            raise TableError(
                f"the Iceberg table {self.settings.place} is partitioned by {others[0].transform} of a column: only "
                "tables that are partitioned by columns themselves can be written here"
            )
        return [str(schema.find_column_name(field.source_id)) for field in spec.fields]

    def add_columns(self, fields: list[pyarrow.Field]) -> None:
        from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

        schema = _pyarrow_to_schema_without_ids(pyarrow.schema([field.with_nullable(True) for field in fields]))
        with self._table.update_schema() as update:
            update.union_by_name(schema)
        self._table.refresh()

    # Writing

    def _folder(self, name: str = "data") -> tuple[FileSystem, str]:
        """A folder of the table, in the file system that the catalog's properties reach (`s3.endpoint`, ...)."""
        place = f"{self._table.location()}/{name}"
        scheme, host, path = PyArrowFileIO.parse_location(place, self._table.io.properties)
        files = PyArrowFileIO(self._table.io.properties)
        return files.fs_by_scheme(scheme, host), path

    def write_files(self, batches: Iterator[pyarrow.RecordBatch]) -> list[DataFile]:
        system, folder = self._folder()
        system.create_dir(folder)
        names = self.partition_columns()
        return [
            write_file(system, folder, mine, values)
            for rows in chunks(batches, self.schema())
            for values, mine in partitions(rows, names)
        ]

    def drop_files(self, files: list[DataFile]) -> None:
        system, _ = self._folder()
        for file in files:
            system.delete_file(file.path)

    def last_batch(self, query_id: str) -> int | None:
        found = self._table.properties.get(BATCH_PROPERTY + query_id)
        return None if found is None else int(found)

    def commit(self, files: list[DataFile], batch: BatchOfQuery | None) -> None:
        paths = [self._address(file.path) for file in files]

        def write(transaction: Transaction, summary: dict[str, str]) -> None:
            transaction.add_files(paths, snapshot_properties=summary, check_duplicate_files=False)

        if not self._in_one_commit(batch, write):
            self.drop_files(files)

    def replace(self, files: list[DataFile], batch: BatchOfQuery | None) -> None:
        paths = [self._address(file.path) for file in files]

        def write(transaction: Transaction, summary: dict[str, str]) -> None:
            present = [task.file for task in self._table.scan().plan_files()]
            if transaction.table_metadata.name_mapping() is None:
                names = transaction.table_metadata.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})
            added = parquet_files_to_data_files(self._table.io, transaction.table_metadata, iter(paths))
            _overwrite(transaction, summary, present, added)

        if not self._in_one_commit(batch, write):
            self.drop_files(files)

    def _in_one_commit(self, batch: BatchOfQuery | None, write: Callable[[Transaction, dict[str, str]], None]) -> bool:
        """Commits one snapshot that names its batch; False if the batch was committed before. If another commit was
        faster, the next try checks again for the batch; pyiceberg's own retry would not check."""
        for _ in range(COMMIT_ATTEMPTS):
            self._table.metadata.properties[RETRIES] = "0"
            summary: dict[str, str] = {}
            try:
                with self._table.transaction() as transaction:
                    if batch is not None:
                        summary = {QUERY_SUMMARY: batch.query_id, BATCH_SUMMARY: str(batch.batch_id)}
                        transaction.set_properties({BATCH_PROPERTY + batch.query_id: str(batch.batch_id)})
                    write(transaction, summary)
                return True
            except CommitFailedException as error:
                failure = error
            self._table.refresh()
            if self.has_batch(batch):
                return False
        raise TableError(
            f"the Iceberg table {self.settings.place} was changed by others {COMMIT_ATTEMPTS} times while a batch was "
            f"to be committed: {failure}"
        )

    # Changing rows

    def rows_with(self, keys: pyarrow.Table, columns: list[str]) -> pyarrow.Table:
        read = [*columns, *(name for name in keys.column_names if name not in columns)]
        schema = self.schema()
        empty = pyarrow.schema([schema.field(name) for name in read]).empty_table()
        scan = self._table.scan(_near(bounds_of(keys, keys.column_names)), selected_fields=tuple(read))
        found = [empty]
        for batch in scan.to_arrow_batch_reader():
            rows = pyarrow.Table.from_batches([batch]).select(read).cast(empty.schema)
            found.append(with_keys(rows, keys, keys.column_names))
        return pyarrow.concat_tables(found).select(columns)

    def staging(self) -> tuple[FileSystem, str]:
        system, folder = self._folder(STAGING)
        return system, str(folder)

    def change(
        self, operations: pyarrow.Table, match: tuple[str, ...], bounds: Bounds, batch: BatchOfQuery | None
    ) -> None:
        puts = operations.filter(pc.equal(operations.column(OPERATION), PUT)).drop_columns([OPERATION])

        def write(transaction: Transaction, summary: dict[str, str]) -> None:
            removed, added = self._rewritten(operations, match, bounds)
            if puts.num_rows:
                added += self._written(puts)
            _overwrite(transaction, summary, removed, added)

        self._in_one_commit(batch, write)

    def _rewritten(
        self, operations: pyarrow.Table, match: tuple[str, ...], bounds: Bounds
    ) -> tuple[list[FileOfTable], list[FileOfTable]]:
        """The files that hold rows to be replaced, and files with their other rows. One is in memory at a time."""
        removed: list[FileOfTable] = []
        added: list[FileOfTable] = []
        keys = self._table.schema().select(*match)
        for task in self._table.scan(_near(bounds)).plan_files():
            given = ArrowScan(self._table.metadata, self._table.io, keys, AlwaysTrue()).to_table([task])
            if not len(positions(_as_plain(given), operations, match)):
                continue
            removed.append(task.file)
            kept = with_keys(_as_plain(self._scan().to_table([task])), operations, match, are_in=False)
            if kept.num_rows:
                added += self._written(kept)
        return removed, added

    def _written(self, rows: pyarrow.Table) -> list[FileOfTable]:
        rows = in_columns(rows, self.schema())
        return list(_dataframe_to_data_files(self._table.metadata, rows, self._table.io))

    def remove_below(self, column: str, value: int) -> None:
        with catch_warnings():
            simplefilter("ignore")  # that the row does not exist
            self._table.delete(_MADE.LessThan(column, value))

    def _address(self, path: str) -> str:
        """The path of a file with the scheme of its table."""
        scheme = urlsplit(self._table.location()).scheme
        return f"{scheme}://{path}" if scheme else path

    def compact(self) -> Compacted:
        added_count = removed_count = 0
        for tasks in self._small_files():
            with self._table.transaction() as transaction:
                rows = self._scan().to_table(tasks)
                with transaction.update_snapshot().overwrite() as overwrite:
                    for task in tasks:
                        overwrite.delete_data_file(task.file)
                    for file in _dataframe_to_data_files(self._table.metadata, rows, self._table.io):
                        overwrite.append_data_file(file)
                        added_count += 1
            removed_count += len(tasks)
        return Compacted(removed_count, added_count)

    def _small_files(self) -> list[list[Any]]:
        """Small files of one partition, as many as make a large one: so much is in memory at a time."""
        bins: list[list[Any]] = []
        open_bins: dict[str, list[Any]] = {}
        sizes: dict[str, int] = {}
        for task in self._table.scan().plan_files():
            size, partition = task.file.file_size_in_bytes, str(task.file.partition)
            if size >= TARGET_FILE_SIZE // 2 or task.delete_files:
                continue
            if partition not in open_bins or sizes[partition] + size > TARGET_FILE_SIZE:
                open_bins[partition], sizes[partition] = [], 0
                bins.append(open_bins[partition])
            open_bins[partition].append(task)
            sizes[partition] += size
        return [tasks for tasks in bins if len(tasks) > 1]

    # Reading

    def version(self) -> int:
        snapshot = self._table.current_snapshot()
        return NOTHING if snapshot is None else snapshot.snapshot_id

    def files_of(self, version: int) -> list[FileToRead]:
        if version == NOTHING:
            return []
        return [FileToRead(task.file.file_path, version=version) for task in self._tasks(version)]

    def _tasks(self, version: int) -> Iterator[Any]:
        return iter(self._table.scan(snapshot_id=version).plan_files())

    def files_between(self, after: int, until: int) -> list[FileToRead]:
        if until in (after, NOTHING):
            return []
        self._check_only_appended(after, until)
        return [FileToRead(task.file.file_path, {"after": str(after)}, until) for task in self._between(after, until)]

    def _between(self, after: int, until: int) -> Iterator[Any]:
        scan = self._table.incremental_append_scan().to_snapshot_id_inclusive(until)
        if after != NOTHING:
            scan = scan.from_snapshot_id_exclusive(after)
        try:
            return iter(scan.plan_files())
        except ValueError as error:
            raise TableError(
                f"the snapshots of the Iceberg table {self.settings.place} since {after} are no longer there: rows may "
                f"be missing ({error}). Begin anew with an empty --state, and keep snapshots for longer"
            ) from None

    def _check_only_appended(self, after: int, until: int) -> None:
        one: int | None = until
        while one is not None and one != after:
            snapshot = self._table.snapshot_by_id(one)
            if snapshot is None:
                return
            summary = snapshot.summary
            if summary is not None and summary.operation not in (Operation.APPEND, Operation.REPLACE):
                rows = [int(summary.additional_properties.get(f"{name}-records", "0")) for name in ("added", "deleted")]
                if rows[0] != rows[1]:  # a compaction writes as many rows as it removes
                    raise TableError(
                        f"the snapshot {one} of the Iceberg table {self.settings.place} changes or removes rows: only "
                        "tables that are appended to can be followed"
                    )
            one = snapshot.parent_snapshot_id

    def read(self, file: FileToRead) -> Iterator[pyarrow.RecordBatch]:
        after = file.values.get("after")
        tasks = self._tasks(file.version) if after is None else self._between(int(after), file.version)
        mine = [task for task in tasks if task.file.file_path == file.path]
        schema = self.schema()
        for batch in self._scan().to_record_batches(mine):
            yield from pyarrow.Table.from_batches([batch]).cast(schema).to_batches()

    def _scan(self) -> ArrowScan:
        return ArrowScan(self._table.metadata, self._table.io, self._table.schema(), AlwaysTrue())


def _overwrite(
    transaction: Transaction, summary: dict[str, str], removed: Iterable[FileOfTable], added: Iterable[FileOfTable]
) -> None:
    with transaction.update_snapshot(snapshot_properties=summary).overwrite() as overwrite:
        for file in removed:
            overwrite.delete_data_file(file)
        for file in added:
            overwrite.append_data_file(file)


def _near(bounds: Bounds) -> BooleanExpression:
    """The condition that rows within the bounds fulfil."""
    where: BooleanExpression = AlwaysTrue()
    for name, (least, greatest) in bounds.items():
        texts = [str(value) if isinstance(value, date) else value for value in (least, greatest)]
        where = And(where, _MADE.GreaterThanOrEqual(name, texts[0]), _MADE.LessThanOrEqual(name, texts[1]))
    return where


def _as_plain(rows: pyarrow.Table) -> pyarrow.Table:
    return rows.cast(_plain_text(rows.schema))


def _plain_text(schema: pyarrow.Schema) -> pyarrow.Schema:
    """pyiceberg's text and bytes are large ones, with the ids of fields as metadata; files and Spark have plain
    ones."""
    return pyarrow.schema([pyarrow.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(kind: Any) -> Any:
    types = pyarrow.types
    if types.is_large_string(kind):
        return pyarrow.string()
    if types.is_large_binary(kind):
        return pyarrow.binary()
    if types.is_struct(kind):
        return pyarrow.struct([pyarrow.field(field.name, _plain_type(field.type)) for field in kind])
    if types.is_large_list(kind) or types.is_list(kind):
        return pyarrow.list_(_plain_type(kind.value_type))
    if types.is_map(kind):
        return pyarrow.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    return kind


def _catalog(settings: TableSettings) -> Catalog:
    try:
        return load_catalog(**{"name": "default", **settings.catalog})
    except Exception as error:
        raise TableError(f"the Iceberg catalog cannot be used: {error}") from None
