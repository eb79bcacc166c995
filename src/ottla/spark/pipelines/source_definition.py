"""A source of `pipeline.yml`, parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.converters.registry import RegistrySettings
from ottla.spark.pipelines import record_parts, values
from ottla.spark.pipelines.definition import (
    CONFLUENT,
    CONVERTERS,
    DEBEZIUM,
    DROP,
    FAIL,
    FILE_FORMATS,
    PLAIN,
    QUARANTINE,
    REGISTERED,
    SEVERAL_TOPICS,
    SOURCE_KINDS,
    WIRES,
    Source,
)
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.record_parts import Key
from ottla.spark.pipelines.rule_definition import parse_measures, parse_rules
from ottla.spark.pipelines.webhook import webhook_of

_SOURCE_KEYS = (
    *(*SOURCE_KINDS, *SEVERAL_TOPICS, "key", "webhook"),
    *("format", "schema", "starting", "header", "static", "table", "incremental", "watermark"),
    *("expect", "unparsable", "lenient", "rescue", "options", "message", "wire", "catalog"),
)


def parse_source(name: str, document: object, registry: RegistrySettings | None, written: Sequence[str] = ()) -> Source:
    where = f"sources.{name}"
    given = values.section(document, where, _SOURCE_KEYS)
    kinds = [one for one in (*SOURCE_KINDS, *SEVERAL_TOPICS) if one in given]
    if len(kinds) != 1:
        raise PipelineError(
            f"{where}: it needs one of {', '.join((*SOURCE_KINDS, *SEVERAL_TOPICS))}, and has "
            f"{', '.join(kinds) or 'none'} (a second one may be a variable that is empty by default: "
            "'jdbc: ${DATABASE:-}' beside 'files: ...')"
        )
    kind = "topic" if kinds[0] in SEVERAL_TOPICS else kinds[0]
    topics = record_parts.read_topics(given, where) if kind == "topic" else ()
    if kind == "jdbc" and "table" not in given:
        raise PipelineError(f"{where}: a jdbc source needs 'table: NAME'")
    allowed = {"topic": (*CONVERTERS, DEBEZIUM), "files": FILE_FORMATS}.get(kind, ())
    chosen = (values.choice(given, "format", where, allowed) or "json") if allowed else None
    schema = values.text(given, "schema", where) if allowed or kind == "spark_format" else None
    wire = parse_wire(given, where, chosen, registry)
    is_registered = registry is not None and wire == CONFLUENT and "pattern" not in given
    if schema is None and chosen in ("avro", "protobuf") and not is_registered:
        raise PipelineError(f"{where}: {needs_schema(chosen)}")
    if chosen in ("json", "csv", "parquet", DEBEZIUM) and schema is None and not is_registered:
        raise PipelineError(f"{where}: format {chosen} needs a schema, e.g. 'schema: id bigint, name string'")
    watermark = None
    if "watermark" in given:
        parts = values.section(given["watermark"], f"{where}.watermark", ("column", "delay"))
        column, delay = (values.text(parts, key, f"{where}.watermark") for key in ("column", "delay"))
        if column is None or delay is None:
            raise PipelineError(f"{where}.watermark: it needs a column and a delay, e.g. '10 minutes'")
        watermark = (column, delay)
    rescue, rescues_values = _rescue(given, where)
    made = Source(
        name=name,
        topic=topics[0] if topics else None,
        topics=topics,
        pattern=record_parts.read_pattern(given, where, written) if kind == "topic" else None,
        key=_source_key(given, where, kind, registry),
        webhook=webhook_of(given, where),
        spark_format=values.text(given, "spark_format", where) if kind == "spark_format" else None,
        files=values.text(given, "files", where) if kind == "files" else None,
        jdbc=values.text(given, "jdbc", where) if kind == "jdbc" else None,
        delta=values.text(given, "delta", where) if kind == "delta" else None,
        iceberg=values.text(given, "iceberg", where) if kind == "iceberg" else None,
        catalog=values.texts(given, "catalog", where),
        format=chosen,
        schema=schema,
        message=values.text(given, "message", where),
        wire=wire,
        starting=values.choice(given, "starting", where, ("earliest", "latest")) or "earliest",
        header=values.flag(given, "header", where),
        static=values.flag(given, "static", where),
        table=values.text(given, "table", where),
        incremental=values.text(given, "incremental", where) if kind == "jdbc" else None,
        watermark=watermark,
        rules=parse_rules(given.get("expect", {}), f"{where}.expect"),
        measures=parse_measures(given.get("expect", {}), f"{where}.expect"),
        unparsable=values.choice(given, "unparsable", where, (DROP, QUARANTINE, FAIL))
        or (FAIL if values.flag(given, "static", where) else QUARANTINE),
        lenient=values.flag(given, "lenient", where),
        rescue=rescue,
        rescues_values=rescues_values,
        options=values.texts(given, "options", where),
    )
    if (made.rules or made.measures) and not made.is_stream:
        raise PipelineError(f"{where}.expect: only rows of a stream are judged, and this source is read once")
    if made.static and made.unparsable == QUARANTINE:
        raise PipelineError(f"{where}.unparsable: rows of a source that is read once are not put aside: drop or fail")
    if made.lenient and made.format not in ("json", "csv", "avro", "protobuf"):
        raise PipelineError(f"{where}.lenient: only json, csv, avro and protobuf can be read that way")
    if made.rescue is not None and (made.format != "json" or made.lenient):
        raise PipelineError(f"{where}.rescue: only json that is read strictly has fields to rescue")
    if made.rescue is not None and not values.NAME.fullmatch(made.rescue):
        raise PipelineError(f"{where}.rescue: {made.rescue!r} may have letters, digits and '_' only: it is a column")
    if made.kind == "topic" and made.static:
        raise PipelineError(f"{where}.static: a topic is a stream; files and jdbc tables can be read once")
    return made


def _rescue(given: Mapping[str, Any], where: str) -> tuple[str | None, bool]:
    """`rescue`: the column for fields that the schema does not have, and whether values that do not fit go there,
    too."""
    if not isinstance(given.get("rescue"), dict):
        return values.text(given, "rescue", where), False
    parts = values.section(given["rescue"], f"{where}.rescue", ("column", "values"))
    column = values.text(parts, "column", f"{where}.rescue")
    if column is None:
        raise PipelineError(f"{where}.rescue: it needs a column, e.g. '{{column: rest, values: true}}'")
    return column, values.flag(parts, "values", f"{where}.rescue")


def _source_key(given: Mapping[str, Any], where: str, kind: str, registry: RegistrySettings | None) -> Key | None:
    key = record_parts.source_key(given, where)
    if key is None:
        return None
    if kind != "topic":
        raise PipelineError(f"{where}.key: only records of topics have keys")
    wire = parse_wire({} if key.wire is None else {"wire": key.wire}, f"{where}.key", key.format, registry)
    if key.format in ("avro", "protobuf") and key.schema is None and wire != CONFLUENT:
        raise PipelineError(f"{where}.key: {needs_schema(key.format)}")
    return replace(key, wire=wire)


def parse_wire(given: Mapping[str, Any], where: str, chosen: str | None, registry: RegistrySettings | None) -> str:
    """Whether values have the Confluent wire format: Avro and Protobuf have, where there is a registry."""
    wire = values.choice(given, "wire", where, WIRES)
    if wire == CONFLUENT and chosen not in (*REGISTERED, DEBEZIUM):
        raise PipelineError(f"{where}.wire: only {', '.join(REGISTERED)} have the Confluent wire format")
    if wire == CONFLUENT and registry is None:
        raise PipelineError(f"{where}.wire: it needs 'registry: {{url: ...}}' at the top of the file")
    return wire or (CONFLUENT if registry is not None and chosen in ("avro", "protobuf") else PLAIN)


def needs_schema(chosen: str) -> str:
    suffix = {"avro": "avsc", "protobuf": "proto"}[chosen]
    return f"format {chosen} needs a file, e.g. 'schema: order.{suffix}', or 'registry: {{url: ...}}' at the top"
