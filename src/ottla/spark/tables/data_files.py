"""Parquet files of a table, written by a task: bounded in memory, one partition to a file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

CHUNK_SIZE = 64 * 1024 * 1024
"""Rows that a task gathers before it writes them."""
MAX_SHOWN_TEXT = 32
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task has written."""

    path: str
    size: int
    values: Mapping[str, str | None]
    statistics: str


def chunks(batches: Iterator[pyarrow.RecordBatch], schema: pyarrow.Schema) -> Iterator[pyarrow.Table]:
    """Rows in pieces that fit into memory, in the columns of a table. A column that the rows lack is null."""
    gathered: list[pyarrow.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= CHUNK_SIZE:
            yield in_columns(pyarrow.Table.from_batches(gathered), schema)
            gathered, size = [], 0
    if size or any(batch.num_rows for batch in gathered):
        yield in_columns(pyarrow.Table.from_batches(gathered), schema)


def in_columns(rows: pyarrow.Table, schema: pyarrow.Schema) -> pyarrow.Table:
    arrays = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pyarrow.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def partitions(rows: pyarrow.Table, names: list[str]) -> Iterator[tuple[dict[str, Any], pyarrow.Table]]:
    """The rows of each combination of values, and those values."""
    if not names:
        yield {}, rows
        return
    for values in rows.select(names).group_by(names).aggregate([]).to_pylist():
        is_mine: Any = pyarrow.scalar(True)
        for name, value in values.items():
            column = rows.column(name)
            same = column.is_null() if value is None else pc.equal(column, pyarrow.scalar(value, column.type))
            is_mine = pc.and_(is_mine, pc.fill_null(same, False))
        yield values, rows.filter(is_mine)


def write_file(files: FileSystem, folder: str, rows: pyarrow.Table, values: Mapping[str, Any]) -> DataFile:
    """One new file; its path is below the folder."""
    name = f"part-{uuid4()}.snappy.parquet"
    path = f"{folder}/{name}" if folder else name
    with files.open_output_stream(path) as stream:
        pq.write_table(rows, stream, compression="snappy")
    size = files.get_file_info(path).size
    return DataFile(path, int(size), {key: partition_text(value) for key, value in values.items()}, statistics(rows))


def partition_folder(values: Mapping[str, Any]) -> str:
    """The folder of a partition as Hive, Spark and delta-rs name it: `country=GR/day=2026-11-17`. Some readers take
    the values from there and not from the table's log."""
    texts = {name: partition_text(value) for name, value in values.items()}
    return "/".join(
        f"{quote(name, safe='')}={NULL_PARTITION if text is None else quote(text, safe='')}"
        for name, text in texts.items()
    )


def partition_text(value: Any) -> str | None:
    """A value as the logs of tables write it. A moment has no time zone there: it is in UTC."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return str(value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None))
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def statistics(rows: pyarrow.Table) -> str:
    """The statistics by which readers skip files: the number of rows, and the least and greatest values of plain
    columns."""
    least, greatest, nulls = {}, {}, {}
    for name in rows.column_names:
        column = rows.column(name)
        if pyarrow.types.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type) or _is_text(column)):
            continue
        found = pc.min_max(column).as_py()
        if all(_is_plain(value) for value in found.values()):
            least[name], greatest[name] = found["min"], found["max"]
    return json.dumps(
        {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls},
        ensure_ascii=False,
    )


def _is_text(column: pyarrow.ChunkedArray) -> bool:
    return bool(pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type))


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_SHOWN_TEXT
    return value is not None and (not isinstance(value, float) or math.isfinite(value))
