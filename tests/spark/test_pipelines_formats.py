"""Formats in pipelines: Avro, Protobuf and registered JSON from a topic to a topic, Delta and Iceberg tables. One
pipeline of each kind runs always, more of them with OTTLA_INTEROP_ALL=1."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla.converters.avro import AvroDecoder, AvroEncoder
from ottla.converters.protobuf import ProtobufDecoder, ProtobufEncoder
from ottla.converters.protobuf_schema import compiled
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.redrive import read_letters, redrive
from ottla.spark.pipelines.table_flows import table_settings
from ottla.spark.pipelines.topic_views import TopicViews
from ottla.spark.tables.table import open_table, prepare_table
from ottla.testing.registry import TestRegistry
from tests.schema_registry import SchemaRegistry, schema_registry
from tests.spark.conftest import Runner, Topics, pipeline_of

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"], "default": None},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}]}
COLUMNS = AvroDecoder(json.dumps(ORDER)).type
ROWS: list[dict[str, Any]] = [
    {"id": 1, "item": "tea", "placed": 1_700_000_000_000_000},
    {"id": 2, "item": None, "placed": 0},
]
needs_time = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="more of the same takes long: only with OTTLA_INTEROP_ALL=1"
)
PROTO = 'syntax = "proto3"; package shop; message Gone {int32 a = 1;} message Total {string item = 1; int64 n = 2;}'


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made


def converting(
    topics: Topics, folder: Path, registry: SchemaRegistry, source: dict[str, Any], flow: dict[str, Any], **flows: Any
) -> tuple[Pipeline, str, str]:
    """A pipeline from one new topic to another, and their names."""
    target = topics.new(1)
    made = pipeline_of(topics, folder, source, {"topic": target, **flow}, flows, registry={"url": registry.url})
    return made, made.name, target


def table_rows(pipeline: Pipeline, index: int) -> list[dict[str, Any]]:
    """The rows of the table of a flow, but not those that are all null (a record without a value)."""
    table = open_table(table_settings(pipeline, pipeline.flows[index]))
    files = table.files_of(table.version())
    found = [row for file in files for batch in table.read(file) for row in batch.to_pylist()]
    return sorted((row for row in found if row["id"] is not None), key=lambda row: int(row["id"]))


@needs_time
def test_plain_protobuf_becomes_avro_with_a_registered_schema_of_its_columns(
    runner: Runner, topics: Topics, tmp_path: Path, registry: SchemaRegistry
) -> None:
    (tmp_path / "total.proto").write_text(PROTO)
    source = {"format": "protobuf", "schema": "total.proto", "message": "shop.Total", "wire": "plain"}
    pipeline, topic, target = converting(topics, tmp_path, registry, source, {"format": "avro"})
    files, _ = compiled(str(tmp_path / "total.proto"))
    columns = pyarrow.struct([("item", pyarrow.string()), ("n", pyarrow.int64())])
    given = pyarrow.array([{"item": "tea", "n": 1}], columns)
    value = ProtobufEncoder(files, "shop.Total", columns).encode(given)[0].as_py()
    topics.produce(topic, [(None, value), (None, b"\xff\xff")])
    assert runner.run(pipeline)["rows"]["letters"] == 1
    found = topics.raw_values(target)
    decoder = AvroDecoder(json.dumps(NEWER), (), registry.settings)
    assert decoder.decode(pyarrow.array(found))[1][0].as_py() is not None  # it is no order
    schema = registry.latest(f"{target}-value")
    decoder = AvroDecoder(schema, (), registry.settings)
    assert decoder.decode(pyarrow.array(found))[0].to_pylist() == [{"item": "tea", "n": 1}]


@needs_time
def test_registered_json_has_the_columns_of_its_schema(
    runner: Runner, topics: Topics, tmp_path: Path, registry: SchemaRegistry
) -> None:
    confluent = {"format": "json", "wire": "confluent"}
    pipeline, source, target = converting(topics, tmp_path, registry, confluent, confluent)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "item": {"type": ["null", "string"]}}}
    number = registry.add(f"{source}-value", json.dumps(schema), "JSON")
    head = b"\0" + number.to_bytes(4, "big")
    topics.produce(source, [(None, head + b'{"id": 1, "item": "tea"}'), (None, head + b"{")])
    assert runner.run(pipeline)["rows"]["letters"] == 1
    (found,) = topics.raw_values(target)
    assert json.loads(found[5:]) == {"id": 1, "item": "tea"}
    registered = json.loads(registry.latest(f"{target}-value"))
    assert registered["properties"] == {"id": {"type": "integer"}, "item": {"type": "string"}}


@needs_time
def test_a_schema_that_does_not_fit_is_said_before_anything_runs(
    runner: Runner, topics: Topics, tmp_path: Path, registry: SchemaRegistry
) -> None:
    def said(source: dict[str, Any], flow: dict[str, Any]) -> str:
        with pytest.raises(PipelineError) as raised:
            runner.run(converting(topics, tmp_path, registry, source, flow)[0])
        return str(raised.value)

    text = {"format": "string"}
    assert "has no version latest of the subject" in said({"format": "avro"}, {})
    assert "no file with one" in said({"format": "avro", "schema": "nothing.avsc"}, {})
    assert "the column value is not in the schema" in said(text, {"format": "avro", "schema": json.dumps(ORDER)})
    refused = json.dumps({"type": "record", "name": "incompatible", "fields": [{"name": "value", "type": "string"}]})
    assert "a field was removed" in said(text, {"format": "avro", "schema": refused})


def test_registered_avro_is_read_by_the_writers_schema_and_written_as_protobuf_and_to_a_table(
    runner: Runner, topics: Topics, tmp_path: Path, spark: SparkSession, registry: SchemaRegistry
) -> None:
    (tmp_path / "total.proto").write_text(PROTO)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "totals.sql").write_text("select item, id as n from rows where note = 'none'")
    flow = {"from": "totals", "format": "protobuf", "schema": "total.proto", "message": "Total", "key": "item"}
    table = {"from": "rows", "delta": "orders", "partition_by": ["item"]}
    pipeline, source, target = converting(topics, tmp_path, registry, {"format": "avro"}, flow, table=table)
    old = registry.add(f"{source}-value", json.dumps(ORDER))
    registry.add(f"{source}-value", json.dumps(NEWER))
    written = AvroEncoder(json.dumps(ORDER), (), COLUMNS, old).encode(pyarrow.array(ROWS, COLUMNS)).to_pylist()
    bad = [written[0] + b"?", b"plain", b"\0\0\0\0\x63" + written[0][5:]]
    topics.produce(source, [(None, value) for value in [*written, *bad, None]])

    status = runner.run(pipeline)
    assert status["rows"]["letters"] == 3
    assert table_rows(pipeline, 1) == [{**row, "note": "none"} for row in pyarrow.array(ROWS, COLUMNS).to_pylist()]
    files, _ = compiled(str(tmp_path / "total.proto"))
    found = ProtobufDecoder(files, "shop.Total", registry.settings).decode(pyarrow.array(topics.raw_values(target)))
    assert found[0].to_pylist() == [{"item": "tea", "n": 1}, {"item": "", "n": 2}]
    letters = list(read_letters(pipeline, topics.connection))
    assert [letter.value for letter in letters] == bad
    assert [letter.rule for letter in letters] == ["parse"] * 3
    assert "1 bytes are left over" in letters[0].error
    assert "not in the Confluent wire format" in letters[1].error
    assert "no schema with the id 99" in letters[2].error

    connection = Connection(topics.bootstrap, {}, registry.settings)
    views = TopicViews(spark, connection, is_stream=False)
    views.create([source])
    with pytest.raises(PySparkException, match=f"topic {source}, partition 0, offset 2: the value does not fit"):
        views.rows(f"select id from `{source}`").collect()
    views = TopicViews(spark, connection, is_stream=False, is_lenient=True)
    views.create([source, target])
    query = f"select id, item, year(placed) y, note, `offset` from `{source}` where id is not null order by id"
    assert [tuple(row) for row in views.rows(query).collect()] == [
        (1, "tea", 2023, "none", 0),
        (2, None, 1970, "none", 1),
    ]
    assert [tuple(row) for row in views.rows(f"select item, n from `{target}` order by n").collect()] == [
        ("tea", 1),
        ("", 2),
    ]


@needs_time
def test_a_topic_is_kept_as_tables_and_a_table_is_followed(
    runner: Runner, topics: Topics, tmp_path: Path, spark: SparkSession
) -> None:
    target = topics.new(1)
    schema = "id bigint, country string, at timestamp"
    partitioned = {"partition_by": ["country"], "compact_every": 2}
    document = {
        "name": topics.new(1),
        "sources": {
            "rows": {"topic": "${TOPIC}", "schema": schema},
            "table": {
                "delta": "orders",
                "expect": {"has a country": {"rule": "country != ''", "action": "quarantine"}},
            },
        },
        "flows": {
            "delta": {"from": "rows", "delta": "orders", **partitioned},
            "iceberg": {"from": "rows", "iceberg": "shop.orders", **partitioned},
            "again": {"from": "table", "topic": target},
        },
    }
    topic = str(document["name"])
    pipeline = parse_pipeline(tmp_path, document, {"TOPIC": topic})
    moment = pyarrow.timestamp("us", "UTC")
    columns = pyarrow.schema([("id", pyarrow.int64()), ("country", pyarrow.string()), ("at", moment)])
    prepare_table(table_settings(pipeline, pipeline.flows[0]), columns)

    def send(*ids: int) -> dict[str, Any]:
        rows = [
            {"id": one, "country": "" if one == 3 else "GR", "at": f"2026-11-16T08:00:0{one}.123456Z"} for one in ids
        ]
        topics.produce(topic, [(None, json.dumps(row)) for row in rows])
        return runner.run(pipeline)

    assert send(1, 2)["again"]["rows_out"] == 2
    last = send(3)
    assert (last["delta"]["rows_out"], last["table"]["letters"]) == (1, 1)
    for index in range(2):
        assert [row["id"] for row in table_rows(pipeline, index)] == [1, 2, 3]
    (letter,) = read_letters(pipeline, topics.connection)
    assert json.loads(letter.value or b"") == {"id": 3, "country": "", "at": "2026-11-16T08:00:03.123456Z"}
    letter.value = (letter.value or b"").replace(b'"country":""', b'"country":"CZ"')
    (tmp_path / "letters").write_text(json.dumps(letter.to_json()))
    assert redrive(pipeline, runner.state, topics.connection, str(tmp_path / "letters")) == 1
    assert runner.run(pipeline)["again"]["rows_out"] == 1
    sent = [json.loads(value) for value in topics.values(target)]
    assert [(row["id"], row["country"]) for row in sent] == [(1, "GR"), (2, "GR"), (3, "CZ")]
    assert sent[2]["at"].startswith("2026-11-16T08:00:03.123")


PERSON = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
}
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.people",
    "fields": [
        {"name": "before", "type": ["null", PERSON], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [
                    {"name": "ts_ms", "type": "long"},
                    {"name": "table", "type": "string"},
                    {"name": "lsn", "type": ["null", "long"], "default": None},
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


@needs_time
def test_changes_of_debezium_in_avro_need_no_schema_in_the_file(
    runner: Runner, topics: Topics, tmp_path: Path, registry: SchemaRegistry
) -> None:
    source = {
        "format": "debezium",
        "wire": "confluent",
        "expect": {"named": {"rule": "coalesce(name, '') <> 'x'", "action": "quarantine"}},
    }
    flow = {"delta": "people", "keys": ["id"]}
    pipeline = pipeline_of(topics, tmp_path, source, flow, registry={"url": registry.url})
    schema = json.dumps(ENVELOPE)
    schema_id = registry.add(f"{pipeline.name}-value", schema)
    columns = AvroDecoder(schema).type

    def change(operation: str, number: int, name: str | None, lsn: int) -> dict[str, Any]:
        row = {"id": number, "name": name}
        about = {"ts_ms": 1_700_000_000_000, "table": "people", "lsn": lsn}
        side = "before" if operation == "d" else "after"
        return {"before": None, "after": None, side: row, "source": about, "op": operation, "ts_ms": None}

    changes = [
        *(change("r", 1, "Ann", 10), change("c", 2, "Bob", 20), change("u", 1, "Anna", 40), change("u", 1, "late", 30)),
        *(change("d", 2, None, 50), change("t", 0, None, 60), change("c", 3, "x", 70)),
    ]
    values = AvroEncoder(schema, (), columns, schema_id).encode(pyarrow.array(changes, columns)).to_pylist()
    topics.produce(pipeline.name, [(None, value) for value in [*values, None]])
    status = runner.run(pipeline)
    assert [(row["id"], row["name"], row["__SEQUENCE"]) for row in table_rows(pipeline, 0)] == [(1, "Anna", 40)]
    assert status["rows"]["letters"] == 2
    letters = sorted(read_letters(pipeline, topics.connection), key=lambda letter: letter.value or b"")
    assert sorted(letter.value or b"" for letter in letters) == sorted(values[5:])
    assert {letter.rule for letter in letters} == {"parse", "named"}


@needs_time
def test_changes_of_debezium_in_avro_as_another_client_writes_them_through_ottlas_registry(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    """confluent-kafka registers the schema and writes the values, as Debezium's converter does; the table of the source
    gets a column between two runs."""
    registry = TestRegistry()
    try:
        url = registry.start(topics.bootstrap)
        source = {"format": "debezium", "wire": "confluent", "options": {"maxOffsetsPerTrigger": 3}}
        pipeline = pipeline_of(
            topics, tmp_path, source, {"delta": "people", "keys": ["id"], "evolve": True}, registry={"url": url}
        )
        client = SchemaRegistryClient({"url": url})

        def send(schema: dict[str, Any], *changes: tuple[str, dict[str, Any], int]) -> None:
            serialize = AvroSerializer(client, json.dumps(schema))
            about = {"ts_ms": 1_700_000_000_000, "table": "people"}
            context = SerializationContext(pipeline.name, MessageField.VALUE)
            for operation, row, lsn in changes:
                side = "before" if operation == "d" else "after"
                envelope = {"before": None, "after": None, side: row, "source": {**about, "lsn": lsn}, "op": operation}
                topics.produce(pipeline.name, [(str(row["id"]), serialize(envelope, context))])

        send(ENVELOPE, ("c", {"id": 1, "name": "Ann"}, 10), ("c", {"id": 2, "name": "Bob"}, 20))
        send(ENVELOPE, ("u", {"id": 1, "name": "Anna"}, 40), ("u", {"id": 1, "name": "late"}, 30))
        runner.run(pipeline)
        wider = json.loads(json.dumps(ENVELOPE))
        wider["fields"][0]["type"][1]["fields"].append({"name": "age", "type": ["null", "int"], "default": None})
        send(wider, ("d", {"id": 2, "name": None, "age": None}, 50), ("c", {"id": 3, "name": "Eve", "age": 7}, 60))
        send(wider, ("u", {"id": 2, "name": "late", "age": 1}, 45))
        runner.run(pipeline)
        rows = [(row["id"], row["name"], row.get("age")) for row in table_rows(pipeline, 0)]
        assert rows == [(1, "Anna", None), (3, "Eve", 7)]
    finally:
        registry.close()
