"""Changes (CDC, upserts) in pipelines: Debezium's envelope and plain rows to tables and topics, out of order and in
several batches. Databases are in test_pipelines_changes_processes.py."""

from __future__ import annotations

import importlib.util
import json
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from ottla.spark.pipelines.definition import BadData, PipelineError
from ottla.spark.pipelines.grouping import grouping_columns
from ottla.spark.pipelines.pipeline_file import load_pipeline, parse_pipeline
from ottla.spark.pipelines.redrive import read_letters
from ottla.spark.pipelines.table_flows import compact, table_settings
from ottla.spark.tables.table import open_table
from tests.spark.conftest import Runner, Topics, pipeline_of
from tests.spark.test_pipelines_definition import PIPELINES

needs_time = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="more of the same takes long: only with OTTLA_INTEROP_ALL=1"
)
COLUMNS = "id bigint, name string, country string"


def change(operation: str, number: int, name: str | None, lsn: int, *, is_wrapped: bool = False) -> str:
    """A value as Debezium's connector for PostgreSQL writes it."""
    row = None if name is None else {"id": number, "name": name, "country": "GR"}
    before = {"id": number, "name": None, "country": None} if operation == "d" else None
    source = {
        "version": "3.0",
        "connector": "postgresql",
        "lsn": lsn,
        "ts_ms": 1_700_000_000_000 + lsn,
        "table": "people",
    }
    envelope = {"before": before, "after": row, "source": source, "op": operation, "ts_ms": lsn, "transaction": None}
    return json.dumps({"schema": {"type": "struct"}, "payload": envelope} if is_wrapped else envelope)


def table_of(pipeline: Any, name: str) -> list[dict[str, Any]]:
    flow = next(one for one in pipeline.flows if one.name == name)
    table = open_table(table_settings(pipeline, flow))
    files = table.files_of(table.version())
    found = [row for file in files for batch in table.read(file) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (str(row.get("id")), str(row.get("__START_AT"))))


def newest_values(topics: Topics, topic: str) -> dict[str, str | None]:
    """The last value of each key, as a compacted topic has it."""
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "x", "enable.partition.eof": True})
    count = len(topics.admin.list_topics(topic).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
    found: dict[str, str | None] = {}
    ended = 0
    while ended < count:
        for message in consumer.consume(100, 1):
            if message.error():
                ended += 1
                continue
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            found[key.decode()] = value.decode() if isinstance(value, bytes) else None
    consumer.close()
    return found


@pytest.mark.parametrize("tables", [("history",), pytest.param(("history", "people"), marks=needs_time)], ids=" ".join)
def test_changes_of_debezium_become_tables_with_and_without_history_and_a_compacted_topic(
    runner: Runner, topics: Topics, tmp_path: Path, tables: tuple[str, ...]
) -> None:
    target = topics.new(2, cleanup_policy="compact")
    source = {"format": "debezium", "schema": COLUMNS, "options": {"maxOffsetsPerTrigger": 7}}
    known = {
        "people": {"from": "rows", "delta": "people", "keys": ["id"], "partition_by": ["country"]},
        "history": {"from": "rows", "iceberg": "shop.people", "keys": ["id"], "scd": 2, "sequence_by": "_sequence"},
    }
    flows = {name: known[name] for name in tables}
    pipeline = pipeline_of(topics, tmp_path, source, {"topic": target, "keys": ["id"], "except": ["country"]}, flows)
    values = [
        *(change("r", 1, "Ann", 100), change("c", 2, "Bob", 110, is_wrapped=True), change("u", 1, "Anna", 130)),
        *(change("u", 1, "late", 120), None, change("t", 0, None, 140), "{}"),
        # the next batch
        *(change("d", 2, None, 200), None, change("u", 1, "later", 125), change("c", 3, "Eve", 210), None, None, None),
        # and one more
        *(change("u", 2, "resurrected", 190), change("u", 3, "Eva", 220)),
    ]
    topics.produce(pipeline.name, [("k", value) for value in values])
    status = runner.run(pipeline)
    assert [status[name]["rows_out"] for name in tables] == [9 for _ in tables]
    assert status["rows"]["letters"] == 2
    letters = [letter.error for letter in read_letters(pipeline, topics.connection)]
    assert "the table was truncated (op t)" in letters[0]
    if "people" in tables:
        people = [(row["id"], row["name"], row["country"], row["__SEQUENCE"]) for row in table_of(pipeline, "people")]
        assert people == [(1, "Anna", "GR", 130), (3, "Eva", "GR", 220)]
    history = [(row["id"], row["name"], row["__START_AT"], row["__END_AT"]) for row in table_of(pipeline, "history")]
    assert history == [
        (1, "Ann", 100, 120),
        (1, "late", 120, 125),
        (1, "later", 125, 130),
        (1, "Anna", 130, None),
        (2, "Bob", 110, 190),
        (2, "resurrected", 190, 200),
        (3, "Eve", 210, 220),
        (3, "Eva", 220, None),
    ]
    assert newest_values(topics, target) == {
        "1": '{"id":1,"name":"Anna"}',
        "2": None,
        "3": '{"id":3,"name":"Eva"}',
    }


@needs_time
def test_counts_are_upserted_and_replaced(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "counts.sql").write_text("select value as id, count(*) as n from rows group by 1")
    flows = {"all": {"from": "counts", "iceberg": "shop.counts", "mode": "complete"}}
    flow = {"from": "counts", "delta": "counts", "mode": "update"}
    pipeline = pipeline_of(topics, tmp_path, {"format": "string"}, flow, flows)
    for words in ("aab", "bc"):
        topics.produce(pipeline.name, [(None, word) for word in words])
        runner.run(pipeline)
    for name in ("rows", "all"):
        assert [(row["id"], row["n"]) for row in table_of(pipeline, name)] == [("a", 2), ("b", 2), ("c", 1)]


@needs_time
def test_a_change_without_a_key_ends_the_flow_with_what_to_do(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    source = {"format": "json", "schema": "id int, n int"}
    flow = {"delta": "t", "keys": ["id"], "sequence_by": "n", "deletes": "n = 7"}
    pipeline = pipeline_of(topics, tmp_path, source, flow)
    topics.produce(pipeline.name, [(None, '{"n": 1}')])
    with pytest.raises(BadData, match=r"flow rows: a change has null in id or in n; its keys are \{\}. Put such rows"):
        runner.run(pipeline)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"keys": ["nothing"]}, "keys: there is no column nothing in id, x, s"),
        ({"keys": ["x"]}, "keys: x is double, and keys are"),
        ({"keys": ["id"], "scd": 2}, "'scd: 2' needs 'sequence_by'"),
        ({"keys": ["id"], "sequence_by": "s"}, "'s' is struct<a:int>, and has to be a number"),
        ({"keys": ["id"], "deletes": "id"}, "'id' is int, and has to be true or false"),
        ({"keys": ["id"], "except": ["y"]}, "except: there is no column y"),
        ({"mode": "update"}, "say 'keys: [...]'"),
        ({"keys": ["id"], "scd": 2, "sequence_by": "id", "start_column": "x"}, "the rows have a column x already"),
    ],
)
def test_what_does_not_fit_the_rows_is_said_before_anything_runs(
    spark: SparkSession, tmp_path: Path, flow: dict[str, Any], message: str
) -> None:
    from ottla.spark.pipelines import targets

    rows = spark.createDataFrame([], "id int, x double, s struct<a: int>, _hidden int")
    document = {
        "sources": {"rows": {"topic": "t", "format": "string"}},
        "flows": {"rows": {"delta": "t", **flow}},
    }
    pipeline = parse_pipeline(tmp_path, document, {})
    with pytest.raises(PipelineError) as raised:
        targets.prepare(pipeline, pipeline.flows[0], rows, may_change=False)
    assert message in str(raised.value)


def test_the_keys_of_an_aggregation_are_what_it_groups_by(spark: SparkSession) -> None:
    spark.createDataFrame([], "a int, b string, at timestamp").createOrReplaceTempView("given")

    def keys(statement: str) -> tuple[str, ...]:
        return grouping_columns(spark.sql(statement))

    assert keys("select a, count(*) n from given group by a") == ("a",)
    assert keys("select b as word, upper(b) u, count(*) n from given group by 1, 2") == ("word", "u")
    assert keys("select x as y, n from (select a as x, count(*) n from given group by a)") == ("y",)
    assert keys("select window.start as minute, a, max(b) from given group by window(at, '1 minute'), a") == (
        "minute",
        "a",
    )
    assert keys("select count(*) n from given group by a") == ()
    assert keys("select a from given") == ()
    assert keys("select substr(b, 1, 1) c, count(*) n from given group by b") == ()


# --- the pipelines that ship


def generated(name: str) -> ModuleType:
    """The generator of a pipeline's data."""
    specification = importlib.util.spec_from_file_location(f"generate_{name}", PIPELINES / name / "generate.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@needs_time
def test_customers_of_postgresql_become_a_table_and_their_history(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    topic = "shop.public.customers"
    topics.create(topic, 1)
    pipeline = load_pipeline(PIPELINES / "cdc", {"OUTPUT": str(tmp_path), "BATCH": "40"})
    generate = generated("cdc")
    given = list(generate.changes(100, 10, 1))
    topics.produce(topic, [(None, json.dumps(change)) for change in generate.with_late_ones(given, 1)])
    assert runner.run(pipeline)["customers"]["rows_out"] == 100
    newest = {(change["after"] or change["before"])["id"]: change["after"] for change in given}
    found = {row["id"]: row for row in table_of(pipeline, "customers")}
    assert found.keys() == {number for number, row in newest.items() if row is not None}
    for number, row in found.items():
        expected = newest[number]
        assert (row["name"], str(row["credit"])) == (expected["name"], expected["credit"])
    history = table_of(pipeline, "customer_history")
    assert len(history) == sum(change["after"] is not None for change in given)
    assert {row["id"] for row in history if row["__END_AT"] is None} == found.keys()


@needs_time
def test_measurements_are_kept_by_day_in_few_files(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    topics.create("measurements", 1)
    pipeline = load_pipeline(PIPELINES / "lake", {"OUTPUT": str(tmp_path), "BATCH": "60"})
    values = list(generated("lake").measurements(300, 2, 1))
    topics.produce("measurements", [(None, value) for value in values])
    status = runner.run(pipeline)
    good = [row for row in map(json.loads, values) if "sensor" in row]
    assert (status["delta"]["rows_out"], status["raw"]["letters"]) == (len(good), 300 - len(good))
    for name in ("delta", "iceberg"):
        rows = table_of(pipeline, name)
        assert sorted((row["sensor"], row["value"]) for row in rows) == sorted(
            (row["sensor"], row["value"]) for row in good
        )
    assert len(list((tmp_path / "measurements").glob("day=2026-01-0*"))) == 2
    sites = {(row["site"], str(row["day"])): row["measurements"] for row in table_of(pipeline, "sites")}
    assert sites == Counter((row["site"], row["at"][:10]) for row in good)
    compacted = compact(pipeline)
    assert compacted["delta"].added_count == 2 < compacted["delta"].removed_count
