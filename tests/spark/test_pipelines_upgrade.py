"""What the version before has left (checkpoints, tables, letters) is gone on with: nothing is lost or doubled.
OTTLA_BEFORE names a checkout of that version, e.g. `git worktree add /tmp/before 9994a7d`, as plain Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.pipelines.table_flows import table_settings
from ottla.spark.tables.table import open_table
from tests.interop.servers import REPOSITORY
from tests.spark.conftest import Topics
from tests.spark.test_pipelines_changes import table_of
from tests.spark.test_pipelines_outages import Running
from tests.spark.test_pipelines_processes import Database, command, database, jar, run

BEFORE = os.environ.get("OTTLA_BEFORE")
pytestmark = pytest.mark.skipif(BEFORE is None, reason="needs a checkout of the version before: OTTLA_BEFORE")
__all__ = ["database", "jar"]
COUNT = 40


@pytest.mark.parametrize("end", ["stopped", "killed", "decided", "merge-undecided", "jdbc-committed"])
def test_a_run_of_the_version_before_goes_on(
    topics: Topics, database: Database, jar: str, tmp_path: Path, end: str
) -> None:
    """It is stopped, killed at any time, or killed at a step of its second batch."""
    source, copies, counts = topics.new(1), topics.new(1), topics.new(1)
    table = "t_" + source.replace("-", "_")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "counts.sql").write_text("select id, count(*) as n from rows group by id")
    limit = "options: {maxOffsetsPerTrigger: 7}"
    changes = "keys: [id], sequence_by: at, deletes: name is null"
    (tmp_path / "pipeline.yml").write_text(
        f"name: {source}\n"
        f'jars: ["{jar}"]\n'
        "trigger: 1 second\n"
        "spark: {spark.sql.shuffle.partitions: 2}\n"
        f'sources: {{rows: {{topic: {source}, format: json, schema: "id bigint, name string, at bigint", {limit}}}}}\n'
        "flows:\n"
        f"  copies: {{from: rows, topic: {copies}}}\n"
        f"  keyed: {{from: rows, delta: keyed, {changes}}}\n"
        "  every: {from: rows, iceberg: shop.rows}\n"
        f'  people: {{from: rows, jdbc: "{database.url}", table: {table}, {changes}}}\n'
        f"  counts: {{from: counts, topic: {counts}, key: id, mode: update}}\n"
    )

    def send(first: int, last: int) -> None:
        rows = [{"id": at % 5, "name": None if at % 10 == 8 else f"n{at}", "at": at} for at in range(first, last)]
        topics.produce(source, [*((None, json.dumps(row)) for row in rows), (None, f"bad {first}")])

    assert BEFORE is not None
    environment = {**os.environ, "PYTHONPATH": f"{BEFORE}/src"}
    half = COUNT // 2
    send(0, half)
    if end in ("stopped", "killed"):
        before = Running(topics, tmp_path, env=environment)
        try:
            before.wait(
                "half of it", lambda: before.flow("people")["batches"] >= 2 and before.flow("copies")["rows_out"]
            )
            if end == "stopped":
                before.end()
        finally:
            before.kill()
    else:
        faults = tmp_path / "faults"
        faults.mkdir()
        arguments = command(topics, "pipeline", "run", str(tmp_path), "--once")
        environment["OTTLA_SPARK_FAULT"] = f"{end}:1:{faults}"
        with (tmp_path / "before.log").open("wb") as log:
            process = subprocess.Popen(arguments, cwd=REPOSITORY, env=environment, stdout=log, stderr=log)
        (faults / "pid").write_text(str(process.pid))
        assert process.wait(400) == -signal.SIGKILL, (tmp_path / "before.log").read_text()[-3000:]
    print(said := run(topics, "pipeline", "dry-run", str(tmp_path)))
    assert "refused" not in said
    send(half, COUNT)
    print(run(topics, "pipeline", "run", str(tmp_path), "--once"))
    ids = list(range(COUNT))
    newest = {at % 5: at for at in ids}
    kept = [(id, f"n{at}", at) for id, at in newest.items() if at % 10 != 8]
    assert sorted(json.loads(value)["at"] for value in topics.values(copies)) == ids
    pipeline = load_pipeline(tmp_path, {})
    every = open_table(table_settings(pipeline, pipeline.flows[2]))
    files = every.files_of(every.version())
    assert sorted(at for file in files for batch in every.read(file) for at in batch.column("at").to_pylist()) == ids
    assert [(row["id"], row["name"], row["at"]) for row in table_of(pipeline, "keyed")] == kept
    found = database.query(f"select id, name, at from {table} order by id").splitlines()
    assert found == [f"{id}|{name}|{at}" for id, name, at in kept]
    last = {(one := json.loads(value))["id"]: one["n"] for value in topics.values(counts)}
    assert last == dict.fromkeys(range(5), COUNT // 5)
    letters = sorted(topics.values(f"{source}.dead-letters"))
    assert letters == ["bad 0", f"bad {half}"]
