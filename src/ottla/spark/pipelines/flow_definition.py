"""A flow of `pipeline.yml`, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

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
    WIRES,
    Flow,
)
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import FLAG, LIST, NAMED, NUMBER, TEXT, TEXTS, TIME, FileKey, one_of
from ottla.spark.pipelines.http_request import http_request
from ottla.spark.pipelines.lifecycle import ON_FAILURE
from ottla.spark.pipelines.record_parts import Key
from ottla.spark.pipelines.rule_definition import parse_measures, parse_rules
from ottla.spark.pipelines.source_definition import needs_schema, parse_wire

FLOW_KIND_KEYS: Final = {
    "topic": FileKey(
        "text or keys below",
        "a topic, exactly once. `{expression: \"concat('orders-', country)\", topics: [orders-gr, orders-cz]}`: each "
        "row names its topic",
    ),
    "files": FileKey(TEXT, "files in a folder, exactly once"),
    "jdbc": FileKey(
        TEXT, "a database, by its JDBC address; `table` names the table. Exactly once, or as `guarantee` says"
    ),
    "delta": FileKey(TEXT, "a Delta table, exactly once: a folder or an address such as `s3://lake/orders`"),
    "iceberg": FileKey(TEXT, "an Iceberg table, exactly once, as `NAMESPACE.NAME` of `catalog`"),
    "http": FileKey(TEXT, "an HTTP service, by its address, at least once. See [HTTP](targets.md#http)"),
    "spark_format": FileKey(
        TEXT, "any format that Spark or a package of yours writes as a stream, with the guarantee of that format's sink"
    ),
}
"""Where rows go; a flow has one of these."""
FLOW_KEYS: Final = {
    "from": FileKey(TEXT, "the source or view. Without it the one with the name of the flow"),
    "format": FileKey(
        TEXT,
        "of a topic `json` (default), `csv`, `string`, `raw`, `avro` or `protobuf`; of files `parquet` (default), "
        "`json` or `csv`",
    ),
    "schema": FileKey(
        TEXT,
        "as of [sources](sources.md#keys-of-a-source). Avro without a schema takes it from the columns. Protobuf "
        "always needs one, because the numbers of its fields must stay the same",
    ),
    "message": FileKey(TEXT, "which message of a Protobuf schema. Without it the first"),
    "wire": FileKey(one_of(*WIRES), "as of [sources](sources.md#keys-of-a-source)"),
    "register": FileKey(
        FLAG, "`false`: use the registry's newest schema of `TOPIC-value` instead of registering one", "true"
    ),
    "partitions": FileKey(NUMBER, "of a topic that the flow creates. Without it the broker's default"),
    "replication": FileKey(NUMBER, "replicas of a topic that the flow creates. Without it the broker's default"),
    "config": FileKey(
        TEXTS,
        "settings of a topic that the flow creates: `config: {cleanup.policy: compact}`. An existing topic is left as "
        "it is",
    ),
    "key": FileKey(
        "SQL expression or keys below",
        "the key of the records, written as text; or `{expression: id, format: long}`, or `{columns: [id, day], "
        "format: json}`, with the [formats of keys](sources.md#keys-of-records)",
    ),
    "headers": FileKey(
        "names with SQL expressions",
        "`{trace: \"header(_headers, 'trace')\", source: \"'shop'\"}`: one header for each name, from any column. A "
        "null leaves it out. Or one expression for all: `headers: _headers`",
    ),
    "table": FileKey(TEXT, "of `jdbc`: the table"),
    "mode": FileKey(one_of(*MODES), "see [Modes](targets.md#modes)", MODES[0]),
    "partition_by": FileKey(
        LIST,
        "columns, of files and tables. Files of a Delta table lie in folders `country=GR/day=2026-11-17/`, like those "
        "of Spark and delta-rs",
    ),
    "evolve": FileKey(
        FLAG, "columns that the table does not have are added to it. Without it they are an error", "false"
    ),
    "compact_every": FileKey(
        NUMBER,
        "after so many batches the small files of a table are merged into large ones. `ottla pipeline compact NAME` "
        "does it at once",
    ),
    "catalog": FileKey(TEXTS, "of Iceberg: as of [sources](sources.md#keys-of-a-source)"),
    "request": FileKey("keys below", "of `http`: see [HTTP](targets.md#http)"),
    "options": FileKey(TEXTS, "of the connector, the driver, the table's storage, or the `spark_format` (`path`, ...)"),
    "expect": FileKey(NAMED, "rules on the rows that are written: see [Rules](rules.md)"),
    "on_failure": FileKey(one_of(*ON_FAILURE), "as in the file, for this flow only: see [Failures](failures.md)"),
    "retry_for": FileKey(TIME, "as in the file, for this flow only"),
    "poison": FileKey(NUMBER, "as in the file, for this flow only"),
    "guarantee": FileKey(
        one_of(*GUARANTEES),
        "of a database. For exactly once, the tables `ottla_batches` and `ottla_staging_...` are made beside the "
        "target",
        EXACTLY_ONCE,
    ),
}


def parse_flow(name: str, document: object, registry: RegistrySettings | None) -> Flow:
    where = f"flows.{name}"
    given = values.section(document, where, {"from": FLOW_KEYS["from"], **FLOW_KIND_KEYS, **FLOW_KEYS, **CHANGE_KEYS})
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
