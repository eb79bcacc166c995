"""A source of a pipeline as a DataFrame: its columns, and beside them where each row comes from.

Rows of topics and of text files are bytes that a converter parses (json, csv, string, raw), so that a row which cannot
be parsed is still there as it was. Rows of topics also have `_key`, `_topic`, `_partition`, `_offset` and `_timestamp`;
rows of files have `_file`. A target leaves out columns that begin with an underscore.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.client.dead_letters import OFFSET, PARTITION, TOPIC
from ottla.spark.pipelines.definition import Pipeline, PipelineError, Source
from ottla.spark.pipelines.expectations import ORIGIN, PARSE_ERROR, SOURCE_HEADER, first_line

CORRUPT = "_corrupt"
ROW = "_row"
HEADERS = "array<struct<key:string,value:binary>>"


def raw_topic(spark: SparkSession, pipeline: Pipeline, source: Source, broker: str) -> DataFrame:
    """A topic's records, and those of this source that come back as redriven letters."""
    assert source.topic is not None
    options = {
        "kafka.bootstrap.servers": broker,
        "startingOffsets": source.starting,
        "groupIdPrefix": f"{pipeline.name}-{source.name}",
        **source.options,
        "includeHeaders": "true",
    }
    topics = f"{source.topic},{pipeline.redrive_topic}" if source.is_counted else source.topic
    records = spark.readStream.format("ottla").options(**options).option("subscribe", topics).load()
    if source.is_counted:
        is_ours = _header(SOURCE_HEADER) == F.lit(source.name)
        records = records.filter((F.col("topic") != pipeline.redrive_topic) | F.coalesce(is_ours, F.lit(False)))
    return records.select(
        F.struct(
            "key",
            "value",
            "headers",
            F.coalesce(_header(TOPIC), F.col("topic")).alias("topic"),
            F.coalesce(_header(PARTITION).cast("int"), F.col("partition")).alias("partition"),
            F.coalesce(_header(OFFSET).cast("bigint"), F.col("offset")).alias("offset"),
        ).alias(ORIGIN),
        F.col("key").cast("string").alias("_key"),
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    )


def _header(name: str) -> Column:
    """The text of a record's header; null without it."""
    return F.try_element_at(F.filter("headers", lambda header: header["key"] == F.lit(name)), F.lit(1))["value"].cast(
        "string"
    )


def raw_lines(spark: SparkSession, pipeline: Pipeline, source: Source, redriven: Path) -> DataFrame:
    """The lines of text files as they arrive, and those that come back as redriven letters."""
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
    lines = lines.select("value", F.col("_metadata.file_path").alias("_file")).filter("trim(value) != ''")
    if source.header and source.schema is not None:
        names = ",".join(schema_of(source).names).lower()
        lines = lines.filter(F.lower(F.regexp_replace("value", '[" ]', "")) != F.lit(names))
    return lines.select(
        F.struct(
            F.lit(None).cast("binary").alias("key"),
            F.col("value").cast("binary").alias("value"),
            F.lit(None).cast(HEADERS).alias("headers"),
            F.col("_file").alias("topic"),
            F.lit(None).cast("int").alias("partition"),
            F.lit(None).cast("bigint").alias("offset"),
        ).alias(ORIGIN),
        "_file",
    )


def _make_folder(path: str) -> None:
    """A folder that files arrive in may be empty, but Spark wants it to be there."""
    if "://" not in path and not any(mark in path for mark in "*?[{"):
        Path(path).mkdir(parents=True, exist_ok=True)


def parsed(source: Source, raw: DataFrame) -> DataFrame:
    """Raw rows with their value as columns, and `_parse_error` where that could not be done."""
    value = F.col(f"{ORIGIN}.value")
    others = [name for name in raw.columns if name != ORIGIN]
    if source.format == "raw":
        return raw.select(ORIGIN, _no_error(), value.alias("value"), *others)
    if source.format == "string":
        return raw.select(ORIGIN, _no_error(), value.cast("string").alias("value"), *others)
    assert source.schema is not None
    names = schema_of(source).names
    convert = F.from_json if source.format == "json" else F.from_csv
    schema = f"{source.schema}, {CORRUPT} string"
    row = convert(value.cast("string"), schema, {"columnNameOfCorruptRecord": CORRUPT})
    error = F.when(
        F.col(f"{ROW}.{CORRUPT}").isNotNull() | (F.col(ROW).isNull() & value.isNotNull()),
        F.lit(f"the value is no {source.format} of the schema {source.schema}"),
    ).alias(PARSE_ERROR)
    return raw.withColumn(ROW, row).select(
        ORIGIN,
        error,
        *(F.col(ROW)[name].alias(name) for name in names),
        *(name for name in others if name not in names),
    )


def schema_of(source: Source) -> StructType:
    try:
        schema = StructType.fromDDL(source.schema or "")
        assert isinstance(schema, StructType)
        return schema
    except Exception as error:
        raise PipelineError(
            f"sources.{source.name}.schema: {source.schema!r} is no schema such as 'id bigint, name string': "
            f"{first_line(error)}"
        ) from None


def _no_error() -> Column:
    return F.lit(None).cast("string").alias(PARSE_ERROR)


def with_origin(source: Source, rows: DataFrame, place: str) -> DataFrame:
    """Rows that never were bytes: their letters have them as JSON."""
    row = F.to_json(F.struct(*(F.col(name) for name in rows.columns))).cast("binary")
    return rows.select(
        F.struct(
            F.lit(None).cast("binary").alias("key"),
            row.alias("value"),
            F.lit(None).cast(HEADERS).alias("headers"),
            F.lit(place).alias("topic"),
            F.lit(None).cast("int").alias("partition"),
            F.lit(None).cast("bigint").alias("offset"),
        ).alias(ORIGIN),
        _no_error(),
        *rows.columns,
    )


def parquet_files(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    assert source.files is not None
    path = pipeline.path(source.files)
    schema = schema_of(source)
    if not source.is_stream:
        return spark.read.schema(schema).options(**source.options).parquet(path)
    _make_folder(path)
    return spark.readStream.schema(schema).options(**source.options).parquet(path)
