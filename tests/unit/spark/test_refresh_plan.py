"""Which flows can be refreshed, and how."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla.client.core.partitions import TopicPartition
from ottla.spark.pipelines.backfill import limited, parts_of
from ottla.spark.pipelines.definition import PipelineError
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.poison import Span
from ottla.spark.pipelines.refresh_plan import Place, check_forgotten, parse_place, read_from, refresh_plan

DOCUMENT: dict[str, Any] = {
    "name": "shop",
    "sources": {
        "rows": {"topic": "t", "format": "string", "starting": "latest"},
        "lines": {"files": "in", "format": "string"},
    },
    "flows": {
        "table": {"from": "rows", "delta": "d"},
        "merged": {"from": "rows", "delta": "m", "keys": ["value"], "tombstones": "2 days"},
        "base": {"from": "rows", "jdbc": "jdbc:postgresql://db/shop", "table": "t"},
        "loose": {"from": "rows", "jdbc": "jdbc:postgresql://db/x", "table": "t", "guarantee": "at_least_once"},
        "keyed": {"from": "rows", "topic": "k", "key": "value"},
        "plain": {"from": "rows", "topic": "p"},
        "files": {"from": "rows", "files": "f"},
    },
}
PIPELINE = parse_pipeline(Path("shop"), DOCUMENT, {})


@pytest.mark.parametrize("name", ["table", "base", "merged"])
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
        ("files", {"into": "f"}, "name a new one"),
        ("table", {"ending": "2026-11-17"}, "does not know which of its rows came of a range"),
        ("keyed", {"ending": "2026-11-17", "is_compacted": True}, "--to and offsets are for flows that change rows"),
        ("plain", {"starting": '{"t": {"0": 1}}', "into": "p2"}, "--to and offsets are for flows that change rows"),
        ("merged", {"starting": '{"t": {"0": -1}}'}, "--from: offsets are JSON such as"),
        ("merged", {"ending": "tomorrow"}, "--to: 'tomorrow' is neither 'end' nor a time"),
        ("table", {"starting": "2026-11-17"}, "replaced as a whole"),
        ("table", {"starting": "yesterday"}, "neither 'beginning' nor a time"),
        ("loose", {}, "at_least_once keeps no note"),
        ("files", {}, "cannot be replaced in one step.*--into NEW_FOLDER"),
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


def test_files_go_into_a_new_folder() -> None:
    plan = refresh_plan(PIPELINE, "files", into="g")
    assert (plan.flow.files, plan.replaces, plan.span) == ("g", False, None)


def test_a_range_of_a_flow_with_keys_is_applied_once_more() -> None:
    plan = refresh_plan(PIPELINE, "merged", starting="2026-11-17", ending='{"t": {"0": 9}}')
    assert plan.span == (Place(datetime(2026, 11, 17, tzinfo=UTC)), Place(offsets={("t", 0): 9}))
    assert not plan.replaces
    assert plan.comes == 'what the source has from 2026-11-17 to {"t": {"0": 9}}'
    assert refresh_plan(PIPELINE, "merged", starting="2026-11-17").span is not None


def test_a_range_does_not_bring_back_rows_whose_deletes_are_forgotten() -> None:
    flow, now = refresh_plan(PIPELINE, "merged").flow, datetime(2026, 11, 18, tzinfo=UTC)
    check_forgotten(flow, Place(), True, now)
    check_forgotten(flow, Place(now - timedelta(days=1)), True, now)
    check_forgotten(flow, Place(now - timedelta(days=3)), False, now)
    for end in (Place(now - timedelta(days=3)), Place(offsets={("t", 0): 1})):
        with pytest.raises(PipelineError, match="could come back, as deletes are remembered for 'tombstones: 2 days'"):
            check_forgotten(flow, end, True, now)


def test_a_range_is_what_the_partitions_still_have_of_it() -> None:
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    firsts, lasts = {one: 5, other: 0}, {one: 20, other: 10}

    def found(start: str, end: str) -> list[Span]:
        places = parse_place(start, "--from", "beginning"), parse_place(end, "--to", "end")
        return limited("rows", firsts, lasts, firsts, lasts, *places)

    assert found("beginning", "end") == [Span("rows", "t", 0, 5, 20), Span("rows", "t", 1, 0, 10)]
    assert found('{"t": {"0": 1}}', '{"t": {"0": 9}}') == [Span("rows", "t", 0, 5, 9)]
    assert found('{"t": {"1": 10}}', "end") == []
    assert found("beginning", '{"t": {"1": 99, "0": 0}}') == [Span("rows", "t", 1, 0, 10)]
    with pytest.raises(PipelineError, match="the source rows has no partition x-0"):
        found('{"x": {"0": 1}}', "end")


def test_a_range_is_read_in_parts_that_fit_into_memory() -> None:
    spans = [Span("rows", "t", 0, 5, 12), Span("rows", "t", 1, 0, 2)]
    parts = list(parts_of(spans, 4))
    assert parts == [
        [Span("rows", "t", 0, 5, 9)],
        [Span("rows", "t", 0, 9, 12), Span("rows", "t", 1, 0, 1)],
        [Span("rows", "t", 1, 1, 2)],
    ]
    assert list(parts_of([], 4)) == []
