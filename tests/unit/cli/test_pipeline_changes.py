"""What dry-run and history print."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from ottla.cli.pipeline_cases import watched
from ottla.cli.pipeline_changes import show_history, show_plan
from ottla.cli.session import CommandError
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Outline
from ottla.spark.pipelines.history import History
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.verdicts import KEPT, NEEDS_REFRESH, Change, FlowChanges

ROW = {"flow": "counts", "from": "rows", "target": "topic out", "columns": "word string"}


def test_a_plan_says_what_changes_mean_and_whether_it_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    kept = FlowChanges("counts", [Change(KEPT, "key changed")])
    assert show_plan("table", "shop", [dict(ROW)], [kept]) == 0
    assert "flow counts: kept: key changed" in capsys.readouterr().out
    stopped = FlowChanges("counts", [Change(KEPT, "key changed"), Change(NEEDS_REFRESH, "it groups by x")])
    assert show_plan("table", "shop", [dict(ROW)], [stopped]) == 2
    said = capsys.readouterr().out
    assert "flow counts: needs refresh: it groups by x. 'ottla pipeline refresh shop counts'" in said
    assert show_plan("json", "shop", [dict(ROW)], [stopped]) == 2
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["change"], row["reasons"]) == ("needs refresh", ["it groups by x"])


def test_history_shows_what_changed_from_run_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outline = Outline(name="shop", folder=tmp_path, dead_letters="d")
    state, options = PipelineState(tmp_path), argparse.Namespace(output="table")
    with pytest.raises(CommandError, match="has never run here"):
        show_history(options, outline, state, Connection("x:1"))
    history = History(tmp_path)
    history.begin({"flows": {"a": {"mode": "append"}}}, 1.0)
    status = {
        "flows": [{"flow": "a", "rows_in": 3, "rows_out": 2, "state": "done"}],
        "sources": [{"letters": 1}],
    }
    history.end(1.0, status, "failed", "why")
    history.begin({"flows": {"a": {"mode": "update"}}}, 2.0)
    assert show_history(options, outline, state, Connection("x:1")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "failed after" in lines[0] and "rows: a 2" in lines[0]
    assert lines[1:3] == ["    1 dead letters", "    why"]
    assert lines[3].endswith("died") and lines[4] == "    flows.a.mode: append became update"


def test_files_of_a_run_are_not_watched(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("a")
    (tmp_path / ".state").mkdir()
    (tmp_path / ".state" / "status.json").write_text("x")
    before = watched(tmp_path)
    assert [Path(name).name for name in before] == ["pipeline.yml"]
    (tmp_path / "pipeline.yml").write_text("ab")
    assert watched(tmp_path) != before
