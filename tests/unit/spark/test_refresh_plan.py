"""Which flows can be refreshed, and how."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.definition import PipelineError, parse_pipeline
from ottla.spark.pipelines.refresh_plan import read_from, refresh_plan

DOCUMENT: dict[str, Any] = {
    "name": "shop",
    "sources": {
        "rows": {"topic": "t", "format": "string", "starting": "latest"},
        "lines": {"files": "in", "format": "string"},
    },
    "flows": {
        "table": {"from": "rows", "delta": "d"},
        "merged": {"from": "rows", "delta": "m", "keys": ["value"]},
        "base": {"from": "rows", "jdbc": "jdbc:postgresql://db/shop", "table": "t"},
        "loose": {"from": "rows", "jdbc": "jdbc:postgresql://db/x", "table": "t", "guarantee": "at_least_once"},
        "keyed": {"from": "rows", "topic": "k", "key": "value"},
        "plain": {"from": "rows", "topic": "p"},
        "files": {"from": "rows", "files": "f"},
    },
}
PIPELINE = parse_pipeline(Path("shop"), DOCUMENT, {})


@pytest.mark.parametrize("name", ["table", "base"])
def test_rows_of_a_table_are_replaced(name: str) -> None:
    plan = refresh_plan(PIPELINE, name)
    assert plan.replaces
    assert plan.goes.startswith("all rows of ")


def test_a_compacted_topic_with_keys_is_written_again_and_others_go_into_a_new_one() -> None:
    assert not refresh_plan(PIPELINE, "keyed", is_compacted=True).replaces
    plan = refresh_plan(PIPELINE, "plain", into="p2", starting="2026-11-17T09:30:00")
    assert (plan.flow.topic, plan.flow.to.names, plan.replaces) == ("p2", ("p2",), False)
    assert plan.starts_at == datetime(2026, 11, 17, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("none", {}, "there is no flow none; shop has table, merged"),
        ("plain", {}, "cannot be emptied.*--into"),
        ("plain", {"is_compacted": True}, "cannot be emptied"),
        ("keyed", {}, "cannot be emptied"),
        ("plain", {"into": "p"}, "name a new one"),
        ("table", {"into": "x"}, "--into names a topic"),
        ("table", {"starting": "2026-11-17"}, "replaced as a whole"),
        ("table", {"starting": "yesterday"}, "neither 'beginning' nor a time"),
        ("loose", {}, "at_least_once keeps no note"),
        ("merged", {}, "changed by their keys"),
        ("files", {}, "cannot be replaced in one step"),
    ],
)
def test_what_would_double_or_lose_rows_is_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        refresh_plan(PIPELINE, name, **arguments)


def test_sources_are_read_from_the_beginning_or_from_a_time() -> None:
    rows, lines = PIPELINE.sources
    assert read_from(rows, refresh_plan(PIPELINE, "table")).starting == "earliest"
    timed = refresh_plan(PIPELINE, "plain", into="p2", starting="1970-01-01T00:00:01Z")
    assert read_from(rows, timed).options["startingTimestamp"] == "1000"
    with pytest.raises(PipelineError, match="has no times to begin at"):
        read_from(lines, timed)
