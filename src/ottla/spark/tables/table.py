"""Common to Delta and Iceberg tables in Spark: files that tasks write, one commit for a batch, files that tasks
read."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow
from pyarrow.fs import FileSystem

from ottla.spark.tables.data_files import DataFile
from ottla.spark.tables.matching import Bounds

DELTA, ICEBERG = "delta", "iceberg"
NOTHING = -1
"""The version of a table without a commit, for a stream that begins there."""


class TableError(Exception):
    """A table that cannot be read or written, and why, in words for the author of the pipeline."""


class NoTable(TableError):
    """The table does not exist."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Where a table is, and how it is written."""

    kind: str
    place: str
    """The folder or address of a Delta table, the name of an Iceberg table."""
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partition_by: tuple[str, ...] = ()
    evolves: bool = False
    starting: str = "earliest"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TableSettings:
        given: dict[str, Any] = json.loads(text)
        return cls(**{**given, "partition_by": tuple(given["partition_by"])})


@dataclass(frozen=True, slots=True)
class BatchOfQuery:
    """Which batch of which query a commit is."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file of a table for a task: its path, and what the table's log says about it."""

    path: str
    values: Mapping[str, str | None] = field(default_factory=dict)
    version: int = NOTHING


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many small files became how many large ones."""

    removed_count: int
    added_count: int


class Table(ABC):
    """A table that is there."""

    settings: TableSettings

    @abstractmethod
    def schema(self) -> pyarrow.Schema: ...

    # Writing

    @abstractmethod
    def add_columns(self, fields: list[pyarrow.Field]) -> None: ...

    @abstractmethod
    def partition_columns(self) -> list[str]: ...

    @abstractmethod
    def write_files(self, batches: Iterator[pyarrow.RecordBatch]) -> list[DataFile]:
        """Write rows to new files that are not yet of the table."""

    @abstractmethod
    def drop_files(self, files: list[DataFile]) -> None:
        """Remove files that will not be of the table."""

    @abstractmethod
    def last_batch(self, query_id: str) -> int | None:
        """The last batch of a query that is in the table."""

    def has_batch(self, batch: BatchOfQuery | None) -> bool:
        """Whether a batch is in the table. Always False for rows that belong to no batch of a query."""
        done = None if batch is None else self.last_batch(batch.query_id)
        return batch is not None and done is not None and done >= batch.batch_id

    @abstractmethod
    def commit(self, files: list[DataFile], batch: BatchOfQuery | None) -> None:
        """Make files part of the table, in one step."""

    # Changing rows

    @abstractmethod
    def rows_with(self, keys: pyarrow.Table, columns: list[str]) -> pyarrow.Table:
        """Some columns of the rows whose keys are in a table."""

    @abstractmethod
    def replace(self, files: list[DataFile], batch: BatchOfQuery | None) -> None:
        """Make files the whole content of the table, in one step."""

    @abstractmethod
    def staging(self) -> tuple[FileSystem, str]:
        """A folder for files that are never of the table."""

    @abstractmethod
    def change(
        self, operations: pyarrow.Table, match: tuple[str, ...], bounds: Bounds, batch: BatchOfQuery | None
    ) -> None:
        """Put and remove rows, in one step. Rows of `operations` (see `change_plan`) have the table's columns; those
        of the table with the same values in the columns `match` are replaced."""

    @abstractmethod
    def remove_below(self, column: str, value: int) -> None:
        """Remove the rows whose column is less than a value."""

    @abstractmethod
    def compact(self) -> Compacted:
        """Merge small files into large ones. Rows stay as they are; streams that follow the table do not notice."""

    # Reading

    @abstractmethod
    def version(self) -> int:
        """The present version; NOTHING for a table without any."""

    @abstractmethod
    def files_of(self, version: int) -> list[FileToRead]:
        """The files of a version."""

    @abstractmethod
    def files_between(self, after: int, until: int) -> list[FileToRead]:
        """The files that were appended after a version until another. TableError: rows were changed or removed."""

    @abstractmethod
    def read(self, file: FileToRead) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a file in the columns of the table."""


def open_table(settings: TableSettings) -> Table:
    """An existing table; TableError if it does not exist."""
    if settings.kind == DELTA:
        from ottla.spark.tables.delta import DeltaFiles

        return DeltaFiles.open(settings)
    from ottla.spark.tables.iceberg import IcebergFiles

    return IcebergFiles.open(settings)


def prepare_table(settings: TableSettings, schema: pyarrow.Schema) -> Table:
    """The table that rows of a schema are to be written to: made where there is none, with new columns where that is
    allowed. TableError: the rows do not fit."""
    if settings.kind == DELTA:
        from ottla.spark.tables.delta import DeltaFiles

        table: Table = DeltaFiles.make(settings, schema)
    else:
        from ottla.spark.tables.iceberg import IcebergFiles

        table = IcebergFiles.make(settings, schema)
    new = check_rows(table, schema)
    if new:
        table.add_columns(new)
    return table


def check_table(settings: TableSettings, schema: pyarrow.Schema) -> None:
    """Whether rows would fit a table, if it is there."""
    try:
        table = open_table(settings)
    except NoTable:
        check_storable(settings.kind, schema)
        return
    check_rows(table, schema)


def check_rows(table: Table, schema: pyarrow.Schema) -> list[pyarrow.Field]:
    """The columns that a table would have to get for rows of a schema. TableError: the rows do not fit."""
    settings = table.settings
    wanted = list(settings.partition_by)
    if wanted and wanted != table.partition_columns():
        there = ", ".join(table.partition_columns()) or "no column"
        raise TableError(f"the table {settings.place} is partitioned by {there}, not by {', '.join(wanted)}")
    known = {field.name: field.type for field in table.schema()}
    new = [field for field in schema if field.name not in known]
    if new and not settings.evolves:
        raise TableError(
            f"the table {settings.place} has no column {', '.join(field.name for field in new)} (it has "
            f"{', '.join(known)}): leave it out of the view, or let the table grow with 'evolve: true'"
        )
    check_storable(settings.kind, new)
    for one in schema:
        if one.name in known and not _fits(one.type, known[one.name]):
            raise TableError(
                f"the column {one.name} is {one.type}, and {known[one.name]} in the table {settings.place}: cast it"
            )
    return new


def check_storable(kind: str, columns: Iterable[pyarrow.Field]) -> None:
    """TableError: a new column would be of a type that tables of a kind do not have, at any depth."""
    for column in columns:
        wrong = next((one for one in _leaves(column.type) if _is_unstorable(kind, one)), None)
        if wrong is not None:
            what = "of no type (it is always null)" if pyarrow.types.is_null(wrong) else f"of the type {wrong}"
            example = "cast(null as string)" if pyarrow.types.is_null(wrong) else f"cast({column.name} as string)"
            table = "a Delta table" if kind == DELTA else "an Iceberg table"
            raise TableError(f"the column {column.name} is {what}, which {table} does not have: {example} in the view")


def _is_unstorable(kind: str, one: Any) -> bool:
    types = pyarrow.types
    own = types.is_time(one) if kind == DELTA else types.is_null(one)
    return bool(own or types.is_duration(one) or types.is_interval(one))


def _leaves(kind: Any) -> Iterator[Any]:
    """The types that a type consists of."""
    if kind.num_fields == 0:
        yield kind
    for index in range(kind.num_fields):
        yield from _leaves(kind.field(index).type)


def _fits(given: Any, wanted: Any) -> bool:
    """Whether values of a type can be stored as another without loss."""
    if given == wanted or (pyarrow.types.is_timestamp(given) and pyarrow.types.is_timestamp(wanted)):
        return given == wanted or bool(given.tz) == bool(wanted.tz)
    if pyarrow.types.is_nested(given) or pyarrow.types.is_nested(wanted):
        return _plain(given) == _plain(wanted)
    if pyarrow.types.is_integer(given) and pyarrow.types.is_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    if pyarrow.types.is_floating(given) and pyarrow.types.is_floating(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    return _plain(given) == _plain(wanted)


def _plain(kind: Any) -> str:
    """A type without what differs between writers: whether text is large, how elements of a list are named."""
    text = str(kind).replace("large_", "").replace(" not null", "")
    for name in ("element: ", "item: ", "key: ", "value: ", "key_value: "):
        text = text.replace(name, "")
    return text


def write_batch(table: Table, files: list[DataFile], batch: BatchOfQuery | None, *, replaces: bool = False) -> bool:
    """Commit what the tasks of a batch wrote, beside the rows of the table or in their place. False: the batch was in
    the table already, and the files are gone."""
    from ottla.spark.faults import fault_point

    number = NOTHING if batch is None else batch.batch_id
    if table.has_batch(batch):
        table.drop_files(files)
        return False
    if not files and not replaces:
        return True
    fault_point("table-undecided", number)
    if replaces:
        table.replace(files, batch)
    else:
        table.commit(files, batch)
    fault_point("table-committed", number)
    return True
