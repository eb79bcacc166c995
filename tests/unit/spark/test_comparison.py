"""Rows against what a case expects of them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ottla.spark.pipelines.comparison import compare, difference_lines, is_equal

MOMENT = datetime(2026, 11, 17, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1),
        (1, 1.0),
        (0.1, 0.1 + 1e-17),
        (5, Decimal("5.00")),
        ("5.00", Decimal("5")),
        (None, None),
        (float("nan"), float("nan")),
        ("2026-11-17T09:30:00Z", MOMENT),
        (datetime(2026, 11, 17, 9, 30), MOMENT),
        (MOMENT, "2026-11-17T11:30:00+02:00"),
        (date(2026, 11, 17), date(2026, 11, 17)),
        ("2026-11-17", date(2026, 11, 17)),
        ("text", b"text"),
        ("AP8=", b"\x00\xff"),
        ([1, {"a": None}], [1, {}]),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_values_are_equal_by_what_they_mean(expected: Any, actual: Any) -> None:
    assert is_equal(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 2),
        (True, 1),
        (1, True),
        (None, 0),
        (0, None),
        ("1", 1),
        (1, "1"),
        ("x", Decimal(1)),
        ("x", MOMENT),
        ("b", b"a"),
        ([1], [1, 2]),
        ({"a": 1}, "no json"),
        (1.0, 1.001),
    ],
)
def test_values_of_other_meaning_are_not_equal(expected: Any, actual: Any) -> None:
    assert not is_equal(expected, actual)


def test_rows_are_compared_in_any_order_and_as_often_as_they_come() -> None:
    rows = [{"a": 1}, {"a": 2}, {"a": 1}]
    assert not compare(rows, [{"a": 2}, {"a": 1}, {"a": 1}])
    assert compare(rows, [{"a": 2}, {"a": 1}, {"a": 2}])
    assert compare(rows, rows[::-1][:2])
    assert compare(rows, [{"a": 2}, {"a": 1}, {"a": 1}], is_ordered=True).changed


def test_columns_that_a_case_does_not_name_are_not_compared_unless_it_is_exact() -> None:
    assert not compare([{"a": 1}], [{"a": 1, "b": 2}])
    assert compare([{"a": 1}], [{"a": 1, "b": 2, "_key": "k"}], is_exact=True).columns == ["b"]


def test_a_row_that_names_more_columns_does_not_lose_its_row_to_another() -> None:
    assert not compare([{"a": 1}, {"a": 1, "b": 2}], [{"a": 1, "b": 2}, {"a": 1, "b": 3}])


def test_rows_that_are_alike_are_one_row_that_changed() -> None:
    expected = [{"id": 1, "x": "a", "y": 1}, {"id": 2, "x": "b", "y": 2}]
    found = compare(expected, [{"id": 2, "x": "b", "y": 3}, {"id": 9, "x": "z", "y": 9}])
    assert [one.columns for one in found.changed] == [{"y": (2, 3)}]
    assert (found.missing, found.unexpected) == ([expected[0]], [{"id": 9, "x": "z", "y": 9}])
    assert difference_lines(found) == [
        "1 changed, 1 missing, 1 unexpected",
        '  ~ {id: 2, x: "b"}',
        "      y: expected 2, got 3",
        '  - {id: 1, x: "a", y: 1}',
        '  + {id: 9, x: "z", y: 9}',
    ]


def test_many_rows_are_not_all_shown() -> None:
    lines = difference_lines(compare([], [{"a": number} for number in range(30)]))
    assert lines[-1] == "  and 10 rows more"


def test_only_the_number_of_rows_may_be_expected() -> None:
    assert not compare([], [{"a": 1}], count=1)
    assert difference_lines(compare([], [{"a": 1}], count=3)) == ["expected 3 rows, got 1"]


def test_a_misspelled_column_is_named_with_those_that_there_are() -> None:
    found = compare([{"id": 1, "nmae": "A"}], [{"id": 1, "name": "A"}])
    assert difference_lines(found)[1] == "  no row has the column nmae (did you mean 'name'?); there are id, name"
    assert compare([{"id": 1, "gone": None}], [{"id": 1}]).unknown is None
    assert compare([{"id": 1, "x": 1}], []).unknown is None
