"""Avro on Arrow arrays: all types both ways, schemas that have moved on, values that are none."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from ottla.converters.avro import AvroDecoder, AvroEncoder
from ottla.converters.avro_schema import avro_schema_of
from ottla.converters.errors import ConverterError

MOMENT = datetime(1969, 7, 20, 20, 17, 40, 123000, tzinfo=UTC)
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}


def record(*fields: tuple[str, Any], name: str = "shop.Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]})


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "at", "type": {"type": "array", "items": logical("long", "timestamp-millis")}}],
}
EVERY = record(
    ("flag", "boolean"),
    ("small", "int"),
    ("large", ["null", "long"]),
    ("ratio", "float"),
    ("amount", "double"),
    ("raw", "bytes"),
    ("name", "string"),
    ("millis", logical("long", "timestamp-millis")),
    ("local", logical("long", "local-timestamp-micros")),
    ("day", logical("int", "date")),
    ("price", logical("bytes", "decimal", precision=10, scale=2)),
    ("total", {"type": "fixed", "name": "Total", "size": 8, **logical("fixed", "decimal", precision=18, scale=3)}),
    ("state", STATE),
    ("before", ["null", "State"]),
    ("number", ["int", "long", "double"]),
    ("tags", {"type": "array", "items": ["null", "string"]}),
    ("times", {"type": "map", "values": logical("long", "timestamp-micros")}),
    ("line", ["null", LINE]),
    ("clock", logical("int", "time-millis")),
    ("id", logical("string", "uuid")),
)
ROW = {
    "flag": True,
    "small": -7,
    "large": 2**40,
    "ratio": 0.5,
    "amount": 1.25,
    "raw": b"\x00\xff",
    "name": "Božena",
    "millis": MOMENT,
    "local": datetime(2026, 1, 2, 3, 4, 5, 678901),
    "day": date(1960, 2, 29),
    "price": Decimal("-12.34"),
    "total": Decimal("1.500"),
    "state": "PAID",
    "before": None,
    "number": 2.5,
    "tags": ["a", None],
    "times": [("k", MOMENT)],
    "line": {"at": [MOMENT, MOMENT]},
    "clock": 1000,
    "id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
}


@pytest.mark.parametrize("schema", [EVERY, json.dumps(avro_schema_of(AvroDecoder(EVERY).type))])
def test_every_type_goes_there_and_back(schema: str) -> None:
    decoder = pickle.loads(pickle.dumps(AvroDecoder(schema)))
    rows = pyarrow.array([ROW, None, ROW], decoder.type)
    encoder = pickle.loads(pickle.dumps(AvroEncoder(schema, (), decoder.type)))
    found, errors = decoder.decode(encoder.encode(rows))
    assert found.equals(rows)
    assert errors.null_count == 3
    assert encoder.encode(rows.slice(2)).equals(encoder.encode(rows).slice(2))


def test_a_value_that_is_none_is_named_and_does_no_harm_to_others() -> None:
    schema = record(("id", "long"), ("name", "string"))
    decoder = AvroDecoder(schema)
    good = (
        AvroEncoder(schema, (), decoder.type).encode(pyarrow.array([{"id": 1, "name": "x"}], decoder.type))[0].as_py()
    )
    values = pyarrow.array([good, good + b"?", good[:-1], b"", None, b"\x02\x02\xff", good])
    rows, errors = decoder.decode(values)
    assert [row is not None for row in rows.to_pylist()] == [True, False, False, False, False, False, True]
    said = errors.to_pylist()
    assert [one is None for one in said] == [True, False, False, False, True, False, True]
    assert "1 bytes are left over" in said[1]
    assert "ends too early" in said[2]
    assert "UnicodeDecodeError" in said[5]


def test_lengths_that_lie_are_found_out_at_once() -> None:
    decoder = AvroDecoder(record(("raw", "bytes"), ("list", {"type": "array", "items": "int"})))
    huge, negative = b"\xfe" + b"\xff" * 7 + b"\x7f", b"\xff" * 8 + b"\x7f"
    values = [huge + b"x", b"\0" + huge + b"\2", b"\1", b"\0" + negative + b"\2\2", b"\xff" * 20]
    rows, errors = decoder.decode(pyarrow.array(values))
    assert rows.null_count == len(values)
    assert errors.null_count == 0


def test_a_number_too_large_for_its_column_is_found_among_many() -> None:
    decoder = AvroDecoder(record(("id", "int")))
    long = AvroEncoder(record(("id", "long")), (), pyarrow.struct([("id", pyarrow.int64())]))
    ids = [*range(100), 2**40, *range(100)]
    rows, errors = decoder.decode(long.encode(pyarrow.array([{"id": one} for one in ids])))
    assert [index for index, one in enumerate(errors.to_pylist()) if one is not None] == [100]
    assert rows.to_pylist() == [None if one == 2**40 else {"id": one} for one in ids]


def test_a_schema_that_is_no_record_has_the_column_value() -> None:
    decoder = AvroDecoder('"string"')
    encoder = AvroEncoder('"string"', (), decoder.type)
    rows = pyarrow.array([{"value": "x"}], decoder.type)
    assert decoder.decode(encoder.encode(rows))[0].equals(rows)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is not valid JSON"),
        (record(("a", "State")), "a type State that it does not have"),
        (record(("a", ["string", "bytes"])), "a union of string, bytes"),
        (record(("a", {"type": "array", "items": "null"})), "takes no bytes"),
        (record(("next", ["null", "shop.Order"])), "contains itself"),
        (record(("a", logical("bytes", "decimal", precision=39))), "at most 38"),
        (record(("a", logical("bytes", "decimal", precision=3, scale=4))), "no valid precision"),
        (record(), "has no fields"),
    ],
)
def test_a_schema_without_columns_is_refused_and_says_why(schema: str, message: str) -> None:
    with pytest.raises(ConverterError) as raised:
        AvroDecoder(schema)
    assert message in str(raised.value)


def test_rows_have_to_fit_the_schema_they_are_written_with() -> None:
    schema = record(("id", "long"), ("name", "string"))
    extra = pyarrow.struct([("id", pyarrow.int32()), ("more", pyarrow.string())])
    with pytest.raises(ConverterError, match="the column more is not in the schema, which has id, name"):
        AvroEncoder(schema, (), extra)
    nested = pyarrow.struct([("id", pyarrow.list_(pyarrow.int64())), ("name", pyarrow.string())])
    with pytest.raises(ConverterError, match="the column id is list"):
        AvroEncoder(schema, (), nested)
    columns = pyarrow.struct([("id", pyarrow.int32()), ("name", pyarrow.string())])
    with pytest.raises(ConverterError, match=r"a row cannot be written as Avro.*'name': None"):
        AvroEncoder(schema, (), columns).encode(pyarrow.array([{"id": 1, "name": None}], columns))


def test_a_field_with_a_default_may_be_left_out_of_the_rows() -> None:
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 5}]
    schema = json.dumps({"type": "record", "name": "A", "fields": fields})
    columns = pyarrow.struct([("a", pyarrow.int32())])
    written = AvroEncoder(schema, (), columns).encode(pyarrow.array([{"a": 1}], columns))
    assert AvroDecoder(schema).decode(written)[0].to_pylist() == [{"a": 1, "b": 5}]


@pytest.mark.parametrize(
    ("column", "written", "value", "message"),
    [
        (pyarrow.int64(), "int", 2**40, "Integer value 1099511627776 not in range"),
        (pyarrow.timestamp("us", "UTC"), logical("long", "timestamp-millis"), 1_500, "would lose data: 1500"),
        (pyarrow.decimal128(18, 3), "int", Decimal("1.5"), "would cause data loss"),
        (pyarrow.int64(), "double", 2**53 + 1, "not in range"),
        (pyarrow.float64(), "float", 0.1, "is double, and the schema has float there: cast the column in the view"),
        (pyarrow.float64(), "long", 0.5, "is double, and the schema has int64 there: cast the column in the view"),
        (pyarrow.string(), "int", "5", "is string, and the schema has int32 there: cast the column in the view"),
        (pyarrow.int64(), "string", 5, "is int64, and the schema has string there: cast the column in the view"),
        (pyarrow.int64(), logical("long", "timestamp-millis"), 5, "is int64, and the schema has timestamp"),
    ],
)
def test_nothing_is_rounded_cut_or_guessed_when_rows_are_written(
    column: Any, written: Any, value: Any, message: str
) -> None:
    columns = pyarrow.struct([("a", column)])
    with pytest.raises(ConverterError) as raised:
        AvroEncoder(record(("a", written)), (), columns).encode(pyarrow.array([{"a": value}], columns))
    assert message in str(raised.value)
