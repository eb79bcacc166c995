"""What is expected across rows, the history of what was measured, and the report: without Spark."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.measures import Measure, parse_measure
from ottla.spark.pipelines.quality import MAX_HOURS, MAX_RUNS, Broken, Quality, Subject, fails
from ottla.spark.pipelines.quality_report import html_page, rows_of, spark_line, spark_svg

HOUR = 3_600_000
DAY = 24 * HOUR
NOON = 20_000 * DAY + 12 * HOUR


def measure(**given: Any) -> Measure:
    return parse_measure("it", given, "views.v.expect.it")


def quality(*measures: Measure, history: dict[str, Any] | None = None, now: int = NOON, **more: Any) -> Quality:
    return Quality("p", [Subject("view", "v", ("positive",), measures, **more)], history, now)


def batch(rows: int, failed: int = 0, **measured: int | None) -> dict[str, Any]:
    seen = {"rows": rows, "kept": rows - failed, "letters": 0, "rule_0": failed, **measured}
    return {"observedMetrics": {"quality_view_v": seen}}


def texts(broken: list[Broken]) -> list[str]:
    return [one.text for one in broken]


def test_duplicates_and_nulls_are_judged_batch_by_batch() -> None:
    unique, not_null = measure(unique=["id"]), measure(not_null={"column": "email", "at_least": "99 %"}, action="fail")
    one = quality(unique, not_null)
    assert one.note("f", batch(100, measure_0=0, measure_1=1), NOON) == []
    broken = one.note("f", batch(100, measure_0=3, measure_1=2), NOON)
    assert texts(broken) == [
        "view v: it: 3 duplicates, expected no duplicates of id",
        "view v: it: 98 %, expected email not null in 99 % of the rows",
    ]
    assert [found.measure.kind for found in fails(broken)] == ["not_null"]


def test_rows_of_a_view_that_two_flows_read_are_counted_once() -> None:
    one = quality()
    for _ in range(2):
        one.note("a", batch(10, 1), NOON)
        one.note("b", batch(10, 1), NOON)
    assert one.report(NOON)["subjects"][0]["rows"] == 20
    assert one.report(NOON)["subjects"][0]["failed"] == {"positive": 2}


def test_data_that_stops_coming_gets_stale_and_is_said_once() -> None:
    one = quality(measure(freshness={"column": "at", "within": "1 hour"}))
    one.note("f", batch(1, measure_0=NOON), NOON)
    assert one.tick(NOON + HOUR) == []
    assert len(one.tick(NOON + HOUR + 60_000)) == 1
    assert one.tick(NOON + 2 * HOUR) == []
    one.note("f", batch(1, measure_0=NOON + 2 * HOUR), NOON)
    assert one.tick(NOON + 2 * HOUR) == []
    assert len(one.tick(NOON + 4 * HOUR)) == 1
    assert one.report(NOON)["subjects"][0]["measures"][0]["broken"] == 2
    later = quality(measure(freshness={"column": "at", "within": "1 hour"}), history=one.history(NOON))
    assert len(later.tick(NOON + 9 * HOUR)) == 1, "also in a run without rows"


def test_a_day_is_held_against_the_day_before_until_the_same_hour() -> None:
    count = measure(row_count={"against": "yesterday", "within": "50 %"}, action="fail")
    first = quality(count)
    first.note("f", batch(100), NOON)
    assert first.end(NOON, is_once=True) == [], "there is no yesterday yet"
    first.note("f", batch(900), NOON + 3 * HOUR)
    second = quality(count, history=first.history(NOON), now=NOON + DAY)
    second.note("f", batch(50), NOON + DAY)
    assert second.end(NOON + DAY, is_once=True) == []
    third = quality(count, history=first.history(NOON), now=NOON + DAY)
    third.note("f", batch(49), NOON + DAY)
    assert texts(third.end(NOON + DAY, is_once=True)) == ["view v: it: 49 rows, expected within 50 % of yesterday"]
    assert third.end(NOON + DAY, is_once=False) == [], "a run that goes on is judged when the hour is over"
    assert len(third.tick(NOON + DAY + HOUR)) == 1


def test_no_rows_at_all_are_too_few() -> None:
    one = quality(measure(row_count={"at_least": 1}))
    assert texts(one.end(NOON, is_once=True)) == ["view v: it: 0 rows, expected at least 1 rows"]


def test_the_history_is_bounded() -> None:
    history = None
    for number in range(MAX_RUNS + 5):
        one = quality(history=history, now=NOON + number * DAY)
        one.note("f", batch(1), NOON + number * 5 * HOUR)
        history = one.history(NOON)
    assert history is not None
    assert len(history["runs"]) == MAX_RUNS
    one = quality()
    for hour in range(MAX_HOURS + 5):
        one.note("f", batch(1), NOON + hour * HOUR)
    assert len(one.history(NOON)["hours"]) == MAX_HOURS


def test_what_is_counted_elsewhere_is_only_measured_here() -> None:
    one = quality(measure(unique=["id"]), is_counted_apart=True)
    one.note("f", batch(10, measure_0=1), NOON)
    one.note_counts("view v", 12, 10, 2, [2], NOON)
    subject = one.report(NOON)["subjects"][0]
    assert (subject["rows"], subject["letters"], subject["measures"][0]["shown"]) == (12, 2, "1 duplicates")


def test_the_page_escapes_names_and_has_no_address() -> None:
    hostile = Subject("view", "v", ("<script>alert(1)</script>",), (measure(unique=["<b>"]),))
    history = None
    for now in (NOON, NOON + DAY):
        one = Quality("p<x>", [hostile], history, now)
        one.note("f", batch(7, 1, measure_0=1), now)
        history = one.history(now)
    assert history is not None
    page = html_page(history)
    assert "<script" not in page
    assert "<b>" not in page
    assert not re.search(r"https?:|src=|href=|url\(|@import", page)
    assert page.count("<svg") == 3
    assert "2 of 2 expectations were not met" in page
    assert [row["result"] for row in rows_of(history)] == ["", "broken", "broken"]


def test_trends_are_drawn() -> None:
    assert spark_line([0, 1, 2, 7]) == "▁▂▃█"
    assert spark_line([5, 5]) == "▁▁"
    assert spark_line([]) == ""
    assert spark_svg([1.0]) == ""
    assert 'points="0.0,22.0 120.0,2.0"' in spark_svg([0, 1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"unique": []}, "a list of columns"),
        ({"unique": ["a"], "not_null": {"column": "a"}}, "one of rule, unique"),
        ({"unique": ["a"], "action": "drop"}, "'drop' is none of warn, fail"),
        ({"not_null": {"column": "a", "at_least": "99"}}, "a share such as '99 %'"),
        ({"not_null": {"at_least": "99 %"}}, "it needs column and at_least"),
        ({"freshness": {"column": "a"}}, "it needs column and within"),
        ({"freshness": {"column": "a", "within": "soon"}}, "is no time such as"),
        ({"row_count": {}}, "it needs at_least, at_most"),
        ({"row_count": {"against": "yesterday"}}, "belong together"),
        ({"row_count": {"against": "last year", "within": "5 %"}}, "is none of yesterday"),
    ],
)
def test_measures_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        measure(**given)
