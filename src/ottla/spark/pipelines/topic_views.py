"""Topics as views for SQL: a topic with a registered schema has its columns (Avro, Protobuf, JSON), any other the
fields of its values where they are JSON objects.

Those are inferred from the newest records; what does not fit reads as null. Every view also has `key` (text),
`value` (text), `partition`, `offset` and `timestamp`, unless a field has the name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.client.core.partitions import TopicPartition
from ottla.converters.errors import SchemaNotFound
from ottla.converters.registry import JSON, PROTOBUF, SERIALIZED, registry_of, subject_of
from ottla.spark.pipelines import converters
from ottla.spark.pipelines.connection import Connection

SAMPLE_COUNT = 200
POLL_TIMEOUT_MS = 1000
STREAM = re.compile(r"\bstream\s*(?:\(\s*(`[^`]+`|[\w.-]+)\s*\)|(`[^`]+`|[\w.-]+))", re.IGNORECASE)
OWN_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
_STRING = "string"


def topics_of(statement: str, known: Iterable[str]) -> list[str]:
    """The topics that a statement names, plain or in backticks."""
    return [topic for topic in known if re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w.-])", statement)]


def without_stream(statement: str) -> tuple[str, bool]:
    """A statement whose `STREAM topic` or `STREAM(topic)` has become the topic, and whether there was one."""
    plain = STREAM.sub(lambda match: match.group(1) or match.group(2), statement)
    return plain, plain != statement


def inferred_schema(samples: Iterable[bytes | None]) -> str | None:
    """The columns of JSON objects as Spark writes them; None if not even half of the samples are objects."""
    fields: dict[str, str] = {}
    object_count = other_count = 0
    for sample in samples:
        try:
            document = json.loads(sample) if sample is not None else None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            other_count += sample is not None
            continue
        object_count += 1
        for name, value in document.items():
            fields[name] = _merged(fields.get(name), _type_of(value))
    if not fields or object_count < other_count:
        return None
    return ", ".join(f"{_quoted(name)} {kind or _STRING}" for name, kind in fields.items())


def _type_of(value: object) -> str:
    """A JSON value's type in Spark; empty for null, which fits any."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "double"
    if isinstance(value, float):
        return "double"
    if isinstance(value, list):
        kind = ""
        for one in value:
            kind = _merged(kind, _type_of(one))
        return f"array<{kind or _STRING}>"
    if isinstance(value, dict) and value:
        fields = ", ".join(f"{_quoted(name)}: {_type_of(one) or _STRING}" for name, one in value.items())
        return f"struct<{fields}>"
    return _STRING


def _merged(one: str | None, other: str) -> str:
    if not one or one == other:
        return other
    if not other:
        return one
    return "double" if {one, other} == {"bigint", "double"} else _STRING


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def known_topics(connection: Connection) -> list[str]:
    with connection.admin() as admin:
        return sorted(admin.list_topics())


def samples(connection: Connection, topic: str) -> list[bytes | None]:
    """Values of the newest records of each partition."""
    found: list[bytes | None] = []
    with connection.consumer({"isolation.level": "read_committed"}) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(len(consumer.partitions_for(topic)))]
        ends = consumer.end_offsets(partitions)
        starts = consumer.beginning_offsets(partitions)
        partitions = [one for one in partitions if ends[one] > starts[one]]
        if not partitions:
            return found
        consumer.assign(partitions)
        for one in partitions:
            consumer.seek(one, max(starts[one], ends[one] - SAMPLE_COUNT))
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += [record.value for record in consumer.poll(POLL_TIMEOUT_MS)]
    return found


def create_topic_views(
    spark: SparkSession, connection: Connection, topics: Sequence[str], *, is_stream: bool, starting: str = "earliest"
) -> None:
    """Make a view for each topic."""
    for topic in topics:
        options = {**connection.options, "subscribe": topic, "startingOffsets": starting}
        if is_stream:
            records = spark.readStream.format("ottla").options(**options, commitOffsets="false").load()
        else:
            records = spark.read.format("ottla").options(**options).load()
        view = _registered_view(connection, topic, records)
        if view is None:
            view = topic_view(records, inferred_schema(samples(connection, topic)))
        view.createOrReplaceTempView(_quoted(topic))


def _registered_view(connection: Connection, topic: str, records: DataFrame) -> DataFrame | None:
    """A view with the columns of the registered schema; None: there is no registry, or it does not know the topic.
    What does not fit the schema reads as null."""
    if connection.registry is None:
        return None
    try:
        schema = registry_of(connection.registry).latest(subject_of(topic))
    except SchemaNotFound:
        return None
    if schema.kind == JSON:
        value = converters.without_header(F.col("value")).cast("string")
        return _with_columns(records, F.from_json(value, converters.json_columns(connection.registry, schema)))
    message = None
    if schema.kind == PROTOBUF:
        schema = registry_of(connection.registry).latest(subject_of(topic), SERIALIZED)
        message = converters.message_of_newest(connection.registry, samples(connection, topic))
    decoder = converters.registered_decoder(connection.registry, schema, message)
    return _with_columns(records, converters.decoded(decoder, F.col("value"))[converters.ROW])


def topic_view(records: DataFrame, schema: str | None) -> DataFrame:
    if schema is None:
        return records.select(*(column.alias(name) for name, column in _own_columns().items()))
    return _with_columns(records, F.from_json(F.col("value").cast("string"), schema))


def _own_columns() -> dict[str, Column]:
    return {
        "key": F.col("key").cast("string"),
        "value": F.col("value").cast("string"),
        **{name: F.col(name) for name in OWN_COLUMNS[2:]},
    }


def _with_columns(records: DataFrame, row: Column) -> DataFrame:
    """The fields of a value beside what every record has, unless a field has the name."""
    parsed = records.withColumn("_row", row)
    names = parsed.select("_row.*").columns
    own = _own_columns()
    return parsed.select("_row.*", *(column.alias(name) for name, column in own.items() if name not in names))
