"""Filters on Arrow columns, against the same filters record by record."""

from __future__ import annotations

import json
import random
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from ottla.console import byte_search
from ottla.console.column_filter import ColumnFilter, offset_ranges
from ottla.console.contents import Contents
from ottla.console.masking import Masking
from ottla.console.search_request import parse_search

HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def table_of(rows: list[Row]) -> Any:
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


ROWS: list[Row] = [
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


WORDS = [b"ab", b"abc", b"b", b"", b"needle", b'{"s": "ab"}', b'{"s": "\\u0061b"}', b'{"s": "b"}', b"\x00\xff"]


def some_row(chosen: random.Random) -> Row:
    def some_bytes() -> bytes | None:
        return chosen.choice([*WORDS, None])

    names = chosen.sample(["a", "ab", "trace"], chosen.choice([0, 0, 1, 2]))
    return some_bytes(), some_bytes(), [(name, some_bytes()) for name in names]


def some_search(chosen: random.Random) -> dict[str, Any]:
    text = chosen.choice(["ab", "abc", "b", "AB", "bab", "needle", "none"])
    kinds: list[dict[str, Any]] = [
        {},
        {"text": text, "ignore_case": chosen.random() < 0.3},
        {"header": {"name": chosen.choice(["a", "trace", "none"]), "value": chosen.choice([None, "", text])}},
        {"path": {"path": "$.s", "equals": chosen.choice(["ab", "none"])}},
        {"expression": chosen.choice(["value.s == 'ab'", "value.s == 'none'", "headers.trace == 'ab'"])},
    ]
    key = chosen.choice([None, None, "ab", "", "none"])
    return {"key": key, "filter": chosen.choice(kinds) | chosen.choice(kinds)}


def is_match(row: Row, search: dict[str, Any]) -> bool:
    """The same, decided the slow way."""
    key, value, headers = row
    wanted = search["filter"]
    if search["key"] is not None and key != search["key"].encode():
        return False
    if "text" in wanted:
        texts = [one for one in (key, value, *(one for _, one in headers)) if one is not None]
        if wanted["ignore_case"]:
            texts = [one.lower() for one in texts]
        needle = wanted["text"].lower() if wanted["ignore_case"] else wanted["text"]
        if not any(needle.encode() in one for one in texts):
            return False
    if "header" in wanted:
        name, part = wanted["header"]["name"], wanted["header"]["value"]
        if not any(one == name and (part is None or part.encode() in (found or b"")) for one, found in headers):
            return False
    try:
        document = json.loads(value or b"")
    except ValueError:
        document = None
    here = document["s"] if isinstance(document, dict) else None
    if "path" in wanted and here != wanted["path"]["equals"]:
        return False
    if "expression" in wanted:
        left, _, literal = wanted["expression"].partition(" == ")
        shown = {name: (one or b"").decode("utf-8", "replace") for name, one in headers}
        return bool((here if left == "value.s" else shown.get("trace")) == literal.strip("'"))
    return True


@pytest.mark.parametrize("seed", range(20))
def test_columns_decide_as_records_do(seed: int) -> None:
    chosen = random.Random(seed)
    ruled_out = 0
    for _ in range(50):
        search = some_search(chosen)
        rows = [some_row(chosen) for _ in range(chosen.choice([0, 1, 3, 8]))]
        cut = chosen.randrange(len(rows) + 1)
        table = pyarrow.concat_tables([table_of(rows[:cut]), table_of([some_row(chosen), *rows[cut:]]).slice(1)])
        wanted = ColumnFilter(parse_search({"topic": "t", **search}).filter, None, Contents())
        found = [row for row, _ in wanted.matching("t", table)]
        assert found == [number for number, row in enumerate(rows) if is_match(row, search)], (search, rows)
        if wanted.rules_out(table):
            ruled_out += 1
            assert not found, (search, rows)
    assert ruled_out > 10


def test_masks_leave_only_the_key_to_rule_a_table_out() -> None:
    def rules_out(search: dict[str, Any]) -> bool:
        request = parse_search({"topic": "t", **search})
        return ColumnFilter(request.filter, Masking(("status",)).of("t"), Contents()).rules_out(table_of(ROWS))

    assert rules_out({"key": "none"})
    assert not rules_out({"key": "a", "filter": {"text": "none"}})
    assert not rules_out({"filter": {"text": "none", "header": {"name": "none", "value": None}}})


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


@pytest.fixture(params=["imported", "plain"])
def search(request: pytest.FixtureRequest) -> Any:
    """The module as it was imported (compiled, if there is a compiler), and as plain Python."""
    if request.param == "imported":
        return byte_search
    source = Path(byte_search.__file__).with_name("byte_search.py")
    spec = spec_from_loader("plain_byte_search", SourceFileLoader("plain_byte_search", str(source)))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_bytes_are_found_in_rows_and_never_across_them(search: Any) -> None:
    column = pyarrow.array([b"xab", b"cab", None, b"", b"abcabc", b"zabc"], pyarrow.binary())
    assert search.rows_with(column, b"abc") == [4, 5]
    assert search.rows_with(column.slice(1), b"ab") == [0, 3, 4]
    assert search.rows_with(column, b"q") == []
    assert search.rows_with(column.slice(0, 0), b"a") == []
    assert search.rows_with(pyarrow.array([None, None], pyarrow.binary()), b"a") == []
    assert [search.occurs(column, one) for one in (b"abc", b"bca", b"q", b"")] == [True, True, False, True]
    assert not search.occurs(column.slice(4, 1), b"z")
    assert not search.occurs(column.slice(0, 0), b"a")


def test_bytes_are_found_wherever_they_are(search: Any) -> None:
    """Sizes around those of the blocks that the compiled search reads."""
    chosen = random.Random(1)
    for _ in range(400):
        rows = [bytes(chosen.choices(b"ab\xff", k=chosen.choice([0, 1, 15, 63, 64, 65, 200]))) for _ in range(3)]
        needle = bytes(chosen.choices(b"ab\xff", k=chosen.choice([1, 2, 3, 7, 17, 64, 66])))
        if chosen.random() < 0.5:
            place = chosen.randrange(3)
            at = chosen.randrange(len(rows[place]) + 1)
            rows[place] = rows[place][:at] + needle + rows[place][at:]
        column = pyarrow.array([b"before", *rows, b"after"], pyarrow.binary()).slice(1, 3)
        assert search.rows_with(column, needle) == [place for place, row in enumerate(rows) if needle in row]
        assert search.occurs(column, needle) == (needle in b"".join(rows))


def test_offset_ranges_of_a_table() -> None:
    table = pyarrow.table({"partition": [0, 0, 2, 2], "offset": [5, 7, 1, 2]})
    assert offset_ranges(table) == {0: (5, 8), 2: (1, 3)}
    assert offset_ranges(table.slice(0, 2)) == {0: (5, 8)}
    assert offset_ranges(table.slice(0, 0)) == {}
