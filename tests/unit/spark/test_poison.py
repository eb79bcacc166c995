"""The search for the records that make a batch fail, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

import pytest

from ottla.spark.pipelines.errors import BadData, RuleBroken
from ottla.spark.pipelines.failures import RAISED, failure
from ottla.spark.pipelines.poison import (
    MAX_POISON,
    NoPoison,
    PoisonSearch,
    Record,
    SetAside,
    Span,
    planned_spans,
)

Offsets = set[tuple[int, int]]


def offsets_of(spans: Collection[Span]) -> Offsets:
    return {(span.partition, offset) for span in spans for offset in range(span.start_offset, span.end_offset)}


def search(spans: list[Span], fails: Callable[[Offsets], bool]) -> tuple[Offsets, int]:
    """What is found, and how many parts were tried."""
    made, count = PoisonSearch(spans), 0
    while (wanted := made.wanted()) is not None:
        count += 1
        offsets = offsets_of(wanted)
        if fails(offsets):
            made.failed(f"fails with {len(offsets)}")
        else:
            made.passed()
    assert all(reason == "fails with 1" for reason in made.found.values())
    return {(record.partition, record.offset) for record in made.found}, count


def spans(*sizes: int) -> list[Span]:
    return [Span("rows", "orders", partition, 7, 7 + size) for partition, size in enumerate(sizes)]


@pytest.mark.parametrize("bad", [{(0, 7)}, {(2, 20)}, {(0, 7), (0, 8)}, {(0, 11), (1, 7), (2, 16)}])
def test_the_records_that_fail_are_found_wherever_they_are(bad: Offsets) -> None:
    found, _ = search(spans(5, 1, 14, 0), lambda offsets: bool(offsets & bad))
    assert found == bad


def test_one_record_of_a_million_takes_few_tries() -> None:
    made, count = PoisonSearch(spans(1_000_000)), 0
    while (wanted := made.wanted()) is not None:
        count += 1
        if any(span.start_offset <= 654_321 < span.end_offset for span in wanted):
            made.failed("bad")
        else:
            made.passed()
    assert list(made.found) == [Record("rows", "orders", 0, 654_321)]
    assert count <= 2 + 2 * 20


def test_a_flow_that_fails_without_records_has_no_poison() -> None:
    with pytest.raises(NoPoison, match="without any record"):
        search(spans(5), lambda offsets: True)


def test_records_that_pass_when_they_are_tried_are_no_poison() -> None:
    with pytest.raises(NoPoison, match="pass when they are tried"):
        search(spans(5), lambda offsets: False)


def test_records_that_fail_only_together_are_no_poison() -> None:
    with pytest.raises(NoPoison, match="only together"):
        search(spans(8), lambda offsets: len(offsets) > 3)


def test_a_batch_of_which_too_much_fails_is_not_set_aside() -> None:
    with pytest.raises(NoPoison, match=f"more than {MAX_POISON}"):
        search(spans(MAX_POISON + 1), bool)
    found, _ = search(spans(MAX_POISON), bool)
    assert len(found) == MAX_POISON


def offsets_file(*places: object) -> str:
    lines = [place if isinstance(place, str) else json.dumps(place) for place in places]
    return "\n".join(["v1", '{"batchWatermarkMs":0}', *lines])


def test_the_spans_of_a_batch_are_those_of_its_checkpoint() -> None:
    planned = offsets_file({"a": {"0": 9, "1": 4}, "@topicIds": {}}, {"b": {"0": 3}, "@topicIds": {}})
    before = offsets_file({"a": {"0": 5}, "@topicIds": {}}, {"b": {"0": 3}, "@topicIds": {}})
    assert planned_spans(planned, before, ["one", "two"]) == [
        Span("one", "a", 0, 5, 9),
        Span("one", "a", 1, 0, 4),
        Span("two", "b", 0, 3, 3),
    ]


def test_the_first_batch_begins_where_its_checkpoint_says() -> None:
    planned = offsets_file({"a": {"0": 9}, "@topicIds": {}, "@initial": {"a": {"0": 2}}})
    assert planned_spans(planned, None, ["one"]) == [Span("one", "a", 0, 2, 9)]


@pytest.mark.parametrize("place", ['{"logOffset":3}', "4", "no json"])
def test_a_batch_of_other_streams_has_no_records_to_set_aside(place: str) -> None:
    with pytest.raises(NoPoison, match="only records of topics"):
        planned_spans(offsets_file(place), None, ["files"])


def test_a_checkpoint_with_other_sources_has_no_records_to_set_aside() -> None:
    with pytest.raises(NoPoison, match="1 places, and it reads 2"):
        planned_spans(offsets_file({"a": {"0": 9}}), None, ["one", "two"])


def test_records_set_aside_are_kept_with_their_batch() -> None:
    first = SetAside(4, {Record("rows", "a", 0, 7): "no number"})
    assert SetAside.from_json(json.loads(json.dumps(first.to_json()))) == first
    other = {Record("rows", "a", 0, 9): "no date"}
    assert first.with_more(4, other).records == {**first.records, **other}
    assert first.with_more(5, other) == SetAside(5, other)


def test_only_a_row_that_a_rule_forbids_is_a_broken_rule() -> None:
    rule = failure("flow a failed", f"{RAISED} source rows: a row fails is small: a 0 at 1: 7 SQLSTATE: P0001")
    key = failure("flow a failed", f"{RAISED} flow a: a change has null in id; its keys are {{}} SQLSTATE: P0001")
    assert (type(rule), type(key)) == (RuleBroken, BadData)
