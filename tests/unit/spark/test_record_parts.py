"""Keys, headers and topics of sources and flows, as pipeline.yml has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.pipeline_file import parse_outline, parse_pipeline
from ottla.spark.pipelines.record_parts import Key, WrittenTopic

LINES = {"topic": "lines", "format": "string"}
OUT = {"from": "lines", "topic": "out"}


def parse(source: dict[str, Any], flow: dict[str, Any] | None = None, **more: Any) -> Pipeline:
    flows = {"copy": {**OUT, **(flow or {})}}
    return parse_pipeline(Path("some"), {"sources": {"lines": source}, "flows": flows, **more}, {})


def test_a_source_may_have_a_topic_a_list_of_them_or_a_pattern() -> None:
    one, many, like = (
        parse({"format": "string", **given}).sources[0]
        for given in ({"topic": "a"}, {"topics": ["a", "b", "a"]}, {"pattern": "orders-.*"})
    )
    assert (one.kind, one.topics, one.place) == ("topic", ("a",), "a")
    assert (many.kind, many.topic, many.topics, many.place) == ("topic", "a", ("a", "b"), "a, b")
    assert (like.kind, like.topic, like.topics, like.place) == ("topic", None, (), "topics like orders-.*")
    document = {"sources": {"a": {"topics": ["a"]}, "b": {"pattern": "x"}}}
    assert parse_outline(Path("some"), document, {}).source_kinds == {"a": "topic", "b": "topic"}


def test_keys_have_a_format_and_a_column() -> None:
    key = parse({**LINES, "key": {"format": "json", "schema": "id bigint", "as": "customer"}}).sources[0].key
    assert key == Key("json", "id bigint", wire="plain", column="customer")
    assert parse({**LINES, "key": "long"}).sources[0].key == Key("long", wire="plain")
    flow = parse(LINES, {"key": {"columns": ["id", "day"], "format": "json"}}).flows[0]
    assert (flow.key, flow.key_format) == ("struct(`id`, `day`)", Key("json", wire="plain"))
    assert parse(LINES, {"key": "upper(value)"}).flows[0].key_format is None


def test_a_key_that_may_be_wrong_makes_its_rows_judged() -> None:
    assert not parse(LINES).sources[0].is_counted
    assert not parse({**LINES, "key": "raw"}).sources[0].is_counted
    assert parse({**LINES, "key": "long"}).sources[0].is_counted


def test_a_topic_that_a_flow_makes_has_the_partitions_and_settings_that_it_names() -> None:
    given = {"partitions": 12, "replication": 3, "config": {"cleanup.policy": "compact", "retention.ms": 5000}}
    flow = parse(LINES, given).flows[0]
    assert flow.to == WrittenTopic(("out",), None, 12, 3, {"cleanup.policy": "compact", "retention.ms": "5000"})


def test_each_row_may_name_its_topic() -> None:
    flow = parse(LINES, {"topic": {"expression": "concat('to-', value)", "topics": ["to-a", "to-b"]}}).flows[0]
    assert (flow.kind, flow.topic, flow.to.names) == ("topic", None, ("to-a", "to-b"))
    assert flow.target == "topic to-a, to-b"


@pytest.mark.parametrize(
    ("source", "flow", "said"),
    [
        ({"topics": []}, {}, "sources.lines.topics: at least one topic is needed"),
        ({"topics": ["a b"]}, {}, "'a b' is no name of a topic"),
        ({"topics": "a"}, {}, "sources.lines.topics: a list is expected"),
        ({"topics": ["a"], "pattern": "b"}, {}, "and has topics, pattern"),
        ({"pattern": "("}, {}, "'(' is no regular expression"),
        ({"pattern": "o.*"}, {}, "matches out, which this pipeline writes"),
        ({"pattern": "some.*"}, {}, "matches some.dead-letters, which this pipeline writes"),
        ({**LINES, "key": "number"}, {}, "sources.lines.key: 'number' is none of string, raw, short"),
        ({**LINES, "key": {"format": "json"}}, {}, "sources.lines.key: format json needs a schema"),
        ({**LINES, "key": {"format": "avro"}}, {}, "sources.lines.key: format avro needs a file"),
        ({**LINES, "key": {"as": "a-b"}}, {}, "it is a column"),
        ({"files": "x", "schema": "id int", "key": "long"}, {}, "only records of topics have keys"),
        (LINES, {"key": {"format": "long"}}, "it needs 'expression: SQL' or 'columns: [NAME, ...]'"),
        (LINES, {"key": {"expression": "a", "columns": ["b"]}}, "it needs 'expression: SQL' or"),
        (LINES, {"partitions": 0}, "flows.copy.partitions: a whole number from 1 on"),
        (LINES, {"partitions": "many"}, "flows.copy.partitions: a whole number from 1 on"),
        (LINES, {"config": {"cleanup policy": "x"}}, "'cleanup policy' is no setting of a topic"),
        (LINES, {"topic": {"topics": ["a"]}}, "flows.copy.topic: it needs 'expression: SQL'"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_do(source: Any, flow: Any, said: str) -> None:
    with pytest.raises(PipelineError) as raised:
        parse({"format": "string", **source}, flow)
    assert said in str(raised.value)


def test_files_on_s3_are_said_to_need_a_package() -> None:
    flow = {"from": "lines", "files": "s3://bucket/x"}
    with pytest.raises(PipelineError, match=r"flows\.copy\.files: Spark reads and writes S3 as s3a://"):
        parse_pipeline(Path("some"), {"sources": {"lines": LINES}, "flows": {"copy": flow}}, {})


def test_headers_and_partitions_are_of_topics_only() -> None:
    flow = {"from": "lines", "files": "x", "headers": {"a": "b"}}
    with pytest.raises(PipelineError, match=r"flows\.copy\.headers: only records of topics have it"):
        parse_pipeline(Path("some"), {"sources": {"lines": LINES}, "flows": {"copy": flow}}, {})


def test_a_registry_has_no_schema_for_a_topic_that_a_row_names() -> None:
    registry = {"url": "http://127.0.0.1:1"}
    with pytest.raises(PipelineError, match="a registry has a schema for each topic"):
        parse(LINES, {"topic": {"expression": "x"}, "format": "avro"}, registry=registry)
    with pytest.raises(PipelineError, match="needs a file"):
        parse({"pattern": "a.*", "format": "avro"}, {}, registry=registry)
