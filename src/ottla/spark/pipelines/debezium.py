"""Debezium's envelope as rows: the columns of the changed row, and beside them what happened to it.

A value is JSON, with or without Kafka Connect's wrapper (`schema` and `payload`), or Avro of a registry. A row is
`after` of its envelope, of a delete `before`. It also has `_op` (c, u, r or d), `_ts` (when the database made the
change), `_sequence` (its place in the database's log) and `_table`. Records without a value follow deletes for
compaction; they say nothing that the delete did not say, and are left out. A truncate, or what is no change of a row,
cannot become a row: it fails to parse, with words that say so.
"""

from __future__ import annotations

from typing import Any

import pyarrow
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.converters.decoding import Decoder
from ottla.converters.errors import ConverterError
from ottla.converters.json_reader import ANY
from ottla.converters.json_values import UNEXPECTED, JsonDecoder, plain
from ottla.spark.pipelines import converters
from ottla.spark.pipelines.definition import CONFLUENT, Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import ORIGIN, PARSE_ERROR

OPERATION, MOMENT, SEQUENCE, TABLE = "_op", "_ts", "_sequence", "_table"
BEFORE, AFTER = "before", "after"
MYSQL_FILE_SHIFT = 40
"""A place in MySQL's log is the number of the file and a position in it, which has so many bits here."""
_ROW, _ENVELOPE, _SOURCE = "_row", "_envelope", "_source"
_ABOUT = ("lsn", "scn", "file", "pos", "ts_ms", "table")
_ABOUT_SCHEMA = "lsn string, scn string, file string, pos bigint, ts_ms bigint, table string"


def parsed(pipeline: Pipeline, source: Source, raw: DataFrame, zone: str) -> DataFrame:
    """Raw records as rows, and `_parse_error` where a value is no change of a row."""
    decoder = decoder_of(pipeline, source, zone)
    kind = converters.columns_of(decoder)
    for name in (BEFORE, AFTER, "op"):
        if name not in kind.names:
            raise PipelineError(
                f"sources.{source.name}: the schema of its values is no envelope of Debezium: no {name}"
            )
    value = F.col(f"{ORIGIN}.value")
    others = [name for name in raw.columns if name not in (ORIGIN, _ROW)]
    envelope = F.col(_ROW)[converters.ROW]
    if _ROW in raw.columns:
        rows = raw.filter(envelope.isNotNull() | F.col(_ROW)[converters.ERROR].isNotNull())
    else:
        rows = raw.filter(value.isNotNull()).withColumn(_ROW, converters.decoded(decoder, value))
    rows = rows.select(
        ORIGIN,
        *others,
        F.col(_ROW)[converters.ERROR].alias(PARSE_ERROR),
        _part(kind, envelope, BEFORE).alias(BEFORE),
        _part(kind, envelope, AFTER).alias(AFTER),
        _part(kind, envelope, "op").alias("op"),
        _part(kind, envelope, "ts_ms").alias("ts_ms"),
        _source_of(kind, envelope).alias(_SOURCE),
        *([envelope[UNEXPECTED].alias(UNEXPECTED)] if UNEXPECTED in kind.names else []),
    )
    names = _row_type(kind).names
    row = F.when(F.col("op") == "d", F.col(BEFORE)).otherwise(F.col(AFTER))
    about = {
        OPERATION: F.col("op"),
        MOMENT: F.timestamp_millis(F.coalesce(F.col(f"{_SOURCE}.ts_ms"), F.col("ts_ms"))),
        SEQUENCE: _sequence(),
        TABLE: F.col(f"{_SOURCE}.table"),
    }
    return rows.withColumn(_ENVELOPE, row).select(
        ORIGIN,
        F.coalesce(F.col(PARSE_ERROR), _error()).alias(PARSE_ERROR),
        *(F.col(_ENVELOPE)[name].alias(name) for name in names),
        *([UNEXPECTED] if UNEXPECTED in kind.names else []),
        *(column.alias(name) for name, column in about.items() if name not in names),
        *(name for name in others if name not in names),
    )


def decoder_of(pipeline: Pipeline, source: Source, zone: str) -> Decoder:
    """The decoder of envelopes."""
    if source.wire == CONFLUENT:
        return converters.registered_avro(pipeline, source)
    try:
        columns = converters.arrow_columns(converters.schema_of(source.name, source.schema or ""))
        return JsonDecoder(_envelope(columns), zone=zone)
    except ConverterError as error:
        raise PipelineError(f"sources.{source.name}.schema: {error}") from None


def _envelope(columns: Any) -> Any:
    """The type of an envelope of JSON, with and without the wrapper. `before` may lack any column: databases log only
    the key of a deleted row unless they are asked for more."""
    text = pyarrow.string()
    fields = [
        pyarrow.field(BEFORE, plain(columns)),
        pyarrow.field(AFTER, columns),
        pyarrow.field("op", text),
        pyarrow.field("ts_ms", pyarrow.int64()),
        *(pyarrow.field(name, text, metadata=ANY) for name in ("source", "ts_us", "ts_ns", "transaction")),
    ]
    wrapper = [pyarrow.field("schema", text, metadata=ANY), pyarrow.field("payload", pyarrow.struct(fields))]
    return pyarrow.struct([*fields, *wrapper])


def _part(kind: StructType, envelope: Column, name: str) -> Column:
    """A part of the envelope, in the wrapper or without it."""
    found = [envelope[name]] if name in kind.names else []
    if "payload" in kind.names:
        found.append(envelope["payload"][name])
    return F.coalesce(*found) if found else F.lit(None).cast("bigint")


def _row_type(kind: StructType) -> StructType:
    found = kind[AFTER].dataType
    assert isinstance(found, StructType)
    return found


def _source_of(kind: StructType, envelope: Column) -> Column:
    """Where in the database's log a change is."""
    if "payload" in kind.names:
        return F.from_json(_part(kind, envelope, "source"), _ABOUT_SCHEMA)
    given = kind["source"].dataType if "source" in kind.names else StructType()
    assert isinstance(given, StructType)
    types = converters.schema_of("", _ABOUT_SCHEMA)
    return F.struct(
        *(
            (envelope["source"][name] if name in given.names else F.lit(None)).cast(types[name].dataType).alias(name)
            for name in _ABOUT
        )
    )


def _sequence() -> Column:
    """A number that grows with each change of a row: PostgreSQL's LSN, Oracle's SCN, the place in MySQL's binary log;
    of other databases the time in milliseconds."""
    about = {name: F.col(f"{_SOURCE}.{name}") for name in _ABOUT}
    number = F.regexp_extract(about["file"], r"(\d+)$", 1).try_cast("bigint")
    return F.coalesce(
        about["lsn"].try_cast("bigint"),
        about["scn"].try_cast("bigint"),
        F.shiftleft(number, MYSQL_FILE_SHIFT) + about["pos"],
        about["ts_ms"],
        F.col("ts_ms"),
    )


def _error() -> Column:
    """Why an envelope has no change of a row; null if it has one."""
    operation = F.col("op")
    no_row = F.when(operation == "d", F.col(BEFORE).isNull()).otherwise(F.col(AFTER).isNull())
    return (
        F.when(operation.isNull(), F.lit("expected Debezium's envelope with op, before and after, got none"))
        .when(
            operation == "t",
            F.lit(
                "the table was truncated (op t), which is no change of a row: empty the targets by hand if it is meant"
            ),
        )
        .when(operation == "m", F.lit("a message of the database's log (op m) is no change of a row"))
        .when(~operation.isin("c", "u", "r", "d"), F.concat(F.lit("op is none of c, u, r, d: "), operation))
        .when(
            no_row & (operation == "d"),
            F.lit("a delete without 'before': the database has to log the key (PostgreSQL: REPLICA IDENTITY)"),
        )
        .when(no_row, F.concat(F.lit("a change (op "), operation, F.lit(") without 'after'")))
    )
