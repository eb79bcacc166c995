"""A flow of `pipeline.yml`, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.converters.registry import RegistrySettings
from ottla.spark.pipelines import record_parts, values
from ottla.spark.pipelines.change_definition import CHANGE_KEYS, parse_changes
from ottla.spark.pipelines.definition import (
    CONFLUENT,
    CONVERTERS,
    EXACTLY_ONCE,
    GUARANTEES,
    MODES,
    PLAIN,
    TARGET_KINDS,
    Flow,
)
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.http_request import http_request
from ottla.spark.pipelines.lifecycle import ON_FAILURE
from ottla.spark.pipelines.record_parts import Key
from ottla.spark.pipelines.rule_definition import parse_measures, parse_rules
from ottla.spark.pipelines.source_definition import needs_schema, parse_wire

_FLOW_KEYS = (
    *("from", *TARGET_KINDS, "format", "key", "table", "mode", "partition_by", "options"),
    *("schema", "message", "wire", "register", "guarantee", "catalog", "evolve", "compact_every"),
    *("headers", "partitions", "replication", "config", "request"),
    *("expect", "on_failure", "retry_for", "poison"),
    *CHANGE_KEYS,
)


def parse_flow(name: str, document: object, registry: RegistrySettings | None) -> Flow:
    where = f"flows.{name}"
    given = values.section(document, where, _FLOW_KEYS)
    kinds = [one for one in TARGET_KINDS if one in given]
    if len(kinds) != 1:
        raise PipelineError(f"{where}: it needs one of {', '.join(TARGET_KINDS)}, and has {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    to = record_parts.written_topic(given, where)
    for one in ("headers", "partitions", "replication", "config", "key"):
        if one in given and kind != "topic":
            raise PipelineError(f"{where}.{one}: only records of topics have it, and {name} writes to {kind}")
    key, key_format = _flow_key(given, where, registry)
    allowed = {"topic": CONVERTERS, "files": ("parquet", "json", "csv")}.get(kind, ())
    chosen = values.choice(given, "format", where, allowed) if allowed else None
    wire = parse_wire(given, where, chosen or "json", registry)
    schema = values.text(given, "schema", where)
    registers = values.flag(given, "register", where) if "register" in given else True
    if chosen == "protobuf" and schema is None and (wire == PLAIN or registers):
        raise PipelineError(
            f"{where}: format protobuf needs a file, e.g. 'schema: order.proto': the numbers of its fields have to "
            "stay the same; 'register: false' takes the registry's newest schema"
        )
    if kind == "jdbc" and "table" not in given:
        raise PipelineError(f"{where}: a jdbc target needs 'table: NAME'")
    if to.expression is not None and CONFLUENT in (wire, None if key_format is None else key_format.wire):
        raise PipelineError(
            f"{where}.topic: a registry has a schema for each topic, and here each row names its topic: 'wire: "
            "plain', or one flow for each topic"
        )
    mode = values.choice(given, "mode", where, MODES) or "append"
    guarantee = values.choice(given, "guarantee", where, GUARANTEES) or EXACTLY_ONCE
    changes = parse_changes(given, where, kind, mode, guarantee)
    compact_every = values.text(given, "compact_every", where)
    if compact_every is not None and (not compact_every.isdecimal() or int(compact_every) == 0):
        raise PipelineError(f"{where}.compact_every: a number of batches is expected, not {compact_every!r}")
    return Flow(
        name=name,
        reads=values.text(given, "from", where) or name,
        topic=to.names[0] if to.names and to.expression is None else None,
        to=to,
        key_format=key_format,
        headers=record_parts.headers(given, where),
        http=values.text(given, "http", where),
        request=http_request(given, where) if kind == "http" else None,
        spark_format=values.text(given, "spark_format", where),
        files=values.text(given, "files", where),
        jdbc=values.text(given, "jdbc", where),
        delta=values.text(given, "delta", where),
        iceberg=values.text(given, "iceberg", where),
        catalog=values.texts(given, "catalog", where),
        schema=schema,
        message=values.text(given, "message", where),
        wire=wire,
        registers=registers,
        guarantee=guarantee,
        evolves=values.flag(given, "evolve", where),
        compact_every=None if compact_every is None else int(compact_every),
        format=chosen or {"topic": "json", "files": "parquet"}.get(kind),
        key=key,
        table=values.text(given, "table", where),
        mode=mode,
        changes=changes,
        partition_by=values.listed(given, "partition_by", where),
        options=values.texts(given, "options", where),
        rules=parse_rules(given.get("expect", {}), f"{where}.expect"),
        measures=parse_measures(given.get("expect", {}), f"{where}.expect"),
        on_failure=values.choice(given, "on_failure", where, ON_FAILURE),
        retry_for_ms=values.interval_ms(given, "retry_for", where),
        poison=values.number(given, "poison", where),
    )


def _flow_key(given: Mapping[str, Any], where: str, registry: RegistrySettings | None) -> tuple[str | None, Key | None]:
    expression, key = record_parts.flow_key(given, where)
    if key is None:
        return expression, None
    wire = parse_wire({} if key.wire is None else {"wire": key.wire}, f"{where}.key", key.format, registry)
    if key.format == "protobuf" and key.schema is None:
        raise PipelineError(f"{where}.key: {needs_schema(key.format)}")
    return expression, replace(key, wire=wire)
