"""Topics as views for SQL: a topic with a registered schema has its columns (Avro, Protobuf, JSON), any other the
fields of its values where they are JSON objects.

Those are inferred from the newest records. A record that does not fit its columns ends a statement that uses them with
an error that says where it is and what is wrong; a lenient view has nulls there. Every view also has `key` (text),
`value` (text), `partition`, `offset` and `timestamp`, unless a field has the name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.client.core.partitions import TopicPartition
from ottla.converters.decoding import Decoder
from ottla.converters.errors import SchemaNotFound
from ottla.converters.json_reader import with_any_text
from ottla.converters.json_values import UNEXPECTED, JsonDecoder
from ottla.converters.registry import JSON, PROTOBUF, SERIALIZED, registry_of, subject_of
from ottla.spark.decoded_topics import decoded_topics
from ottla.spark.pipelines import converters
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.plans import used_parts
from ottla.spark.pipelines.sources import session_zone
from ottla.spark.value_columns import ERROR as DECODE_ERROR
from ottla.spark.value_columns import RAW

SAMPLE_COUNT = 200
POLL_TIMEOUT_MS = 1000
OWN_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
LENIENT_ADVICE = "leave the record out with a condition on offset, or read what does not fit as null with --lenient"
_STRING = "string"
_DECODED = "_decoded"


def inferred_schema(samples: Iterable[bytes | None]) -> str | None:
    """The columns of JSON objects as Spark writes them; None if not even half of the samples are objects. Of names that
    differ in case only the most frequent is a column: SQL cannot tell them apart."""
    fields: dict[str, str] = {}
    counts: Counter[str] = Counter()
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
            counts[name] += 1
    if not fields or object_count < other_count:
        return None
    kept: dict[str, str] = {}
    for name, _ in counts.most_common():
        kept.setdefault(name.lower(), name)
    names = [name for name in fields if kept[name.lower()] == name]
    return ", ".join(f"{_quoted(name)} {fields[name] or _STRING}" for name in names)


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
        admin.connect()
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


class TopicViews:
    """Topics as views of a session. `is_lenient`: what does not fit its column reads as null."""

    def __init__(
        self,
        spark: SparkSession,
        connection: Connection,
        *,
        is_stream: bool,
        starting: str = "earliest",
        is_lenient: bool = False,
    ) -> None:
        self._spark = spark
        self._connection = connection
        self._is_stream = is_stream
        self._starting = starting
        self._is_lenient = is_lenient
        self._decoders: dict[str, Decoder] = {}
        self._whole: dict[str, DataFrame] = {}
        """The views of topics with decoders, with all columns."""

    def create(self, topics: Sequence[str]) -> None:
        """Make a view for each topic."""
        for topic in topics:
            found = self._registered(topic)
            if found is None:
                found = self._inferred(topic)
            if isinstance(found, Decoder):
                self._decoders[topic] = found
                view = self._whole[topic] = self._decoded(topic, found)
            elif found is None:
                view = self._records(topic).select(*(made.alias(name) for name, made in _own_columns().items()))
            else:
                view = _with_columns(self._records(topic), found)
            view.createOrReplaceTempView(_quoted(topic))

    def rows(self, statement: str) -> DataFrame:
        """The answer to a statement over these views. If it uses columns of values, the tasks that read the topics
        decode them; else nothing does."""
        for topic, view in self._whole.items():
            view.createOrReplaceTempView(_quoted(topic))
        rows = self._spark.sql(statement)
        if not self._decoders:
            return rows
        used = used_parts(rows)
        if not used.has_functions:
            return rows
        for topic, decoder in self._decoders.items():
            format_ = decoded_topics(self._spark, decoder, has_raw=used.has_values)
            records = self._records(topic, format_)
            records = records.withColumnRenamed("value", _DECODED)
            if used.has_values:
                records = records.withColumnRenamed(RAW, "value")
            view = self._shown(records, F.col(_DECODED), F.col(DECODE_ERROR))
            view.createOrReplaceTempView(_quoted(topic))
        return self._spark.sql(statement)

    def _records(self, topic: str, format_: str = "ottla") -> DataFrame:
        options = {**self._connection.options, "subscribe": topic, "startingOffsets": self._starting}
        if self._is_stream:
            return self._spark.readStream.format(format_).options(**options, commitOffsets="false").load()
        return self._spark.read.format(format_).options(**options).load()

    def _registered(self, topic: str) -> Decoder | Column | None:
        """The decoder by the registered schema; None without a registry, or if it has no schema for the topic."""
        registry = self._connection.registry
        if registry is None:
            return None
        try:
            schema = registry_of(registry).latest(subject_of(topic))
        except SchemaNotFound:
            return None
        if schema.kind == JSON and self._is_lenient:
            value = converters.without_header(F.col("value")).cast("string")
            return F.from_json(value, converters.json_columns(registry, schema))
        if schema.kind == JSON:
            columns = converters.json_struct(registry, schema)
            return JsonDecoder(columns, None, registry, zone=session_zone(self._spark), is_open=True)
        message = None
        if schema.kind == PROTOBUF:
            schema = registry_of(registry).latest(subject_of(topic), SERIALIZED)
            message = converters.message_of_newest(registry, samples(self._connection, topic))
        return converters.registered_decoder(registry, schema, message, self._is_lenient)

    def _inferred(self, topic: str) -> Decoder | Column | None:
        """The decoder for values of JSON; None if they are not JSON."""
        schema = inferred_schema(samples(self._connection, topic))
        if schema is None:
            return None
        if self._is_lenient:
            return F.from_json(F.col("value").cast("string"), schema)
        columns = with_any_text(pyarrow.field("", converters.arrow_columns(converters.schema_of("", schema)))).type
        return JsonDecoder(columns, zone=session_zone(self._spark), is_open=True)

    def _decoded(self, topic: str, decoder: Decoder) -> DataFrame:
        """A view whose values a function of Spark decodes, if a statement uses them."""
        made = self._records(topic).withColumn(_DECODED, converters.decoded(decoder, F.col("value")))
        return self._shown(made, F.col(_DECODED)[converters.ROW], F.col(_DECODED)[converters.ERROR])

    def _shown(self, records: DataFrame, row: Column, error: Column) -> DataFrame:
        """The columns of decoded values. One that does not fit them is an error when they are used."""
        if not self._is_lenient:
            place = F.format_string("topic %s, partition %d, offset %d: ", "topic", "partition", "offset")
            reason = F.concat(place, error, F.lit(f"; {LENIENT_ADVICE}"))
            row = F.when(error.isNotNull(), F.raise_error(reason)).otherwise(row)
        return _with_columns(records, row)


def _own_columns() -> dict[str, Column]:
    return {
        "key": F.col("key").cast("string"),
        "value": F.col("value").cast("string"),
        **{name: F.col(name) for name in OWN_COLUMNS[2:]},
    }


def _with_columns(records: DataFrame, row: Column) -> DataFrame:
    """The fields of a value beside what every record has, unless a field has the name."""
    parsed = records.withColumn("_row", row)
    names = [name for name in parsed.select("_row.*").columns if name != UNEXPECTED]
    own = {name: column for name, column in _own_columns().items() if name not in names and name in records.columns}
    fields = {name: F.col("_row")[name] for name in names}
    return parsed.select(*(column.alias(name) for name, column in {**fields, **own}.items()))
