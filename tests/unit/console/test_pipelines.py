"""What the page shows of a pipeline, out of the status that a run writes."""

from __future__ import annotations

import fcntl
from pathlib import Path

from ottla.console.pipelines import row_of
from ottla.spark.pipelines.progress import FlowProgress, SourceCounts
from ottla.spark.pipelines.state import FOLDER, PipelineState


def test_flows_and_the_rules_of_sources_are_those_of_the_status(tmp_path: Path) -> None:
    state = PipelineState(tmp_path / FOLDER)
    (tmp_path / FOLDER).mkdir()
    flow = FlowProgress("accepted", "orders.accepted", "running", rows_in=10, lag=3, waits_for="the broker")
    source = SourceCounts("web", ["has an id", "is no test"], 10, 7, 2, [2, 0])
    source.unexpected["note"] = 4
    status = {"state": "stopped", "updated_at": 1.5, "flows": [flow.to_json()], "sources": [source.to_json()]}
    state.write_status({"cause": None, **status})
    row = row_of(tmp_path, "orders", {})
    assert (row["state"], row["updated_at"], row["last_error"]) == ("stopped", 1_500, None)
    shown = row["flows"][0]
    assert (shown["name"], shown["target"], shown["state"]) == ("accepted", "orders.accepted", "running")
    assert (shown["rows_in"], shown["lag_records"], shown["waits_for"]) == (10, 3, "the broker")
    assert row["sources"] == [
        {
            "source": "web",
            "rows": 10,
            "kept": 7,
            "dropped": 1,
            "letters": 2,
            "rules": [{"name": "has an id", "failed": 2}],
            "unexpected": [{"name": "note", "count": 4}],
        }
    ]


def test_a_pipeline_that_never_ran_has_no_flows(tmp_path: Path) -> None:
    row = row_of(tmp_path, "new", {})
    assert (row["state"], row["flows"], row["sources"], row["pid"]) == ("unknown", [], [], None)


def test_a_pipeline_starts_until_its_run_says_that_it_runs(tmp_path: Path) -> None:
    state = PipelineState(tmp_path / FOLDER)
    (tmp_path / FOLDER).mkdir()
    state.write_status({"state": "failed", "cause": "no broker"})
    assert [row_of(tmp_path, "orders", {})[name] for name in ("state", "last_error")] == ["failed", "no broker"]
    with (tmp_path / FOLDER / "lock").open("w") as lock:
        lock.write("4711")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        row = row_of(tmp_path, "orders", {})
        assert (row["state"], row["pid"], row["last_error"]) == ("starting", 4711, None)
        state.write_status({"state": "running", "cause": None})
        assert row_of(tmp_path, "orders", {})["state"] == "running"
