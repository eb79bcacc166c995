"""A source of `pipeline.yml`, parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

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
from ottla.spark.pipelines.file_key import FLAG, LIST, NAMED, TEXT, TEXTS, TIME, FileKey, one_of
from ottla.spark.pipelines.record_parts import Key
from ottla.spark.pipelines.rule_definition import parse_measures, parse_rules
from ottla.spark.pipelines.webhook import webhook_of

SOURCE_KIND_KEYS: Final = {
    "topic": FileKey(TEXT, "a topic"),
    "topics": FileKey(LIST, "several topics as one source: `topics: [orders-gr, orders-cz]`"),
    "pattern": FileKey(
        TEXT,
        'all topics whose whole name matches a regular expression: `pattern: "orders-.*"`. Topics that are created '
        "later are read, too. A pattern that matches a topic which this pipeline writes is refused",
    ),
    "files": FileKey(TEXT, "files in a folder, as they arrive"),
    "jdbc": FileKey(TEXT, "a database, by its JDBC address; `table` names the table"),
    "delta": FileKey(TEXT, "a Delta table: a folder or an address such as `s3://lake/orders`"),
    "iceberg": FileKey(TEXT, "an Iceberg table, as `NAMESPACE.NAME` of `catalog`"),
    "spark_format": FileKey(
        TEXT, "any format that Spark or a package of yours reads: `rate`, `socket`, `orc`, `com.example.Source`"
    ),
}
"""Where rows come from; a source has one of these."""
SOURCE_KEYS: Final = {
    "format": FileKey(
        TEXT,
        "of topics `json`, `csv`, `string`, `raw`, `avro`, `protobuf` or `debezium` ([changes](changes.md#debezium)); "
        "of files `json`, `csv`, `string` or `parquet`",
        "json",
    ),
    "schema": FileKey(
        TEXT,
        "the columns, as in SQL: `id bigint, name string`. For Avro a file (`order.avsc`) or the JSON itself; for "
        "Protobuf a `.proto` file or a compiled descriptor set. With a registry it may be left out",
    ),
    "header": FileKey(FLAG, "of CSV: skip a line with the names of the columns", "false"),
    "message": FileKey(TEXT, "which message of a Protobuf schema. Without it the first"),
    "wire": FileKey(
        one_of(*WIRES),
        "`confluent`: values begin with the id of a schema. Without the key Avro and Protobuf values do if there is a "
        "registry, other values do not",
    ),
    "key": FileKey(
        "text or keys below",
        "how keys are encoded. Without it as text (`string`). See [Keys of records](sources.md#keys-of-records)",
    ),
    "starting": FileKey(one_of("earliest", "latest"), "where a new pipeline begins to read", "earliest"),
    "static": FileKey(FLAG, "files or a table are read once, to join with", "false"),
    "incremental": FileKey(TEXT, "a column of a database's table that grows. New rows are read as they appear"),
    "table": FileKey(TEXT, "of `jdbc`: the table"),
    "watermark": FileKey("keys below", "how late rows may be: `{column: at, delay: 10 minutes}`"),
    "expect": FileKey(NAMED, "rules on rows: `a name: {rule: amount > 0, action: warn}`. See [Rules](rules.md)"),
    "unparsable": FileKey(
        one_of(QUARANTINE, DROP, FAIL),
        "what happens to a row that does not fit the schema. A `static` source cannot put rows aside: it has `fail` "
        "(default) or `drop`",
        QUARANTINE,
    ),
    "lenient": FileKey(
        FLAG,
        "Spark's own functions read JSON and CSV ([what that changes](formats.md#json-and-csv)). For Avro and "
        "Protobuf: nanoseconds are cut to microseconds",
        "false",
    ),
    "rescue": FileKey(
        "text or keys below",
        "a column that keeps the fields of JSON that the schema does not have, as JSON text. `{column: rest, values: "
        "true}` also keeps values that do not fit their column; the column is null then",
    ),
    "webhook": FileKey(
        "keys below", "beside `topic`: HTTP requests become records of the topic. See [Webhooks](sources.md#webhooks)"
    ),
    "catalog": FileKey(
        TEXTS,
        "of Iceberg: pyiceberg's catalog properties. Without it a file `iceberg/catalog.db` in the pipeline's folder",
    ),
    "options": FileKey(
        TEXTS,
        "options of the connector, of Spark's file source, of the JDBC driver, of the Delta table's storage, or of "
        "the `spark_format`",
    ),
}
WATERMARK_KEYS: Final = {
    "column": FileKey(TEXT, "a column with a time"),
    "delay": FileKey(TIME, "rows that are later than this are left out of groups and joins"),
}
RESCUE_KEYS: Final = {
    "column": FileKey(TEXT, "the name of the column"),
    "values": FileKey(FLAG, "whether values that do not fit their column go there, too", "false"),
}


def parse_source(name: str, document: object, registry: RegistrySettings | None, written: Sequence[str] = ()) -> Source:
    where = f"sources.{name}"
    given = values.section(document, where, {**SOURCE_KIND_KEYS, **SOURCE_KEYS})
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
        parts = values.section(given["watermark"], f"{where}.watermark", WATERMARK_KEYS)
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
    parts = values.section(given["rescue"], f"{where}.rescue", RESCUE_KEYS)
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
