"""The keys of pipeline.yml for the parts of records beside their values: keys, headers and topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.spark.pipelines import values
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import LIST, SQL, TEXT, FileKey, one_of

NUMBER_BYTES = {"short": 2, "int": 4, "long": 8, "float": 4, "double": 8}
"""Keys as Kafka's serializers of these names write them: big endian."""
KEY_FORMATS = ("string", "raw", *NUMBER_BYTES, "json", "avro", "protobuf")
SOURCE_KEY_KEYS: Final = {
    "format": FileKey(one_of(*KEY_FORMATS), "how keys are encoded", "string"),
    "schema": FileKey(TEXT, "of JSON, Avro and Protobuf: as of a source. With a registry Avro and Protobuf need none"),
    "message": FileKey(TEXT, "which message of a Protobuf schema. Without it the first"),
    "wire": FileKey(one_of("plain", "confluent"), "as of a source"),
    "as": FileKey(TEXT, "a column with the key, beside `_key`"),
}
FLOW_KEY_KEYS: Final = {
    "expression": FileKey(SQL, "the key, from any column"),
    "columns": FileKey(LIST, "instead of `expression`: columns that together are the key"),
    "format": FileKey(one_of(*KEY_FORMATS), "how keys are encoded", "string"),
    "schema": FileKey(TEXT, "of Avro and Protobuf: as of a flow. Avro with a registry registers `TOPIC-key`"),
    "message": FileKey(TEXT, "which message of a Protobuf schema. Without it the first"),
    "wire": FileKey(one_of("plain", "confluent"), "as of a flow"),
}
FLOW_TOPIC_KEYS: Final = {
    "expression": FileKey(
        SQL, "the topic of each row. A row that names no topic, or one that does not exist, ends the flow"
    ),
    "topics": FileKey(LIST, "topics that are created if they are missing"),
}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SETTING = re.compile(r"[a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Key:
    """How keys are written."""

    format: str = "string"
    schema: str | None = None
    message: str | None = None
    wire: str | None = None
    column: str | None = None
    """For a source: a column for the key beside `_key`."""

    @property
    def can_fail_to_parse(self) -> bool:
        return self.format not in ("string", "raw")


@dataclass(frozen=True, slots=True)
class WrittenTopic:
    """Where a flow writes: one topic, or a topic for each row. A topic that is not there is made like this."""

    names: tuple[str, ...] = ()
    expression: str | None = None
    partitions: int = -1
    replication: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


def read_topics(given: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The topics of a source: `topic: NAME`, or `topics: [NAME, ...]`."""
    if "topics" not in given:
        one = values.text(given, "topic", where)
        return () if one is None else (one,)
    names = values.listed(given, "topics", where)
    if not names:
        raise PipelineError(f"{where}.topics: at least one topic is needed")
    return tuple(dict.fromkeys(_topic_name(name.strip(), f"{where}.topics") for name in names))


def read_pattern(given: Mapping[str, Any], where: str, written: Sequence[str]) -> str | None:
    """The regular expression of a source's topics. It must match none of the topics that the pipeline writes: the
    pipeline would read its own output for ever."""
    pattern = values.text(given, "pattern", where)
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise PipelineError(f"{where}.pattern: {pattern!r} is no regular expression: {error}") from None
    own = next((topic for topic in written if compiled.fullmatch(topic)), None)
    if own is not None:
        raise PipelineError(
            f"{where}.pattern: {pattern!r} matches {own}, which this pipeline writes: it would read its own rows. "
            f"Narrow the pattern, e.g. '(?!{re.escape(own)}$){pattern}', or write to a topic with another name"
        )
    return pattern


def source_key(given: Mapping[str, Any], where: str) -> Key | None:
    """`key: long`, or `key: {format: long, as: customer_id}`."""
    if "key" not in given:
        return None
    if not isinstance(given["key"], Mapping):
        return Key(values.choice(given, "key", where, KEY_FORMATS) or "string")
    where = f"{where}.key"
    parts = values.section(given["key"], where, SOURCE_KEY_KEYS)
    column = values.text(parts, "as", where)
    if column is not None and not values.NAME.fullmatch(column):
        raise PipelineError(f"{where}.as: {column!r} may have letters, digits and '_' only: it is a column")
    key = _key(parts, where, column)
    if key.format == "json" and key.schema is None and key.wire is None:
        raise PipelineError(f"{where}: format json needs a schema, e.g. 'schema: id bigint'")
    return key


def flow_key(given: Mapping[str, Any], where: str) -> tuple[str | None, Key | None]:
    """The expression of a flow's keys and how they are written: `key: EXPRESSION`, or
    `key: {expression: EXPRESSION, format: long}`, or `key: {columns: [id, day], format: json}`."""
    if not isinstance(given.get("key"), Mapping):
        return values.text(given, "key", where), None
    where = f"{where}.key"
    parts = values.section(given["key"], where, FLOW_KEY_KEYS)
    expression, columns = values.text(parts, "expression", where), values.listed(parts, "columns", where)
    if (expression is None) == (not columns):
        raise PipelineError(f"{where}: it needs 'expression: SQL' or 'columns: [NAME, ...]'")
    if columns:
        expression = f"struct({', '.join(f'`{name}`' for name in columns)})"
    return expression, _key(parts, where, None)


def _key(parts: Mapping[str, Any], where: str, column: str | None) -> Key:
    return Key(
        format=values.choice(parts, "format", where, KEY_FORMATS) or "string",
        schema=values.text(parts, "schema", where),
        message=values.text(parts, "message", where),
        wire=values.choice(parts, "wire", where, ("plain", "confluent")),
        column=column,
    )


def written_topic(given: Mapping[str, Any], where: str) -> WrittenTopic:
    """`topic: NAME`, or `topic: {expression: SQL, topics: [NAME, ...]}`, and what a topic that is made gets."""
    names: tuple[str, ...] = ()
    expression = None
    if isinstance(given.get("topic"), Mapping):
        parts = values.section(given["topic"], f"{where}.topic", FLOW_TOPIC_KEYS)
        expression = values.text(parts, "expression", f"{where}.topic")
        if expression is None:
            raise PipelineError(f"{where}.topic: it needs 'expression: SQL', which gives the topic of each row")
        listed = values.listed(parts, "topics", f"{where}.topic")
        names = tuple(_topic_name(name, f"{where}.topic.topics") for name in listed)
    elif "topic" in given:
        names = (values.text(given, "topic", where) or "",)
    config = values.texts(given, "config", where)
    for name in config:
        if not _SETTING.fullmatch(name):
            raise PipelineError(f"{where}.config: {name!r} is no setting of a topic such as cleanup.policy")
    partitions, replication = (_count(given, name, where) for name in ("partitions", "replication"))
    return WrittenTopic(names, expression, partitions, replication, config)


def headers(given: Mapping[str, Any], where: str) -> Mapping[str, str] | str | None:
    """`headers: {NAME: EXPRESSION}`; or one expression for all of them, e.g. `headers: _headers`."""
    if "headers" not in given:
        return None
    if isinstance(given["headers"], Mapping):
        return values.texts(given, "headers", where)
    return values.text(given, "headers", where)


def _topic_name(name: str, where: str) -> str:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise PipelineError(f"{where}: {name!r} is no name of a topic: letters, digits, '.', '_' and '-', up to 249")
    return name


def _count(given: Mapping[str, Any], key: str, where: str) -> int:
    text = values.text(given, key, where)
    if text is None:
        return -1
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise PipelineError(f"{where}.{key}: a whole number from 1 on is expected, not {text!r}")
    return int(text)
