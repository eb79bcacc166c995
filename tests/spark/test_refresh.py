"""A flow that is refreshed: every row once, before and after, and after an interruption."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines.definition import PipelineError
from ottla.spark.pipelines.refresh import Refresh
from ottla.spark.pipelines.refresh_plan import refresh_plan
from tests.spark.conftest import Runner, Topics, pipeline_of

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
