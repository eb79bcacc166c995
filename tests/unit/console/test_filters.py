"""Filters on Arrow columns, against the same filters record by record."""

from __future__ import annotations

import json
from typing import Any

import pyarrow
import pytest

from ottla.console import byte_search
from ottla.console.column_filter import ColumnFilter, offset_ranges
from ottla.console.contents import Contents
from ottla.console.masking import Masking
from ottla.console.search_request import parse_search

HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def table_of(rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> Any:
    return pyarrow.table(
        {
            "key": pyarrow.array([key for key, _, _ in rows], pyarrow.binary()),
            "value": pyarrow.array([value for _, value, _ in rows], pyarrow.binary()),
            "partition": pyarrow.array([0] * len(rows), pyarrow.int32()),
            "offset": pyarrow.array(range(10, 10 + len(rows)), pyarrow.int64()),
            "timestamp": pyarrow.array(range(len(rows)), pyarrow.timestamp("ms", "UTC")),
            "timestampType": pyarrow.array([0] * len(rows), pyarrow.int32()),
            "headers": pyarrow.array([[{"key": k, "value": v} for k, v in h] for _, _, h in rows], HEADERS),
        }
    )


ROWS: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (b"a", json.dumps({"id": 1, "status": "failed"}).encode(), [("trace", b"needle")]),
    (b"b", json.dumps({"id": 2, "status": "ok"}).encode(), []),
    (None, None, [("trace", None)]),
    (b"needle", b"\xff\xfe binary NEEDLE", []),
    (b"a", b'{"id": 5, "status": "f\\u0061iled"}', [("other", b"x"), ("trace", b"y")]),
    (b"e", b"the needle", []),
]


def offsets(search: dict[str, Any], masks: tuple[str, ...] = ()) -> list[int]:
    request = parse_search({"topic": "t", **search})
    wanted = ColumnFilter(request.filter, Masking(masks).of("t"), Contents())
    return [record.offset - 10 for _, record in wanted.matching("t", table_of(ROWS))]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"key": "a"}, [0, 4]),
        ({"filter": {"text": "needle"}}, [0, 3, 5]),
        ({"filter": {"text": "needle", "ignore_case": True}}, [0, 3, 5]),
        ({"filter": {"text": "NEEDLE"}}, [3]),
        ({"filter": {"header": {"name": "trace", "value": None}}}, [0, 2, 4]),
        ({"filter": {"header": {"name": "trace", "value": "y"}}}, [4]),
        ({"filter": {"path": {"path": "$.id", "equals": 2}}}, [1]),
        ({"filter": {"path": {"path": "$.status", "equals": "failed"}}}, [0, 4]),
        ({"filter": {"expression": "value.status == 'failed'"}}, [0, 4]),
        ({"filter": {"expression": "value.id > 1"}}, [1, 4]),
        ({"filter": {"expression": "value.id > 1", "text": "ok"}}, [1]),
        ({"key": "a", "filter": {"expression": "value.id == 5"}}, [4]),
        ({"filter": {"text": "nothing"}}, []),
    ],
)
def test_filters(search: dict[str, Any], found: list[int]) -> None:
    assert offsets(search) == found


def test_masked_fields_cannot_be_searched_for() -> None:
    assert offsets({"filter": {"text": "failed"}}, ("status",)) == []
    assert offsets({"filter": {"expression": "value.status == 'failed'"}}, ("t:$.status",)) == []
    assert offsets({"filter": {"path": {"path": "$.id", "equals": 2}}}, ("status",)) == [1]
    assert offsets({"key": "a"}, ("key",)) == []
    assert offsets({"filter": {"header": {"name": "trace", "value": "y"}}}, ("headers.trace",)) == []
    assert offsets({"filter": {"text": "binary"}}, ("status",)) == []


def test_a_limit_takes_the_first_matches() -> None:
    wanted = ColumnFilter(parse_search({"topic": "t"}).filter, None, Contents())
    assert [row for row, _ in wanted.matching("t", table_of(ROWS), 2)] == [0, 1]


@pytest.mark.parametrize("is_plain", [False, True])
def test_bytes_are_found_in_rows_and_never_across_them(is_plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_plain:
        monkeypatch.setattr(byte_search, "_memmem", None)
    column = pyarrow.array([b"xab", b"cab", None, b"", b"abcabc", b"zabc"], pyarrow.binary())
    assert byte_search.rows_with(column, b"abc") == [4, 5]
    assert byte_search.rows_with(column.slice(1), b"ab") == [0, 3, 4]
    assert byte_search.rows_with(column, b"q") == []
    assert byte_search.rows_with(column.slice(0, 0), b"a") == []
    assert byte_search.rows_with(pyarrow.array([None, None], pyarrow.binary()), b"a") == []


def test_offset_ranges_of_a_table() -> None:
    table = pyarrow.table({"partition": [0, 0, 2, 2], "offset": [5, 7, 1, 2]})
    assert offset_ranges(table) == {0: (5, 8), 2: (1, 3)}
    assert offset_ranges(table.slice(0, 2)) == {0: (5, 8)}
    assert offset_ranges(table.slice(0, 0)) == {}
