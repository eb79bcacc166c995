"""A flow that is refreshed: every row once, before and after, and after an interruption."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines import backfill
from ottla.spark.pipelines.backfill import Backfill
from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.refresh import Refresh
from ottla.spark.pipelines.refresh_plan import refresh_plan
from tests.spark.conftest import Runner, Topics, pipeline_of
from tests.spark.test_pipelines_changes import table_of

DISTINCT = """
from ottla.spark.pipelines import view

@view
def shown(spark):
    return spark.table("rows").selectExpr("upper(value) as value").dropDuplicates()
"""
deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="four runs: `make interop`")


def values(folder: Path) -> list[str]:
    return sorted(deltalake.DeltaTable(str(folder)).to_pyarrow_table().column("value").to_pylist())


def test_a_refresh_replaces_all_rows_once_and_goes_on_after_an_interruption(
    spark: SparkSession, runner: Runner, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tmp_path / "transformations" / "shown.sql"
    view.parent.mkdir()
    view.write_text("select value from rows")
    pipeline = pipeline_of(topics, tmp_path, {"format": "string"}, {"from": "shown", "delta": "table"})
    topics.produce(pipeline.name, [(None, "a"), (None, "b")])
    runner.run(pipeline)
    view.unlink()
    view.with_suffix(".py").write_text(DISTINCT)
    with pytest.raises(PipelineError, match=r"needs refresh.*now keeps a deduplicate"):
        runner.run(pipeline)
    assert values(tmp_path / "table") == ["a", "b"]

    plan = refresh_plan(pipeline, "rows")

    def refresh() -> Refresh:
        made = Refresh(pipeline, plan, runner.state, topics.connection)
        made.run(spark, lambda progress: None)
        return made

    def killed(self: Refresh) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Refresh, "_swap", killed)
        with pytest.raises(KeyboardInterrupt):
            refresh()
    assert values(tmp_path / "table") == ["A", "B"]
    with pytest.raises(PipelineError, match=r"the refresh of rows has not ended.*goes on where it was"):
        runner.run(pipeline)
    refresh()
    assert values(tmp_path / "table") == ["A", "B"]

    topics.produce(pipeline.name, [(None, "b"), (None, "c")])
    runner.run(pipeline)
    assert values(tmp_path / "table") == ["A", "B", "C"]


KEYED = {"from": "shown", "keys": ["id"], "sequence_by": "at", "deletes": "name is null"}


def change(number: int, name: str | None, at: int) -> tuple[None, str]:
    return None, json.dumps({"id": number, "name": name, "at": at})


def people(pipeline: Pipeline, flow: str) -> list[tuple[Any, ...]]:
    rows = table_of(pipeline, flow)
    return sorted(
        (row["id"], row["name"], *(row[one] for one in ("__START_AT", "__END_AT") if one in row)) for row in rows
    )


def test_tables_that_are_changed_by_keys_are_refreshed_and_ranges_of_them_backfilled(
    spark: SparkSession, runner: Runner, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tmp_path / "transformations" / "shown.sql"
    view.parent.mkdir()
    view.write_text("select id, name, at from rows")
    pipeline = pipeline_of(
        topics,
        tmp_path,
        {"format": "json", "schema": "id bigint, name string, at bigint", "options": {"maxOffsetsPerTrigger": "3"}},
        {**KEYED, "delta": "newest"},
        {"ice": {**KEYED, "iceberg": "shop.newest"}, "history": {**KEYED, "delta": "versions", "scd": 2}},
    )
    rows = [
        change(1, "ann", 10),
        change(2, "bob", 10),
        change(3, "eve", 10),
        change(2, None, 20),
        change(1, "anna", 30),
    ]
    topics.produce(pipeline.name, rows)
    runner.run(pipeline)
    assert people(pipeline, "rows") == people(pipeline, "ice") == [(1, "anna"), (3, "eve")]

    def refresh(flow: str, **asked: str) -> None:
        plan = refresh_plan(pipeline, flow, **asked)  # type: ignore[arg-type]
        kind = Refresh if plan.span is None else Backfill
        kind(pipeline, plan, runner.state, topics.connection).run(spark, lambda progress: None)

    view.write_text("select id, upper(name) as name, at from rows where id < 3")
    for flow in ("rows", "ice", "history"):
        refresh(flow)
    assert people(pipeline, "rows") == people(pipeline, "ice") == [(1, "ANNA")]
    assert people(pipeline, "history") == [(1, "ANN", 10, 30), (1, "ANNA", 30, None), (2, "BOB", 10, 20)]
    topics.produce(pipeline.name, [change(2, "late", 15), change(4, "joe", 5)])
    runner.run(pipeline)
    assert people(pipeline, "rows") == people(pipeline, "ice") == [(1, "ANNA")]  # its delete is remembered anew

    view.write_text("select id, concat(name, '!') as name, at from rows")
    monkeypatch.setattr(backfill, "MAX_RECORDS", 2)
    for flow in ("rows", "ice", "history"):
        refresh(flow, starting=json.dumps({pipeline.name: {"0": 2}}))
    assert people(pipeline, "rows") == people(pipeline, "ice") == [(1, "anna!"), (3, "eve!"), (4, "joe!")]
    assert people(pipeline, "history") == [
        *((1, "ANN", 10, 30), (1, "anna!", 30, None), (2, "BOB", 10, 15), (2, "late!", 15, 20)),
        *((3, "eve!", 10, None), (4, "joe!", 5, None)),
    ]
    with pytest.raises(PipelineError, match="could come back"):
        refresh("rows", ending=json.dumps({pipeline.name: {"0": 2}}))
    runner.run(pipeline)
    assert people(pipeline, "rows") == [(1, "anna!"), (3, "eve!"), (4, "joe!")]


def test_files_are_refreshed_into_a_new_folder(
    spark: SparkSession, runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    pipeline = pipeline_of(topics, tmp_path, {"format": "string"}, {"files": "old", "format": "json"})
    topics.produce(pipeline.name, [(None, "a"), (None, "b")])
    runner.run(pipeline)
    Refresh(pipeline, refresh_plan(pipeline, "rows", into="new"), runner.state, topics.connection).run(
        spark, lambda progress: None
    )
    topics.produce(pipeline.name, [(None, "c")])
    with pytest.raises(PipelineError, match="it was refreshed into files new: name that as its target"):
        runner.run(pipeline)
    document = {"rows": {"files": "new", "format": "json"}}
    source = {"rows": {"topic": pipeline.name, "format": "string"}}
    runner.run(parse_pipeline(tmp_path, {"name": pipeline.name, "sources": source, "flows": document}, {}))
    for folder, expected in (("old", ["a", "b"]), ("new", ["a", "b", "c"])):
        found = spark.read.json(str(tmp_path / folder)).collect()
        assert sorted(row["value"] for row in found) == expected
