"""A source of a pipeline as a DataFrame: its columns, and beside them where each row comes from.

Rows of topics and of text files are bytes that a converter parses (json, csv, string, raw), so that a row which cannot
be parsed is still there as it was. JSON and CSV are parsed strictly, or by Spark's own functions where a source says
`lenient: true`. Values of topics that have a decoder are decoded by the task that reads them: Spark gets columns, and
the bytes of a value only where a letter or an error needs them.

Rows of topics also have `_key`, `_headers`, `_topic`, `_partition`, `_offset` and `_timestamp`; rows of files have
`_file`. A target leaves out columns that begin with an underscore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.client.dead_letters import OFFSET, PARTITION, TOPIC
from ottla.converters.decoding import Decoder
from ottla.converters.errors import ConverterError
from ottla.converters.json_values import UNEXPECTED, JsonDecoder
from ottla.spark.decoded_topics import decoded_topics
from ottla.spark.pipelines import converters, debezium
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import CONFLUENT, DEBEZIUM, Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import ORIGIN, PARSE_ERROR, SOURCE_HEADER, first_line
from ottla.spark.pipelines.keys import own_headers
from ottla.spark.pipelines.poison import Record, Span
from ottla.spark.pipelines.text_forms import MOMENTS
from ottla.spark.value_columns import CORRUPT as CORRUPT_RECORD
from ottla.spark.value_columns import ERROR as DECODE_ERROR
from ottla.spark.value_columns import RAW

CORRUPT = "_corrupt"
ROW = "_row"
_OF_STREAMS = ("starting", "ending", "max", "min", "groupid", "commit")
"""How the options begin that say what a stream reads, and when."""
HEADERS = "array<struct<key:string,value:binary>>"


def decoder_of(pipeline: Pipeline, source: Source, zone: str) -> Decoder | None:
    """The decoder of a source's values; None: Spark's own functions parse them, or nothing does."""
    if source.format == DEBEZIUM:
        return debezium.decoder_of(pipeline, source, zone)
    if source.format in ("raw", "string") or (source.lenient and source.format in ("json", "csv")):
        return None
    return converters.source_decoder(pipeline, source, zone)


def needs_bytes(source: Source, action: str) -> bool:
    """Whether rows with this action may have a value that was decoded: a rule, the key or Debezium's envelope is what
    they fail by. Then the bytes of all values are read; those of values that cannot be decoded always are."""
    is_late = source.key is not None or source.format == DEBEZIUM
    return any(rule.action == action for rule in source.rules) or (is_late and source.unparsable == action)


def raw_topic(
    spark: SparkSession,
    pipeline: Pipeline,
    source: Source,
    connection: Connection,
    left_out: Iterable[Record] = (),
    *,
    has_raw: bool = True,
) -> DataFrame:
    """A topic's records, and those of this source that come back as redriven letters. Without `has_raw` values that
    are decoded have their bytes only if that failed."""
    options = {
        **connection.options,
        "startingOffsets": source.starting,
        "groupIdPrefix": f"{pipeline.name}-{source.name}",
        **source.options,
        "includeHeaders": "true",
    }
    format_ = _format(spark, pipeline, source, has_raw=has_raw)
    records = spark.readStream.format(format_).options(**options).option(*_subscription(pipeline, source)).load()
    return _own_records(pipeline, source, records, left_out)


def raw_spans(
    spark: SparkSession,
    pipeline: Pipeline,
    source: Source,
    connection: Connection,
    spans: Iterable[Span],
    left_out: Iterable[Record] = (),
    *,
    has_raw: bool = True,
) -> DataFrame:
    """The records of a topic in these ranges of offsets, read once as a batch."""
    own = {name: value for name, value in source.options.items() if not name.lower().startswith(_OF_STREAMS)}
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for span in spans:
        partitions.setdefault(span.topic, []).append(span.partition)
        starts.setdefault(span.topic, {})[str(span.partition)] = span.start_offset
        ends.setdefault(span.topic, {})[str(span.partition)] = span.end_offset
    options = {**connection.options, **own, "includeHeaders": "true", "assign": json.dumps(partitions)}
    limits = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)}
    records = spark.read.format(_format(spark, pipeline, source, has_raw=has_raw)).options(**options, **limits).load()
    return _own_records(pipeline, source, records, left_out)


def _format(spark: SparkSession, pipeline: Pipeline, source: Source, *, has_raw: bool) -> str:
    """The data source by which the records of a source are read."""
    decoder = decoder_of(pipeline, source, session_zone(spark))
    return "ottla" if decoder is None else decoded_topics(spark, decoder, has_raw=has_raw)


def _own_records(pipeline: Pipeline, source: Source, records: DataFrame, left_out: Iterable[Record]) -> DataFrame:
    """Raw rows without letters that come back to other sources, and without the records that are set aside."""
    if source.is_counted:
        is_ours = _header(SOURCE_HEADER) == F.lit(source.name)
        records = records.filter((F.col("topic") != pipeline.redrive_topic) | F.coalesce(is_ours, F.lit(False)))
    offsets: dict[tuple[str, int], list[int]] = {}
    for record in left_out:
        offsets.setdefault((record.topic, record.partition), []).append(record.offset)
    for (topic, partition), some in offsets.items():
        is_there = (F.col("topic") == topic) & (F.col("partition") == partition) & F.col("offset").isin(some)
        records = records.filter(~is_there)
    return raw_records(pipeline, source, records)


def raw_records(pipeline: Pipeline, source: Source, records: DataFrame) -> DataFrame:
    """Records of topics as raw rows: where each comes from, what every record has, and `_row` if it is decoded."""
    value = next((name for name in (RAW, CORRUPT_RECORD) if name in records.columns), "value")
    return records.select(
        F.struct(
            "key",
            F.col(value).alias("value"),
            "headers",
            F.coalesce(_header(TOPIC), F.col("topic")).alias("topic"),
            F.coalesce(_header(PARTITION).cast("int"), F.col("partition")).alias("partition"),
            F.coalesce(_header(OFFSET).cast("bigint"), F.col("offset")).alias("offset"),
        ).alias(ORIGIN),
        F.col("key").cast("string").alias("_key"),
        (own_headers(F.col("headers")) if source.is_counted else F.col("headers")).alias("_headers"),
        _own_topic(pipeline, source).alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        *([_decoded_row(pipeline, source, records)] if value != "value" else []),
    )


def _decoded_row(pipeline: Pipeline, source: Source, records: DataFrame) -> Column:
    """What the reading task made of a value, in the shape of `converters.decoded`. Fields of letters that come back
    are not counted: the topic that they come in has letters of other sources, too."""
    kind, row = records.schema["value"].dataType, F.col("value")
    if source.is_counted and isinstance(kind, StructType) and UNEXPECTED in kind.names:
        row = row.withField(UNEXPECTED, F.when(F.col("topic") != pipeline.redrive_topic, F.col(f"value.{UNEXPECTED}")))
    return F.struct(row.alias(converters.ROW), F.col(DECODE_ERROR).alias(converters.ERROR)).alias(ROW)


def _subscription(pipeline: Pipeline, source: Source) -> tuple[str, str]:
    """The option that names a source's topics, including the one for its redriven letters."""
    redriven = [pipeline.redrive_topic] if source.is_counted else []
    if source.pattern is None:
        return "subscribe", ",".join([*source.topics, *redriven])
    return "subscribePattern", "|".join([f"(?:{source.pattern})", *map(re.escape, redriven)])


def _own_topic(pipeline: Pipeline, source: Source) -> Column:
    """The topic of a record; for a redriven letter the topic of the original record."""
    if not source.is_counted:
        return F.col("topic")
    return F.when(F.col("topic") == pipeline.redrive_topic, _header(TOPIC)).otherwise(F.col("topic"))


def _header(name: str) -> Column:
    """The text of a record's header; null without it."""
    return F.try_element_at(F.filter("headers", lambda header: header["key"] == F.lit(name)), F.lit(1))["value"].cast(
        "string"
    )


def raw_lines(spark: SparkSession, pipeline: Pipeline, source: Source, redriven: Path) -> DataFrame:
    """The lines of text files as they arrive, and redriven letters."""
    assert source.files is not None
    path = pipeline.path(source.files)
    if source.is_stream:
        _make_folder(path)
        if source.is_counted and path.startswith("/"):
            redriven.mkdir(parents=True, exist_ok=True)
            path = f"/{{{path[1:]},{str(redriven)[1:]}}}"
        lines = spark.readStream.format("text").options(**source.options).load(path)
    else:
        lines = spark.read.format("text").options(**source.options).load(path)
    place = F.regexp_replace("_metadata.file_path", "://[^/@]*:[^/@]*@", "://")
    return raw_of_lines(source, lines.select("value", place.alias("_file")))


def raw_of_lines(source: Source, lines: DataFrame) -> DataFrame:
    """Lines of text with their `_file` as raw rows, without empty ones and without a line of column names."""
    lines = lines.filter("trim(value) != ''")
    if source.header and source.schema is not None:
        names = ",".join(converters.schema_of(source.name, source.schema).names).lower()
        lines = lines.filter(F.lower(F.regexp_replace("value", '[" ]', "")) != F.lit(names))
    return lines.select(_origin_of(F.col("value").cast("binary"), F.col("_file")), "_file")


def _make_folder(path: str) -> None:
    """A folder that files arrive in may be empty, but Spark wants it to be there."""
    if "://" not in path and not any(mark in path for mark in "*?[{"):
        Path(path).mkdir(parents=True, exist_ok=True)


def parsed(pipeline: Pipeline, source: Source, raw: DataFrame) -> DataFrame:
    """Raw rows with their value as columns, and `_parse_error` where that could not be done."""
    value = F.col(f"{ORIGIN}.value")
    others = [name for name in raw.columns if name not in (ORIGIN, ROW)]
    if source.format == DEBEZIUM:
        return debezium.parsed(pipeline, source, raw, session_zone(raw.sparkSession))
    if source.format == "raw":
        return raw.select(ORIGIN, _no_error(), value.alias("value"), *others)
    if source.format == "string":
        return raw.select(ORIGIN, _no_error(), value.cast("string").alias("value"), *others)
    if not source.lenient or source.format not in ("json", "csv"):
        decoder = converters.source_decoder(pipeline, source, session_zone(raw.sparkSession))
        names = converters.columns_of(decoder).names
        row = F.col(ROW) if ROW in raw.columns else converters.decoded(decoder, value)
        where, error = F.col(ROW)[converters.ROW], F.col(ROW)[converters.ERROR]
    else:
        schema = source.schema or converters.json_schema_of(pipeline, source)
        names = converters.schema_of(source.name, schema).names
        if source.wire == CONFLUENT:
            value = converters.without_header(value)
        row, error = (
            text_row(source.format or "json", value, schema),
            text_error(source.format or "json", value, schema),
        )
        where = F.col(ROW)
    return raw.withColumn(ROW, row).select(
        ORIGIN,
        error.alias(PARSE_ERROR),
        *(where[name].alias(name) for name in names),
        *(name for name in others if name not in names),
    )


def session_zone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))


def text_row(format_: str, value: Column, schema: str, **more: str) -> Column:
    """A struct of the columns of a text, and one with the text where it is not of the schema."""
    convert = F.from_json if format_ == "json" else F.from_csv
    return convert(value.cast("string"), f"{schema}, {CORRUPT} string", {"columnNameOfCorruptRecord": CORRUPT, **more})


def text_error(format_: str, value: Column, schema: str) -> Column:
    """Why the text of `_row` could not be parsed; null if it could."""
    return F.when(
        F.col(f"{ROW}.{CORRUPT}").isNotNull() | (F.col(ROW).isNull() & value.isNotNull()),
        F.lit(f"the value is no {format_} of the schema {schema}"),
    )


def _no_error() -> Column:
    return F.lit(None).cast("string").alias(PARSE_ERROR)


def with_origin(rows: DataFrame, place: str) -> DataFrame:
    """Rows that never were bytes: their letters have them as JSON."""
    row = F.to_json(F.struct(*(F.col(name) for name in rows.columns)), MOMENTS).cast("binary")
    return rows.select(_origin_of(row, F.lit(place)), _no_error(), *rows.columns)


def with_redriven(rows: DataFrame, place: str, redriven: Path) -> DataFrame:
    """The rows of a source, and its redriven letters: lines of JSON in a folder."""
    redriven.mkdir(parents=True, exist_ok=True)
    lines = rows.sparkSession.readStream.format("text").load(str(redriven)).filter("trim(value) != ''")
    schema, value = rows.schema.toDDL(), F.col("value")
    try:
        decoder = JsonDecoder(converters.arrow_columns(rows.schema), zone=session_zone(rows.sparkSession))
        row, where = converters.decoded(decoder, value.cast("binary")), F.col(ROW)[converters.ROW]
        error = F.col(ROW)[converters.ERROR]
    except ConverterError:  # a database may have types that JSON is read to by Spark only
        row, where = text_row("json", value, schema, **MOMENTS), F.col(ROW)
        error = text_error("json", value, schema)
    returned = lines.select(value, row.alias(ROW)).select(
        _origin_of(value.cast("binary"), F.lit(place)),
        error.alias(PARSE_ERROR),
        *(where[name].alias(name) for name in rows.columns),
    )
    return with_origin(rows, place).unionByName(returned)


def _origin_of(value: Column, place: Column) -> Column:
    """The origin of a row that is no record of a topic."""
    return F.struct(
        F.lit(None).cast("binary").alias("key"),
        value.alias("value"),
        F.lit(None).cast(HEADERS).alias("headers"),
        place.alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
    ).alias(ORIGIN)


def parquet_files(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    assert source.files is not None
    path = pipeline.path(source.files)
    schema = converters.schema_of(source.name, source.schema or "")
    if not source.is_stream:
        return spark.read.schema(schema).options(**source.options).parquet(path)
    _make_folder(path)
    return spark.readStream.schema(schema).options(**source.options).parquet(path)


def spark_rows(spark: SparkSession, source: Source) -> DataFrame:
    """Reads a `spark_format`, with the options and the schema of the source."""
    assert source.spark_format is not None
    reader = (spark.readStream if source.is_stream else spark.read).format(source.spark_format)
    if source.schema is not None:
        reader = reader.schema(converters.schema_of(source.name, source.schema))
    try:
        return reader.options(**source.options).load()
    except Exception as error:
        raise PipelineError(f"sources.{source.name}.spark_format: {first_line(error)}") from None
