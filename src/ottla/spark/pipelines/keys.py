"""Keys and headers of records as columns of Spark, read and written.

Numbers are as Kafka's serializers have them (big endian, fixed size); JSON, Avro and Protobuf go through the converters
of values. A key that cannot be parsed makes its row unparsable: the letter says so.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, DoubleType, FloatType, MapType, StructType

from ottla.client.dead_letters import PREFIX
from ottla.spark.pipelines import converters
from ottla.spark.pipelines.definition import CONFLUENT, Flow, Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import ORIGIN, OWN_PREFIX, PARSE_ERROR, first_line
from ottla.spark.pipelines.record_parts import NUMBER_BYTES, Key
from ottla.spark.pipelines.text_forms import MOMENTS

KEY, HEADERS = "_key", "_headers"
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_ROW = "_key_row"
_WHOLE = {"short": "smallint", "int": "int", "long": "bigint"}
_FRACTIONS: dict[str, tuple[str, DataType]] = {"float": ("f", FloatType()), "double": ("d", DoubleType())}
HEADER_FUNCTION = f"""
create or replace temporary function header(headers {_HEADERS_TYPE}, name string) returns string
return cast(try_element_at(filter(headers, one -> one.key = name), -1).value as string)
"""
"""`header(_headers, 'trace')`: the text of a record's last header of that name, as Kafka's `lastHeader`."""


def own_headers(headers: Column) -> Column:
    """The headers that a record had before it was a letter."""
    return F.filter(headers, lambda one: ~(one["key"].startswith(PREFIX) | one["key"].startswith(OWN_PREFIX)))


# --- reading


def with_key(pipeline: Pipeline, source: Source, rows: DataFrame, zone: str) -> DataFrame:
    """Parsed rows with the decoded key in `_key`, and in its own column if `as` names one."""
    if source.key is None:
        return rows
    key, origin = source.key, F.col(f"{ORIGIN}.key")
    if key.column is not None and key.column.lower() in (name.lower() for name in rows.columns):
        raise PipelineError(f"sources.{source.name}.key.as: there is a column {key.column} already")
    if key.format in ("json", "avro", "protobuf"):
        decoder = converters.source_decoder(pipeline, _as_source(source, key), zone)
        rows = rows.withColumn(_ROW, converters.decoded(decoder, origin))
        value, error = F.col(_ROW)[converters.ROW], F.col(_ROW)[converters.ERROR]
    else:
        value, error = _plain(key.format, origin)
    error = F.concat(F.lit("key: "), error)
    added = rows.withColumn(KEY, value).withColumn(PARSE_ERROR, F.coalesce(PARSE_ERROR, error)).drop(_ROW)
    return added if key.column is None else added.withColumn(key.column, F.col(KEY))


def _as_source(source: Source, key: Key) -> Source:
    """The keys of a source as a source of their own, for the converters."""
    return replace(
        source, part="key", format=key.format, schema=key.schema, message=key.message, wire=key.wire or "plain",
        rescue=None, rescues_values=False, lenient=False,
    )  # fmt: skip


def _plain(format_: str, key: Column) -> tuple[Column, Column]:
    if format_ in ("string", "raw"):
        return key.cast("string") if format_ == "string" else key, F.lit(None).cast("string")
    size = NUMBER_BYTES[format_]
    said = F.concat(F.lit(f"expected {size} bytes for {format_}, got "), F.length(key).cast("string"))
    error = F.when(F.length(key) != size, said)
    if format_ in _WHOLE:
        unsigned = F.conv(F.hex(F.substring(key, 1, size)), 16, -10).cast("bigint")  # of eight bytes it is signed
        most = 2 ** (8 * size - 1)
        signed = unsigned if size == 8 else F.when(unsigned >= most, unsigned - 2 * most).otherwise(unsigned)
        return F.when(F.length(key) == size, signed.cast(_WHOLE[format_])), error
    letter, kind = _FRACTIONS[format_]
    layout = struct.Struct(f">{letter}")

    def fractions(values: pyarrow.Array) -> pyarrow.Array:
        found = [None if one is None or len(one) != size else layout.unpack(one)[0] for one in values.to_pylist()]
        return pyarrow.array(found, pyarrow.float32() if letter == "f" else pyarrow.float64())

    return converters.on_arrays(fractions, kind, key), error


# --- writing


def key_column(pipeline: Pipeline, flow: Flow, rows: DataFrame, *, may_change: bool) -> Column:
    """The keys of a flow's records."""
    if flow.key is None:
        return F.lit(None).cast("string")
    where = f"flows.{flow.name}.key"
    try:
        kind = rows.select(F.expr(flow.key).alias("key")).schema["key"].dataType
    except Exception as error:
        raise PipelineError(f"{where}: {first_line(error)}") from None
    value, key = F.expr(flow.key), flow.key_format or Key()
    if key.format == "string":
        return value.cast("string")
    if key.format == "raw":
        return value if isinstance(kind, BinaryType) else value.cast("string").cast("binary")
    if key.format in NUMBER_BYTES:
        return _number(key.format, value, kind, where)
    written = replace(
        flow, part="key", format=key.format, schema=key.schema, message=key.message, wire=key.wire or "plain"
    )
    if key.format == "json":
        return _json(pipeline, written, value, kind, may_change)
    if not isinstance(kind, StructType):
        raise PipelineError(
            f"{where}: {key.format} writes columns, and {flow.key} is {kind.simpleString()}: 'columns: [NAME, ...]'"
        )
    encoder = converters.flow_encoder(pipeline, written, kind, may_change=may_change)
    return converters.encoded(encoder, value)


def _number(format_: str, value: Column, kind: DataType, where: str) -> Column:
    size = NUMBER_BYTES[format_]
    if kind.simpleString() in ("string", "binary") or isinstance(kind, StructType | MapType | ArrayType):
        raise PipelineError(f"{where}: {format_} is a number, and the expression is {kind.simpleString()}: cast it")
    if format_ in _WHOLE:
        digits = F.lpad(F.hex(value.cast(_WHOLE[format_]).cast("bigint")), 16, "0")
        return F.unhex(F.substring(digits, 17 - 2 * size, 2 * size))
    layout = struct.Struct(f">{_FRACTIONS[format_][0]}")

    def packed(values: pyarrow.Array) -> pyarrow.Array:
        return pyarrow.array(
            [None if one is None else layout.pack(one) for one in values.to_pylist()], pyarrow.binary()
        )

    return converters.on_arrays(packed, BinaryType(), value.cast(_FRACTIONS[format_][1]))


def _json(pipeline: Pipeline, flow: Flow, value: Column, kind: DataType, may_change: bool) -> Column:
    if isinstance(kind, StructType | MapType | ArrayType):
        text = F.to_json(value, MOMENTS)
    else:  # the value of {"v":...}
        inside = F.to_json(F.struct(value.alias("v")), MOMENTS)
        text = F.when(value.isNotNull(), _inner(inside))
    if flow.wire != CONFLUENT:
        return text
    if not isinstance(kind, StructType):
        raise PipelineError(f"flows.{flow.name}.key: registered JSON is of columns: 'columns: [NAME, ...]'")
    header = converters.json_header(pipeline, flow, kind, may_change=may_change)
    return F.concat(F.lit(header), text.cast("binary"))


def _inner(document: Column) -> Column:
    return F.substring(document, F.lit(6), F.length(document) - 6)


def headers_column(flow: Flow, rows: DataFrame) -> Column | None:
    """The headers of a flow's records, or None. A header whose value is null is left out."""
    if flow.headers is None:
        return None
    where = f"flows.{flow.name}.headers"
    if isinstance(flow.headers, Mapping):
        made = [_header(rows, name, text, f"{where}.{name}") for name, text in flow.headers.items()]
        return F.filter(F.array(*made), lambda one: one["value"].isNotNull()) if made else None
    try:
        kind = rows.select(F.expr(flow.headers).alias("headers")).schema["headers"].dataType
    except Exception as error:
        raise PipelineError(f"{where}: {first_line(error)}") from None
    if kind.simpleString() != _HEADERS_TYPE:
        raise PipelineError(
            f"{where}: {flow.headers} is {kind.simpleString()}, and headers are {_HEADERS_TYPE}; 'NAME: EXPRESSION' "
            "makes one of any column"
        )
    return F.expr(flow.headers)


def _header(rows: DataFrame, name: str, expression: str, where: str) -> Column:
    try:
        kind: Any = rows.select(F.expr(expression).alias("value")).schema["value"].dataType
    except Exception as error:
        raise PipelineError(f"{where}: {first_line(error)}") from None
    value = F.expr(expression)
    if isinstance(kind, StructType | MapType | ArrayType):
        value = F.to_json(value, MOMENTS)
    value = value if isinstance(kind, BinaryType) else value.cast("string").cast("binary")
    return F.struct(F.lit(name).alias("key"), value.alias("value"))
