"""CSV read strictly: what is accepted, what is refused and how that is said."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from ottla.converters.csv_values import CsvDecoder
from ottla.converters.errors import ConverterError

COLUMNS = pyarrow.struct(
    [
        ("name", pyarrow.string()),
        ("count", pyarrow.int16()),
        ("amount", pyarrow.decimal128(18, 2)),
        ("rate", pyarrow.float64()),
        ("at", pyarrow.timestamp("us", "UTC")),
    ]
)

MOMENT = datetime(2026, 11, 17, 9, 30, tzinfo=UTC)


def decode(*values: bytes | None, **given: Any) -> tuple[list[Any], list[str | None]]:
    rows, errors = CsvDecoder(COLUMNS, **given).decode(pyarrow.array(values, pyarrow.binary()))
    rows.validate(full=True)
    return [None if row is None else tuple(row.values()) for row in rows.to_pylist()], errors.to_pylist()


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b"x,1,2.5,3.25,2026-11-17T09:30:00Z", ("x", 1, Decimal("2.50"), 3.25, MOMENT)),
        (b"x,1,2.5,3.25,\r\n", ("x", 1, Decimal("2.50"), 3.25, None)),
        (b",,,,", (None, None, None, None, None)),
        (b'"",,,,', ("", None, None, None, None)),
        (b'"a""b, c\nd","7",,,', ('a"b, c\nd', 7, None, None, None)),
        (b" x ,-32768,-1,1e3,", (" x ", -32768, Decimal("-1.00"), 1000.0, None)),
        (b"C:\\dir\\,,,9007199254740992,", ("C:\\dir\\", None, None, 2.0**53, None)),
    ],
)  # fmt: skip
def test_records_of_the_schema_are_read_exactly(value: bytes, row: tuple[Any, ...]) -> None:
    assert decode(value) == ([row], [None])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'x,1,"5,00",1,', "amount: expected a number for decimal(18,2), got '5,00'"),
        (b"x,1,5.005,1,", "amount: expected a number with at most 2 digits after the point"),
        (b"x,70000,1,1,", "count: expected a whole number for smallint, from -32768 to 32767, got '70000'"),
        (b"x,99999999999999999999,1,1,", "count: expected a whole number for smallint"),
        (b"x, 5,1,1,", "count: expected a whole number for smallint, got ' 5'"),
        (b"x,+5,1,1,", "count: expected a whole number"),
        (b"x,007,1,1,", "count: expected a whole number"),
        (b"x,5.0,1,1,", "count: expected a whole number"),
        (b'x,"",1,1,', "count: expected a whole number"),
        (b"x,1,1,NaN,", "rate: expected a number for double, got 'NaN'"),
        (b"x,1,1,1e999,", "rate: expected a number within the range of double"),
        (b"x,1,1,9007199254740993,", "rate: expected a whole number that double holds exactly"),
        (b"x,1,1,1,17.11.2026", "at: expected a timestamp such as"),
        (b"x,1,1,1,2026-02-30T09:30:00Z", "at: expected a timestamp such as"),
        (b"x,1,1,1,2026-11-17T24:00:00Z", "at: expected a timestamp such as"),
        (b"x,1", "expected 5 columns, got 2"),
        (b"x,1,1,1,,", "expected 5 columns, got 6"),
        (b"", "expected 5 columns, got 1"),
        (b'"a\\"b",1,1,1,', "expected ',' after the closing quote, got b\","),
        (b'a"b,1,1,1,', "expected a field without quotes and line breaks, or all in quotes, got a\"b"),
        (b'"a,1,1,1,', "expected a field without quotes"),
        (b"a\nb,1,1,1,", "expected one line"),
        (b"\xff,1,1,1,", "expected UTF-8, got the byte 0xff at 0"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_schema_is_refused_and_spoils_no_others(value: bytes, reason: str) -> None:
    rows, errors = decode(b"a,1,,,", value, b"b,2,,,2026-11-17T09:30:00Z")
    assert [row and row[0] for row in rows] == ["a", None, "b"]
    assert rows[2][4] == MOMENT
    assert (errors[0], errors[2]) == (None, None)
    assert reason in str(errors[1])


def test_what_has_to_be_there_is_asked_for() -> None:
    columns = pyarrow.struct([pyarrow.field("id", pyarrow.int64(), nullable=False), ("name", pyarrow.string())])
    decoder = pickle.loads(pickle.dumps(CsvDecoder(columns)))
    rows, errors = decoder.decode(pyarrow.array([b"1,", b",x", None], pyarrow.binary()))
    assert rows.to_pylist() == [{"id": 1, "name": None}, None, None]
    assert errors.to_pylist() == [
        None,
        "id: expected a value, as the column is NOT NULL; the field is empty",
        "id: expected a value, as the column is NOT NULL; the record has none",
    ]


def test_a_header_in_another_order_is_no_row() -> None:
    rows, errors = decode(b"Rate,name,count,at,amount", has_header=True)
    assert rows == [None]
    assert "expected the columns in the order name,count,amount,rate,at" in str(errors[0])


def test_columns_that_csv_cannot_hold_are_refused() -> None:
    with pytest.raises(ConverterError, match="tags: CSV has no list"):
        CsvDecoder(pyarrow.struct([("tags", pyarrow.list_(pyarrow.string()))]))
