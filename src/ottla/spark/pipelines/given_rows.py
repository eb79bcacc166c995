"""The rows that a case gives a source, as tables of Arrow: records of a topic, lines of a file, or columns.

Columns of a source of bytes become bytes in its format, so that they go through the same parsing as in a real run.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from csv import writer as csv_writer
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.converters.errors import ConverterError
from ottla.spark.pipelines import cases, converters
from ottla.spark.pipelines.cases import Given
from ottla.spark.pipelines.definition import CONFLUENT, Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import first_line

RECORDS = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("headers", pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))),
    ]
)
LINES = pyarrow.schema([("value", pyarrow.string()), ("_file", pyarrow.string())])
STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""The timestamp of records that a case gives none."""


def tables_of(pipeline: Pipeline, source: Source, given: Sequence[Given | None]) -> list[pyarrow.Table]:
    """The rows of a source, a table to a batch."""
    if source.kind == "topic":
        first = _first_offsets(given)
        return [_records(pipeline, source, one, offset) for one, offset in zip(given, first, strict=True)]
    if source.has_bytes:
        return [_lines(pipeline, source, one) for one in given]
    schema = rows_schema(source, given)
    return [_columns(source, one, schema) for one in given]


def as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _first_offsets(given: Sequence[Given | None]) -> list[int]:
    found, total = [], 0
    for one in given:
        found.append(total)
        total += 0 if one is None else len(one.rows)
    return found


def _records(pipeline: Pipeline, source: Source, given: Given | None, first_offset: int) -> pyarrow.Table:
    rows = []
    for number, row in enumerate(given.rows if given is not None else ()):
        about = {key: row[key] for key in cases.RECORD_KEYS if key in row} if isinstance(row, dict) else {}
        rows.append(
            {
                "key": as_bytes(_key_text(about.get(cases.KEY))),
                "value": _value(pipeline, source, row),
                "topic": about.get(cases.TOPIC, source.topic),
                "partition": about.get(cases.PARTITION, 0),
                "offset": about.get(cases.OFFSET, first_offset + number),
                "timestamp": _moment(source, about.get(cases.TIMESTAMP, STARTED_AT)),
                "headers": [
                    {"key": str(name), "value": as_bytes(_key_text(value))}
                    for name, value in (about.get(cases.HEADERS) or {}).items()
                ],
            }
        )
    return _table(source, rows, RECORDS)


def _key_text(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bytes) else json.dumps(value, default=_json_value)


def _moment(source: Source, value: Any) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PipelineError(f"given.{source.name}: {cases.TIMESTAMP}: {value!r} is no time") from None
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    if not isinstance(value, datetime):
        raise PipelineError(f"given.{source.name}: {cases.TIMESTAMP}: {value!r} is no time")
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _lines(pipeline: Pipeline, source: Source, given: Given | None) -> pyarrow.Table:
    lines = [_value(pipeline, source, row) for row in (given.rows if given is not None else ())]
    rows = [{"value": (one or b"").decode(errors="replace"), "_file": source.place} for one in lines]
    return _table(source, rows, LINES)


def _value(pipeline: Pipeline, source: Source, row: Any) -> bytes | None:
    """The bytes of a row: those in the case, or its columns in the source's format."""
    if row is None or isinstance(row, str | bytes):
        return as_bytes(row)
    if cases.VALUE in row:
        value = row[cases.VALUE]
        return as_bytes(value) if value is None or isinstance(value, str | bytes) else _json(value)
    columns = {name: value for name, value in row.items() if name not in cases.RECORD_KEYS}
    if source.format in ("string", "raw"):
        if set(columns) != {"value"}:
            raise PipelineError(f"given.{source.name}: format {source.format} has the column value only")
        value = columns["value"]
        return as_bytes(value) if value is None or isinstance(value, str | bytes) else str(value).encode()
    if source.format == "csv":
        return _csv(source, columns)
    if source.format in ("json", "debezium", None):
        return _json(columns)
    return _encoded(pipeline, source, columns)


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_json_value, ensure_ascii=False).encode()


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is not None else value.isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} is no value of JSON")


def _csv(source: Source, columns: Mapping[str, Any]) -> bytes:
    names = converters.schema_of(source.name, source.schema or "").names
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise PipelineError(f"given.{source.name}: there is no column {unknown[0]}; it has {', '.join(names)}")
    text = io.StringIO()
    values = [columns.get(name) for name in names]
    cells = [
        _json_value(one) if isinstance(one, date) else str(one).lower() if isinstance(one, bool) else one
        for one in values
    ]
    csv_writer(text, lineterminator="").writerow(cells)
    return text.getvalue().encode()


def _encoded(pipeline: Pipeline, source: Source, columns: Mapping[str, Any]) -> bytes:
    """Columns as Avro or Protobuf of the source's own schema."""
    if source.schema is None or source.wire == CONFLUENT:
        raise PipelineError(
            f"given.{source.name}: its schema is in a registry: give the bytes of records, e.g. "
            f"'{{{cases.VALUE}: !!binary ...}}', or the source a 'schema' of its own"
        )
    try:
        kind = converters.source_decoder(pipeline, source, "UTC").type
        unknown = [name for name in columns if kind.get_field_index(name) < 0]
        if unknown:
            raise PipelineError(f"given.{source.name}: there is no column {unknown[0]} in its schema")
        row = {name: _typed(value, kind.field(name).type) for name, value in columns.items()}
        encoded = converters.own_encoder(pipeline, source, kind).encode(pyarrow.array([row], kind))
        return bytes(encoded.to_pylist()[0])
    except (ConverterError, pyarrow.ArrowException, ValueError, TypeError) as error:
        raise PipelineError(f"given.{source.name}: {first_line(error)}") from None


def rows_schema(source: Source, given: Sequence[Given | None]) -> pyarrow.Schema:
    """The columns of rows that are not bytes: those of the source or of the case, else guessed from the values."""
    named = next((one.schema for one in given if one is not None and one.schema is not None), source.schema)
    if named is not None:
        columns = converters.schema_of(source.name, named)
        return to_arrow_schema(columns, timezone="UTC")
    rows = [row for one in given if one is not None for row in one.rows]
    if not rows:
        raise PipelineError(
            f"given.{source.name}: its columns are not known: say '{source.name}: "
            "{schema: 'id bigint, name string', rows: []}'"
        )
    return _table(source, rows, None).schema


def _columns(source: Source, given: Given | None, schema: pyarrow.Schema) -> pyarrow.Table:
    rows = list(given.rows) if given is not None else []
    for row in rows:
        if not isinstance(row, dict):
            raise PipelineError(f"given.{source.name}: its rows never were bytes: columns are expected, not {row!r}")
        unknown = [name for name in row if name not in schema.names]
        if unknown:
            raise PipelineError(f"given.{source.name}: there is no column {unknown[0]}: {', '.join(schema.names)}")
    kinds = {one.name: one.type for one in schema}
    typed = [{name: _typed(value, kinds[name]) for name, value in row.items()} for row in rows]
    return _table(source, typed, schema)


def _typed(value: Any, kind: Any) -> Any:
    """A value of YAML for a column: texts may stand for times, numbers for decimals."""
    if value is None:
        return None
    if pyarrow.types.is_timestamp(kind):
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=UTC) if kind.tz is not None and moment.tzinfo is None else moment
    if pyarrow.types.is_date(kind) and isinstance(value, str):
        return date.fromisoformat(value)
    if pyarrow.types.is_decimal(kind) and not isinstance(value, Decimal):
        return Decimal(str(value))
    if pyarrow.types.is_binary(kind) and isinstance(value, str):
        return value.encode()
    return value


def _table(source: Source, rows: list[dict[str, Any]], schema: pyarrow.Schema | None) -> pyarrow.Table:
    try:
        return pyarrow.Table.from_pylist(rows, schema=schema)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise PipelineError(f"given.{source.name}: {first_line(error)}") from None
