"""What a change of a pipeline means, and its history: decided without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.fingerprints import compared
from ottla.spark.pipelines.history import MAX_RUNS, History, definition_id, definition_of, differences
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.verdicts import KEPT, NEEDS_REFRESH, NEW, REFUSED, FlowChanges, compare, refusal

SOURCE = {"name": "rows", "kind": "topic", "place": "orders", "topics": ["orders"], "starting": "earliest"}
OTHER = {**SOURCE, "name": "more", "place": "more", "topics": ["more"]}
COUNT = {"kind": "aggregate", "keys": ["country STRING"], "values": ["count(1)"]}
PLAN: dict[str, Any] = {
    "sources": [SOURCE],
    "stateful": [],
    "target": "topic out",
    "mode": "append",
    "columns": [["id", "bigint"]],
    "views": {"clean": "aa"},
}
COUNTED = {**PLAN, "stateful": [COUNT], "mode": "update"}


@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        (PLAN, PLAN, KEPT, None),
        (PLAN, {**PLAN, "views": {"clean": "bb"}}, KEPT, "clean changed, for rows from now on"),
        (PLAN, {**PLAN, "columns": [["id", "int"], ["x", "int"]]}, KEPT, "x is new, id is int, was bigint"),
        (PLAN, {**PLAN, "target": "topic other"}, KEPT, "topic out became topic other"),
        (PLAN, {**PLAN, "sources": [{**SOURCE, "starting": "latest"}]}, KEPT, "starting is for a new flow"),
        (PLAN, {**PLAN, "sources": [{**SOURCE, "name": "renamed"}]}, KEPT, None),
        (PLAN, {**PLAN, "key": "id"}, KEPT, "key changed from None to id"),
        (
            PLAN,
            {**PLAN, "sources": [{**SOURCE, "place": "orders, more", "topics": ["orders", "more"]}]},
            KEPT,
            "more is read from its beginning",
        ),
        (
            PLAN,
            {**PLAN, "sources": [{**SOURCE, "place": "orders2", "topics": ["orders2"]}]},
            NEEDS_REFRESH,
            "orders became orders2",
        ),
        (
            {**PLAN, "sources": [{"name": "x", "kind": "view", "place": "~StreamingRelationV2 P@4f", "topics": []}]},
            PLAN,
            KEPT,
            None,
        ),
        (PLAN, {**PLAN, "sources": [SOURCE, OTHER]}, NEEDS_REFRESH, "reads more, too"),
        ({**PLAN, "sources": [SOURCE, OTHER]}, PLAN, NEEDS_REFRESH, "no longer reads more"),
        ({**PLAN, "sources": [SOURCE, OTHER]}, {**PLAN, "sources": [OTHER, SOURCE]}, NEEDS_REFRESH, "became"),
        (PLAN, COUNTED, NEEDS_REFRESH, "it kept nothing and now keeps an aggregate"),
        (
            COUNTED,
            {**COUNTED, "stateful": [{**COUNT, "keys": ["city STRING"]}]},
            NEEDS_REFRESH,
            "groups by city STRING, and what it has counted is by country STRING",
        ),
        (
            COUNTED,
            {**COUNTED, "stateful": [{**COUNT, "values": ["count(1)", "sum(x)"]}]},
            NEEDS_REFRESH,
            r"keeps count\(1\), sum\(x\), and has kept count\(1\)",
        ),
        (COUNTED, {**COUNTED, "mode": "complete"}, NEEDS_REFRESH, "mode update became complete"),
        (COUNTED, {**COUNTED, "stateful": [{**COUNT, "kind": "deduplicate"}]}, NEEDS_REFRESH, "became deduplicate"),
        (PLAN, {**PLAN, "merge": {"keys": "id"}}, NEEDS_REFRESH, "keys changed"),
        (
            {**PLAN, "target": "topic new", "refreshed_into": "topic new"},
            PLAN,
            REFUSED,
            "it was refreshed into topic new",
        ),
    ],
)
def test_each_change_has_its_meaning(old: Any, new: Any, verdict: str, said: str | None) -> None:
    found = compare("flow", json.loads(json.dumps(old)), new)
    assert found.verdict == verdict
    import re

    assert (said is None and not found.reasons) or re.search(str(said), "; ".join(found.reasons))


def test_a_pipeline_runs_unless_a_flow_needs_a_refresh_or_is_refused() -> None:
    kept = compare("kept", PLAN, {**PLAN, "target": "topic other"})
    counted = compare("counts", COUNTED, PLAN)
    assert refusal("shop", [kept, FlowChanges("new", is_new=True)]) is None
    said = refusal("shop", [kept, counted])
    assert said is not None
    assert said.startswith("flow counts: needs refresh: ")
    assert "'ottla pipeline refresh shop counts'" in said and "'--into NEW'" in said
    letters = refusal("shop", [compare("dead_letters", PLAN, {**PLAN, "sources": [SOURCE, OTHER]})])
    assert letters is not None and "remove the folder checkpoints/dead_letters" in letters


def test_checkpoints_decide_what_is_new_and_those_without_a_fingerprint_are_taken_as_they_are(tmp_path: Path) -> None:
    state = PipelineState(tmp_path)
    assert [one.verdict for one in compared(state, {"a": PLAN})] == [NEW]
    (tmp_path / "checkpoints" / "a" / "offsets").mkdir(parents=True)
    assert [one.verdict for one in compared(state, {"a": PLAN})] == [NEW]
    (tmp_path / "checkpoints" / "a" / "offsets" / "0").touch()
    assert [one.verdict for one in compared(state, {"a": PLAN})] == [KEPT]
    state.write_plan("a", {"version": 1, **COUNTED})
    assert [one.verdict for one in compared(state, {"a": PLAN})] == [NEEDS_REFRESH]


def document(**flow: Any) -> dict[str, Any]:
    return {
        "sources": {"rows": {"jdbc": "jdbc:postgresql://me:hunter22@db/shop?password=hunter22", "table": "t"}},
        "flows": {"out": {"from": "rows", "topic": "o", "options": {"kafka.sasl.jaas.config": "hunter22"}, **flow}},
        "spark": {"spark.hadoop.fs.s3a.secret.key": "hunter22"},
    }


def test_a_definition_has_no_secrets_and_says_what_changed(tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    sql = tmp_path / "transformations" / "a.sql"
    sql.write_text("select 1\n-- hunter22\n")
    one = parse_pipeline(tmp_path, document(), {})
    first = definition_of(one, Redaction.of(one, None))
    assert "hunter22" not in json.dumps(first)
    assert first["sources"]["rows"]["jdbc"] == "jdbc:postgresql://db/shop"
    sql.write_text("select 2\n-- hunter22\n")
    two = parse_pipeline(tmp_path, document(key="id"), {})
    second = definition_of(two, Redaction.of(two, None))
    assert definition_id(first) != definition_id(second)
    assert differences(first, second) == [
        "flows.out.key: id is new",
        "transformations.a.sql: 1 lines added, 1 removed",
    ]


def test_history_has_the_last_runs_and_their_definitions(tmp_path: Path) -> None:
    history = History(tmp_path)
    status = {
        "flows": [{"flow": "out", "rows_in": 2, "rows_out": 1, "state": "done"}],
        "sources": [{"letters": 1}],
    }
    assert history.runs() == []
    history.end(1.0, status, "done", None)  # a run that never began leaves nothing
    for number in range(MAX_RUNS + 5):
        history.begin({"number": number}, float(number))
        if number:
            history.end(float(number), status, "done", None)
    runs = history.runs()
    assert len(runs) == MAX_RUNS
    assert runs[-1]["flows"] == {"out": {"in": 2, "out": 1, "state": "done"}}
    assert (runs[-1]["letters"], runs[-1]["state"]) == (1, "done")
    assert history.definition(runs[-1]["definition"]) == {"number": MAX_RUNS + 4}
    assert history.definition(definition_id({"number": 0})) is None
    history.begin({"number": 1}, 1e9)
    assert history.runs()[-1]["state"] == "died"
