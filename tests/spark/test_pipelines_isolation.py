"""Flows that fail by themselves while others go on. What takes long runs with OTTLA_INTEROP_ALL=1."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.errors import FlowFailed, PipelineError
from ottla.spark.pipelines.run import PipelineRun
from tests.spark.conftest import Runner, Topics, long, pipeline_of

VIEWS = {"numbers": "select cast(value as int) as number from rows", "texts": "select value as text from rows"}


def with_views(folder: Path, views: dict[str, str]) -> Path:
    (folder / "transformations").mkdir()
    for name, text in views.items():
        (folder / "transformations" / f"{name}.sql").write_text(text)
    return folder


def numbers_and_texts(topics: Topics, folder: Path, numbers: dict[str, Any], **more: Any) -> Pipeline:
    """Two flows of the same records; that of the numbers fails with a text that is none."""
    flow = {"from": "numbers", "topic": topics.new(1), **numbers}
    texts = {"texts": {"from": "texts", "topic": topics.new(1)}}
    return pipeline_of(topics, with_views(folder, VIEWS), {"format": "string"}, flow, texts, **more)


def values(topics: Topics, pipeline: Pipeline, flow: str) -> list[Any]:
    topic = next(one.topic for one in pipeline.flows if one.name == flow)
    assert topic is not None
    return [next(iter(json.loads(value).values())) for value in topics.values(topic)]


def test_a_flow_that_fails_leaves_the_others_alone(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    pipeline = numbers_and_texts(topics, tmp_path, {})
    topics.produce(pipeline.sources[0].topic or "", [(None, "1"), (None, "x")])
    with pytest.raises(FlowFailed, match=r"flow rows failed: .*'x' of the type .STRING. cannot be cast"):
        runner.run(pipeline)
    assert values(topics, pipeline, "texts") == ["1", "x"]
    status = runner.state.read_status()
    assert status is not None
    assert [flow["state"] for flow in status["flows"]] == ["failed", "done"]
    assert "cannot be cast" in status["flows"][0]["cause"]


class Running:
    """A pipeline that runs while something is waited for."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, runner: Runner, topics: Topics) -> None:
        self.run = PipelineRun(pipeline, spark, runner.state, topics.connection)
        self.run.prepare()
        self.run.start()

    def state(self, flow: str) -> str:
        return self.run.flows[flow].state

    def wait(self, what: str, is_so: Callable[[], object], timeout_s: float = 300) -> None:
        end = time.monotonic() + timeout_s
        while not is_so():
            assert self.run.poll(), self.run.failure()
            assert time.monotonic() < end, f"not within {timeout_s} s: {what}; {self.run.status('running')}"
            time.sleep(0.2)

    def stop(self) -> PipelineError | None:
        self.run.stop(120)
        return self.run.failure()


@long
def test_a_paused_flow_goes_on_when_it_is_resumed(
    spark: SparkSession, runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    limit = tmp_path / "limit"
    limit.write_text("10")
    view = (
        "from pathlib import Path\n"
        "from ottla.spark.pipelines import view\n"
        "from pyspark.sql import functions as F\n"
        "from pyspark.sql.types import StringType\n"
        "def small(value):\n"
        f"    if int(value) > int(Path({str(limit)!r}).read_text()):\n"
        "        raise ValueError(f'{value} is too large')\n"
        "    return value\n"
        "@view\n"
        "def numbers(spark):\n"
        "    return spark.table('rows').select(F.udf(small, StringType())('value').alias('number'))\n"
    )
    pipeline = numbers_and_texts(topics, tmp_path, {"on_failure": "pause"})
    (tmp_path / "transformations" / "numbers.sql").unlink()
    (tmp_path / "transformations" / "numbers.py").write_text(view)
    topic = pipeline.sources[0].topic or ""
    running = Running(pipeline, spark, runner, topics)
    topics.produce(topic, [(None, "1"), (None, "2")])
    running.wait("both flows", lambda: len(values(topics, pipeline, "rows")) == 2)
    topics.produce(topic, [(None, "11")])
    running.wait("it is paused", lambda: running.state("rows") == "paused")
    topics.produce(topic, [(None, "3")])
    running.wait("the other goes on", lambda: values(topics, pipeline, "texts") == ["1", "2", "11", "3"])
    limit.write_text("12")
    runner.state.request_resume("rows")
    running.wait("it goes on", lambda: values(topics, pipeline, "rows") == ["1", "2", "11", "3"])
    running.wait("its report", lambda: running.state("rows") == "running")
    assert running.stop() is None
