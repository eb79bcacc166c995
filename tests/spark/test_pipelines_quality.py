"""Rules on views and flows, and across rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines.errors import BadData, PipelineError
from ottla.spark.pipelines.redrive import read_letters, redrive
from ottla.spark.pipelines.run import PipelineRun
from tests.spark.conftest import Runner, Topics, pipeline_of
from tests.spark.test_pipelines_isolation import with_views

SOURCE = {"format": "json", "schema": "id bigint, name string, at timestamp"}


def test_rows_of_views_and_flows_are_judged_counted_and_measured(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    views = {"upper": "select id, upper(name) as name, at from rows"}
    expected = {
        "short": {"rule": "length(coalesce(name, '')) < 4", "action": "quarantine"},
        "has a name": {"rule": "name is not null", "action": "warn"},
        "no Z": {"rule": "coalesce(name, '') != 'Z'", "action": "drop"},
    }
    across = {
        "once": {"unique": ["id"], "action": "fail"},
        "named": {"not_null": {"column": "name", "at_least": "50 %"}},
        "fresh": {"freshness": {"column": "at", "within": "1 hour"}},
        "enough": {"row_count": {"at_least": 1}},
    }
    flow: dict[str, Any] = {"from": "upper", "topic": topics.new(1), "expect": across}
    pipeline = pipeline_of(
        topics, with_views(tmp_path, views), SOURCE, flow,
        views={"upper": {"expect": expected}}, quality_topic=(reports := topics.new(1)),
    )  # fmt: skip
    rows: list[dict[str, Any]] = [{"id": n, "name": name, "at": "2026-01-01T00:00:00Z"} for n, name in enumerate("abz")]
    rows += [{"id": 3, "name": "long name"}, {"id": 0}]
    topics.produce(pipeline.sources[0].topic or "", [(None, json.dumps(row)) for row in rows])
    with pytest.raises(BadData, match="flow rows: once: 1 duplicates, expected no duplicates of id"):
        runner.run(pipeline)
    written = [json.loads(value) for value in topics.values(flow["topic"])]
    assert [(row["id"], row.get("name")) for row in written] == [(0, "A"), (1, "B"), (0, None)]
    letters = list(read_letters(pipeline, topics.connection))
    assert [(letter.rule, letter.header("ottla.view")) for letter in letters] == [("short", "upper")]
    assert json.loads(letters[0].value or b"")["name"] == "LONG NAME"
    assert redrive(pipeline, runner.state, topics.connection) == 0
    found = {one["name"]: one for one in map(json.loads, topics.values(reports))}
    assert found["upper"]["failed"] == {"short": 1, "has a name": 1, "no Z": 1}
    assert (found["upper"]["rows"], found["upper"]["kept"], found["upper"]["letters"]) == (5, 3, 1)
    measured = {
        one["name"]: (one["value"], one["broken"])
        for one in found["rows"]["measures"]
        if found["rows"]["kind"] == "flow"
    }
    assert measured["once"] == (1, 1)
    assert measured["named"][1] == 0
    assert measured["fresh"][1] == 1
    assert measured["enough"] == (3, 0)


def test_rows_that_state_has_made_are_not_put_aside(
    spark: SparkSession, runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    views = {"counts": "select name, count(*) as n from rows group by name"}
    flow = {"from": "counts", "topic": "x", "mode": "update"}
    rules = {"few": {"rule": "n < 10", "action": "quarantine"}}
    pipeline = pipeline_of(topics, with_views(tmp_path, views), SOURCE, flow, views={"counts": {"expect": rules}})
    with pytest.raises(PipelineError, match="come out of groups, joined streams or state, and cannot be put aside"):
        PipelineRun(pipeline, spark, runner.state, topics.connection).prepare(makes_topics=False)
