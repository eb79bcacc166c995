"""The commands around a pipeline, each as a real process, in the order in which people use them. It starts Spark five
times: only with OTTLA_INTEROP_ALL=1."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ottla.spark.pipelines.pipeline_file import load_pipeline
from tests.interop.servers import REPOSITORY
from tests.spark.conftest import Topics
from tests.spark.test_pipelines_changes import table_of
from tests.spark.test_pipelines_processes import command, run, wait_for

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Spark in processes of their own: only with `make interop`"
)
PIPELINE = """\
name: {topic}
sources:
  people:
    topic: {topic}
    format: json
    schema: "id bigint, name string, amount decimal(10,2), at bigint"
    rescue: {{column: rest, values: true}}
    expect:
      has a name: {{rule: name <> '', action: quarantine}}
      no row twice: {{unique: [at]}}
flows:
  newest: {{from: shown, delta: newest, keys: [id], sequence_by: at}}
  copies: {{from: checked, topic: {topic}.copies, on_failure: pause}}
"""
CHECKED = """\
from pathlib import Path
from ottla.spark.pipelines import view
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

def small(number):
    if number > int(Path({limit!r}).read_text()):
        raise ValueError(f"{{number}} is too large")
    return number

@view
def checked(spark):
    return spark.table("people").select(F.udf(small, LongType())("id").alias("id"))
"""


def person(number: int, name: str, at: int, **more: object) -> tuple[None, str]:
    return None, json.dumps({"id": number, "name": name, "amount": 1.5, "at": at, **more})


def test_commands_around_a_pipeline(topics: Topics, tmp_path: Path) -> None:
    topic, limit, folder = topics.new(1, "people"), tmp_path / "limit", tmp_path / "people"
    (folder / "transformations").mkdir(parents=True)
    (folder / "pipeline.yml").write_text(PIPELINE.format(topic=topic))
    (folder / "transformations" / "checked.py").write_text(CHECKED.format(limit=str(limit)))
    view = folder / "transformations" / "shown.sql"
    view.write_text("select id, name, at from people")
    limit.write_text("10")

    def said(name: str, *arguments: str, code: int = 0) -> str:
        return run(topics, "pipeline", name, str(folder), *arguments, code=code)

    def newest() -> list[tuple[int, str]]:
        return [(row["id"], row["name"]) for row in table_of(load_pipeline(folder, {}), "newest")]

    # The graph needs neither a run nor a broker.
    assert "newest" in said("graph")
    assert ElementTree.fromstring(said("graph", "-o", "svg")).tag.endswith("svg")
    assert "digraph" in said("graph", "-o", "dot")
    assert "flowchart" in said("graph", "-o", "mermaid")
    assert "has never run" in said("history", code=1)
    assert "nothing was measured" in said("quality", code=1)

    topics.produce(topic, [person(1, "ann", 10, iban="GR1"), person(2, "bob", 10, amount="5,00"), person(3, "", 12)])
    said("run", "--once")
    assert newest() == [(1, "ann"), (2, "bob")]
    quality = said("quality")
    assert "has a name" in quality
    assert "no row twice" in quality
    assert json.loads(said("quality", "-o", "json"))
    said("quality", "--html", str(tmp_path / "quality.html"))
    assert "has a name" in (tmp_path / "quality.html").read_text()
    suggested = json.loads(said("schema", "people", "-o", "json"))
    drift = {one["name"]: one["drift"] for one in suggested["fields"]}
    assert (drift["iban"], drift["amount"], drift["id"]) == (1, 1, None)
    assert "schema: id bigint NOT NULL, name string NOT NULL" in said("schema", "people")
    assert "has no source other" in said("schema", "other", code=2)
    history = json.loads(said("history", "-o", "json"))
    assert [one["state"] for one in history] == ["done"]

    # A flow that is paused goes on when it is resumed; the other one did not wait.
    topics.produce(topic, [person(11, "eve", 13)])
    process = subprocess.Popen(
        command(topics, "pipeline", "run", str(folder)),
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        status = folder / ".state" / "status.json"

        def states() -> dict[str, str]:
            return {one["flow"]: one["state"] for one in json.loads(status.read_text())["flows"]}

        wait_for("it is paused", lambda: states().get("copies") == "paused")
        wait_for("the other goes on", lambda: (11, "eve") in newest())
        assert "paused" in said("status")
        limit.write_text("20")
        said("resume", "copies")
        wait_for("it goes on", lambda: len(topics.values(f"{topic}.copies")) == 3)
        said("stop")
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()

    view.write_text("select id, upper(name) as name, at from people")
    assert "kept" in said("dry-run")
    assert "goes:  all rows of delta newest" in said("refresh", "newest", "--dry-run")
    assert "--yes" in said("refresh", "newest", code=2)
    assert "cannot be emptied" in said("refresh", "copies", "--yes", code=2)
    assert "is refreshed: 3 rows" in said("refresh", "newest", "--yes")
    assert newest() == [(1, "ANN"), (11, "EVE"), (2, "BOB")]
    view.write_text("select id, concat(name, '!') as name, at from people")
    offsets = ["--from", json.dumps({topic: {"0": 1}}), "--to", json.dumps({topic: {"0": 3}})]
    assert "is backfilled: 2 records" in said("refresh", "newest", "--yes", *offsets)
    assert newest() == [(1, "ANN"), (11, "EVE"), (2, "bob!")]
    said("run", "--once")
    assert newest() == [(1, "ANN"), (11, "EVE"), (2, "bob!")]
    history = json.loads(said("history", "-o", "json"))
    assert [one["state"] for one in history] == ["done", "stopped", "refreshed", "backfilled", "done"]
    assert "transformations" in said("history")
