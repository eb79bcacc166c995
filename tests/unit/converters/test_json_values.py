"""JSON read strictly: what is accepted, what is refused and how that is said; the kernel does as the careful reader."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow
import pytest

from ottla.converters.errors import ConverterError
from ottla.converters.json_kinds import MAX_DEPTH
from ottla.converters.json_reader import with_any_text
from ottla.converters.json_schema import json_columns
from ottla.converters.json_values import MAX_NAMES, OTHERS, UNEXPECTED, JsonDecoder
from ottla.converters.scalars import MAX_SHOWN

ITEM = pyarrow.struct([("price", pyarrow.decimal128(18, 2)), ("count", pyarrow.int32())])
COLUMNS = pyarrow.struct(
    [
        ("id", pyarrow.int64()),
        ("small", pyarrow.int8()),
        ("amount", pyarrow.decimal128(18, 2)),
        ("large", pyarrow.decimal128(38, 10)),
        ("rate", pyarrow.float64()),
        ("single", pyarrow.float32()),
        ("name", pyarrow.string()),
        ("at", pyarrow.timestamp("us", "UTC")),
        ("local", pyarrow.timestamp("us")),
        ("day", pyarrow.date32()),
        ("is_new", pyarrow.bool_()),
        ("raw", pyarrow.binary()),
        ("items", pyarrow.list_(ITEM)),
        ("rates", pyarrow.map_(pyarrow.string(), pyarrow.float64())),
        ("by_day", pyarrow.map_(pyarrow.string(), ITEM)),
        ("place", pyarrow.struct([("city", pyarrow.string()), ("code", pyarrow.int16())])),
    ]
)
NULLS = {"price": None, "count": None}
BOTH = pytest.mark.parametrize("is_fast", [True, False], ids=["kernel", "careful"])


def decode(
    values: Sequence[bytes | None], columns: Any = COLUMNS, **given: Any
) -> tuple[list[dict[str, Any] | None], list[str | None]]:
    rows, errors = JsonDecoder(columns, **given).decode(pyarrow.array(values, pyarrow.binary()))
    rows.validate(full=True)
    return rows.to_pylist(), errors.to_pylist()


def read(value: str | bytes, *, is_fast: bool = True, columns: Any = COLUMNS, **given: Any) -> dict[str, Any]:
    """The fields of an accepted value that are there."""
    (row,), (error,) = decode([value.encode() if isinstance(value, str) else value], columns, is_fast=is_fast, **given)
    assert error is None
    assert row is not None
    return {name: one for name, one in row.items() if one is not None}


def refused(value: str | bytes, *, is_fast: bool = True, columns: Any = COLUMNS, **given: Any) -> str:
    (row,), (error,) = decode([value.encode() if isinstance(value, str) else value], columns, is_fast=is_fast, **given)
    assert row is None
    assert error is not None
    return error


@BOTH
@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("id", "-9223372036854775808", -(2**63)),
        ("id", "-0", 0),
        ("small", "127", 127),
        ("amount", "5", Decimal("5.00")),
        ("amount", "-0.10", Decimal("-0.10")),
        ("amount", "5.000", Decimal("5.00")),
        ("amount", "1e2", Decimal("100.00")),
        ("amount", "9999999999999999.99", Decimal("9999999999999999.99")),
        ("large", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
        ("rate", "0.1", 0.1),
        ("rate", "1E5", 1e5),
        ("rate", "-0.0", -0.0),
        ("rate", "53.11207224659675", 53.11207224659675),
        ("rate", "2.2250738585072011e-308", 2.2250738585072011e-308),
        ("rate", "9007199254740992", 2.0**53),
        ("single", "0.5", 0.5),
        ("name", '"\\u00e9\\n\\ud83d\\ude00 \\/"', "é\n😀 /"),
        ("name", '"é😀"', "é😀"),
        ("at", '"2026-11-17T09:30:00Z"', datetime(2026, 11, 17, 9, 30, tzinfo=UTC)),
        ("at", '"2026-11-17 09:30:00.123456+02:00"', datetime(2026, 11, 17, 7, 30, 0, 123456, UTC)),
        ("at", '"2026-11-17T09:30"', datetime(2026, 11, 17, 9, 30, tzinfo=UTC)),
        ("at", '"2026-11-17T09:30:00.100000000-0130"', datetime(2026, 11, 17, 11, 0, 0, 100000, UTC)),
        ("at", '"0001-01-01T00:00:00Z"', datetime(1, 1, 1, tzinfo=UTC)),
        ("local", '"2026-11-17T09:30:00.5"', datetime(2026, 11, 17, 9, 30, 0, 500000)),
        ("day", '"2024-02-29"', date(2024, 2, 29)),
        ("day", '"1969-12-31"', date(1969, 12, 31)),
        ("is_new", "false", False),
        ("raw", '"AP8="', b"\x00\xff"),
        ("items", '[{"price": 1.5}, null, {}]', [{"price": Decimal("1.50"), "count": None}, None, NULLS]),
        ("items", "[]", []),
        ("rates", '{"a": 1.5, "b": null}', [("a", 1.5), ("b", None)]),
        ("place", '{"code": 7}', {"city": None, "code": 7}),
    ],
)  # fmt: skip
def test_values_of_the_schema_are_read_exactly(field: str, text: str, value: Any, is_fast: bool) -> None:
    assert read(f'{{"{field}": {text}}}', is_fast=is_fast) == {field: value}
    assert read(f' {{ "{field}"\t:\n{text} \r}} ', is_fast=is_fast) == {field: value}


@BOTH
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"amount": "5,00"}', 'amount: expected a number for decimal(18,2), got "5,00" (a string)'),
        ('{"amount": 5.005}', "amount: expected a number with at most 2 digits after the point for decimal(18,2), got"),
        ('{"amount": 12345678901234567}', "amount: expected a number with at most 16 digits before the point"),
        ('{"amount": 1e-3}', "at most 2 digits after the point"),
        ('{"items": [{}, {}, {"price": "5,00"}]}', "items[2].price: expected a number"),
        ('{"place": {"code": 70000}}', "place.code: expected a whole number for smallint, from -32768 to 32767"),
        ('{"rates": {"a": true}}', "rates.a: expected a number for double, got true (a boolean)"),
        ('{"id": 1}{"id": 2}', 'expected nothing after the JSON object, got {"id": 2}'),
        ('{"id": 1} trailing', "expected nothing after the JSON object, got trailing"),
        ('{"ID": 1}', "ID: expected the name id, as in the schema"),
        ('{"place": {"City": "x"}}', "place.City: expected the name city"),
        ('{"iban": 1}', "expected a field of the schema, got only iban"),
        ('{"id": 1, "id": 1}', "id: expected each field once"),
        ('{"id": 1, "x": 1, "x": 2}', "x: expected each field once"),
        ('{"rates": {"a": 1, "\\u0061": 2}}', "rates.a: expected each field once"),
        ('[{"id": 1}]', "expected a JSON object, got"),
        ("null", "expected a JSON object, got null"),
        ("", "expected a JSON object, got the end of the value"),
        ('{"id": 1', "expected ',' or '}', got the end"),
        ('{"id": 1,}', "expected the name of a field in quotes"),
        ('{"id" 1}', "id: expected ':' after the name"),
        ("{'id': 1}", "expected the name of a field in quotes"),
        ('{"id": 01}', "expected ',' or '}'"),
        ('{"id": 1.0}', "id: expected a whole number for bigint, got 1.0"),
        ('{"id": "1"}', 'id: expected a number for bigint, got "1" (a string)'),
        ('{"id": 9223372036854775808}', "id: expected a whole number for bigint, from"),
        ('{"small": 128}', "small: expected a whole number for tinyint, from -128 to 127, got 128"),
        ('{"rate": NaN}', "rate: expected a JSON value, got NaN"),
        ('{"rate": -Infinity}', "rate: expected a JSON value, got -Infinity"),
        ('{"rate": "NaN"}', "rate: expected a number for double"),
        ('{"rate": 1e400}', "rate: expected a number within the range of double"),
        ('{"rate": 9007199254740993}', "rate: expected a whole number that double holds exactly"),
        ('{"single": 1e39}', "single: expected a number within the range of float"),
        ('{"single": 16777217}', "single: expected a whole number that float holds exactly"),
        ('{"name": 5}', "name: expected a string, got 5 (a number)"),
        ('{"name": {"a": 1}}', 'name: expected a string, got {"a": 1} (an object)'),
        ('{"name": "\\ud800"}', "name: expected whole characters"),
        ('{"name": "a\nb"}', "name: expected a JSON string"),
        ('{"at": 1700000000}', "at: expected a string for timestamp, got 1700000000 (a number)"),
        ('{"at": "17.11.2026"}', "at: expected a timestamp such as"),
        ('{"at": "2026-11-17"}', "at: expected a timestamp such as"),
        ('{"at": "2026-02-30T00:00:00Z"}', "at: expected a timestamp such as"),
        ('{"at": "2026-11-17T24:00:00Z"}', "at: expected a timestamp such as"),
        ('{"at": "2026-11-17T09:30:00.1234567Z"}', "at: expected a timestamp with at most 6 digits after the second"),
        ('{"local": "2026-11-17T09:30:00Z"}', "local: expected a timestamp without an offset"),
        ('{"day": "2023-02-29"}', "day: expected a date such as"),
        ('{"day": "2023-2-9"}', "day: expected a date such as"),
        ('{"is_new": "true"}', "is_new: expected true or false"),
        ('{"is_new": 1}', "is_new: expected true or false, got 1"),
        ('{"raw": "?"}', "raw: expected bytes in base64"),
        ('{"items": {}}', "items: expected an array for array<struct>, got {} (an object)"),
        ('{"place": []}', "place: expected an object, got [] (an array)"),
        ('{"id": 1, "x": tru}', "x: expected a JSON value"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_schema_is_refused_with_field_and_value(text: str, reason: str, is_fast: bool) -> None:
    assert reason in refused(text, is_fast=is_fast)


@BOTH
def test_bytes_that_are_no_utf8_are_refused_and_spoil_no_others(is_fast: bool) -> None:
    values = [b'{"id": 1}', b'{"name": "\xff"}', None, b'{"id": 2}']
    rows, errors = decode(values, is_fast=is_fast)
    assert [row and row["id"] for row in rows] == [1, None, None, 2]
    assert errors == [None, "expected UTF-8, got the byte 0xff at 10", None, None]


@BOTH
def test_depth_is_bounded_also_where_the_schema_does_not_look(is_fast: bool) -> None:
    def nested(depth: int) -> str:
        return '{"id": 1, "x": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"

    assert read(nested(MAX_DEPTH), is_fast=is_fast)["id"] == 1
    assert "at most 64 objects and arrays" in refused(nested(MAX_DEPTH + 1), is_fast=is_fast)
    assert "at most 64 objects and arrays" in refused(nested(100_000), is_fast=is_fast)


@BOTH
def test_a_reason_shows_no_more_than_the_beginning_of_a_value(is_fast: bool) -> None:
    said = refused('{"id": "' + "9" * 100_000 + '"}', is_fast=is_fast)
    assert len(said) < MAX_SHOWN + 100
    assert len(refused('{"rate": ' + "9" * 100_000 + "}", is_fast=is_fast)) < MAX_SHOWN + 100


@BOTH
def test_what_is_missing_is_null_unless_it_must_be_there(is_fast: bool) -> None:
    columns = pyarrow.struct([pyarrow.field("id", pyarrow.int64(), nullable=False), ("name", pyarrow.string())])
    rows, errors = decode([b'{"id": 1}', b'{"id": 2, "name": null}'], columns, is_fast=is_fast)
    assert errors == [None, None]
    assert [row and row["name"] for row in rows] == [None, None]
    assert "id: expected a value, as the column is NOT NULL; the field is missing" in refused(
        '{"name": "x"}', columns=columns, is_fast=is_fast
    )
    assert "got null" in refused('{"id": null}', columns=columns, is_fast=is_fast)
    assert decode([None], columns, is_fast=is_fast)[1] == [
        "id: expected a value, as the column is NOT NULL; the record has none"
    ]
    assert decode([None], is_fast=is_fast) == ([None], [None])
    assert read("{}", is_fast=is_fast) == {}


@BOTH
def test_fields_that_the_schema_does_not_have_are_counted_and_kept(is_fast: bool) -> None:
    values = [
        b'{"iban": 1}',
        b'{"id": 1, "iban": {"a": [1, "\\u00e9"]}, "vip": null}',
        b'{"id": 2, "iban" : "x", "items": [{}, {"note": 5}]}',
        b'{"id": 3}',
        b'{"id": "wrong", "other": 1}',
    ]
    rows, errors = decode(values, rescue="rest", is_fast=is_fast)
    assert [error is None for error in errors] == [True, True, True, True, False]
    kept = [None if row is None or row["rest"] is None else json.loads(row["rest"]) for row in rows]
    assert kept == [
        {"iban": 1},
        {"iban": {"a": [1, "é"]}, "vip": None},
        {"iban": "x", "items[1].note": 5},
        None,
        None,
    ]
    assert rows[0] is not None
    assert json.loads(rows[0][UNEXPECTED]) == {"iban": 3, "vip": 1, "items[].note": 1}
    assert all(row is None or row[UNEXPECTED] is None for row in rows[1:])


@BOTH
def test_only_so_many_unexpected_fields_are_counted_by_name(is_fast: bool) -> None:
    values = [json.dumps({"id": 1, "often": 1, f"field-{number}": 1}).encode() for number in range(100)]
    rows, _ = decode([b"?", *values], is_fast=is_fast)
    assert rows[1] is not None
    counts = json.loads(rows[1][UNEXPECTED])
    assert len(counts) == MAX_NAMES + 1
    assert (counts["often"], counts[OTHERS]) == (100, 100 - (MAX_NAMES - 1))


@BOTH
def test_a_text_that_takes_anything_has_the_json_itself(is_fast: bool) -> None:
    columns = with_any_text(pyarrow.field("", pyarrow.struct([("a", pyarrow.string()), ("id", pyarrow.int64())]))).type
    for text, value in (('"x\\n"', "x\n"), ("1.50", "1.50"), ('{"b": [1, 2]}', '{"b": [1, 2]}'), ("true", "true")):
        assert read(f'{{"a": {text}}}', columns=columns, is_fast=is_fast) == {"a": value}
    assert "a: expected a JSON value" in refused('{"a": nope}', columns=columns, is_fast=is_fast)


def test_timestamps_without_an_offset_are_in_the_session_s_zone() -> None:
    found = read('{"at": "2026-07-01T12:00:00"}', zone="Europe/Athens")
    assert found == {"at": datetime(2026, 7, 1, 9, tzinfo=UTC)}


def test_a_decoder_reads_slices_and_goes_to_other_processes() -> None:
    decoder = pickle.loads(pickle.dumps(JsonDecoder(COLUMNS, "rest")))
    values = pyarrow.array([b"{}", None, b'{"id": 1, "x": 2}', b'{"id": 3}', b"?"], pyarrow.binary())
    rows, errors = decoder.decode(values.slice(2, 2))
    assert [(row["id"], row["rest"]) for row in rows.to_pylist()] == [(1, '{"x": 2}'), (3, None)]
    assert errors.null_count == 2
    assert decoder.decode(values.slice(0, 0))[0].to_pylist() == []


def test_schemas_that_json_has_no_values_for_are_refused() -> None:
    with pytest.raises(ConverterError, match="keys of JSON are strings"):
        JsonDecoder(pyarrow.struct([("a", pyarrow.map_(pyarrow.int32(), pyarrow.string()))]))
    with pytest.raises(ConverterError, match="cannot be read strictly"):
        JsonDecoder(pyarrow.struct([("a", pyarrow.duration("us"))]))


def test_a_registered_schema_says_what_has_to_be_there_and_what_may_be_anything() -> None:
    schema = {
        "type": "object",
        "required": ["id", "note"],
        "properties": {
            "id": {"type": "integer"},
            "note": {"type": ["null", "string"]},
            "free": {},
            "tags": {"type": "array", "items": {"type": "string"}},
            "bag": {"type": "object", "additionalProperties": True},
        },
    }
    columns = json_columns(json.dumps(schema))
    value = '{"id": 1, "note": null, "free": {"a": 1}, "tags": ["x"], "bag": {"n": 1}}'
    assert read(value, columns=columns) == {"id": 1, "free": '{"a": 1}', "tags": ["x"], "bag": [("n", "1")]}
    assert "id: expected a value" in refused('{"note": "x"}', columns=columns)
    assert "tags[0]: expected a string, got 1" in refused('{"id": 1, "tags": [1]}', columns=columns)


# --- generated values: the kernel and the careful reader agree, and json.loads agrees with both on what is JSON


NUMBERS: tuple[str, ...] = (
    "0",
    "-0",
    "7",
    "-12",
    "1.5",
    "5.005",
    "5.10",
    "1e2",
    "1E-2",
    "2.5e+3",
    "127",
    "128",
    "70000",
    "2147483648",
)
NUMBERS += ("9223372036854775807", "9223372036854775808", "9007199254740993", "0.1000000000000000055511151231257827")
NUMBERS += ("123456789012345678.12", "1e400", "01", "+1", "1.", ".5", "1e", "NaN", "-", "1_000", "0x10", "16777217")
NUMBERS += ("123456789012345678901234567890.5", "1e22", "1e23", "-1.7976931348623157e308", "3.5e38", "4.9e-324")
STRINGS: tuple[str, ...] = (
    '""',
    '"x"',
    '"é"',
    '"😀"',
    r'"\u00e9"',
    r'"\ud83d\ude00"',
    r'"\ud800"',
    r'"\udc00x"',
    r'"\n\t\"\\\/"',
    r'"\x"',
)
STRINGS += ('"5,00"', '"5"', '"2026-11-17T09:30:00Z"', '"2026-11-17 09:30:00.123"', '"2026-11-17T09:30:00+02:00"')
STRINGS += ('"2026-11-17T09:30"', '"2026-02-29"', '"2024-02-29"', '"2026-11-17T09:30:00.1234567Z"', '"0000-01-01"')
STRINGS += (
    '"2026-11-17T09:30:60Z"',
    '"2026-11-17T09:30:00-19:00"',
    '"2026-11-17T09:30:00.123456"',
    '"AAA="',
    '"\x01"',
    '"',
)
OTHER_TEXTS = ("null", "true", "false", "nul", "True", "[]", "{}", "[1,]", "[1 2]", '{"a":1,"a":2}', "")


def generated_value(rng: Random, depth: int = 0) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(NUMBERS)
    if kind < 0.65:
        return rng.choice(STRINGS)
    if kind < 0.75 or depth > 3:
        return rng.choice(OTHER_TEXTS)
    if kind < 0.85:
        return "[" + ",".join(generated_value(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"
    return generated_object(rng, ("price", "count", "city", "code", "Code", "a"), depth + 1)


def fitting_value(rng: Random, kind: Any) -> str:
    types = pyarrow.types
    if rng.random() < 0.1:
        return "null"
    if types.is_struct(kind):
        return (
            "{" + ", ".join(f'"{one.name}": {fitting_value(rng, one.type)}' for one in kind if rng.random() < 0.8) + "}"
        )
    if types.is_map(kind):
        return (
            "{" + ",".join(f'"k{key}": {fitting_value(rng, kind.item_type)}' for key in range(rng.randrange(3))) + "}"
        )
    if types.is_list(kind):
        return "[" + ",".join(fitting_value(rng, kind.value_type) for _ in range(rng.randrange(3))) + "]"
    if types.is_integer(kind):
        return str(rng.randrange(-100, 100))
    if types.is_floating(kind) or types.is_decimal(kind):
        return rng.choice((str(rng.randrange(1000) / 4), str(rng.randrange(-100, 100)), "1e1", "0.50"))
    if types.is_boolean(kind):
        return rng.choice(("true", "false"))
    if types.is_date(kind):
        return f'"{rng.randrange(1, 9999):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 31):02}"'
    if types.is_timestamp(kind):
        second = f"{rng.randrange(60):02}" + rng.choice(("", ".5", ".000001", ".123456"))
        zone = rng.choice(("Z", "", "+02:00", "-11:30")) if kind.tz else ""
        return f'"{rng.randrange(1, 9999):04}-{rng.randrange(1, 13):02}-28T{rng.randrange(24):02}:59:{second}{zone}"'
    return rng.choice(STRINGS[:6])


def generated_object(rng: Random, names: Sequence[str], depth: int = 0) -> str:
    blank = rng.choice(("", "", " ", "\n", "\t "))
    fields = []
    for _ in range(rng.randrange(5)):
        name = rng.choice(names)
        at_top = {one.name: one.type for one in COLUMNS} if depth == 0 else {}
        fits = name in at_top and rng.random() < 0.8
        text = fitting_value(rng, at_top[name]) if fits else generated_value(rng, depth)
        fields.append(f'"{name}"{blank}:{blank}{text}')
    return "{" + blank + f"{blank},".join(fields) + "}"


def generated(rng: Random) -> bytes:
    """A value that is often right, and often nearly so."""
    names = [*COLUMNS.names, *COLUMNS.names, "x", "ID", "y\\u0061", "ü"]
    value = bytearray(generated_object(rng, names).encode())
    chance = rng.random()
    if chance < 0.1 and value:
        value[rng.randrange(len(value))] = rng.choice(b'{}[]",:\\ 0e.-\xff\x00nt')
    elif chance < 0.15:
        del value[rng.randrange(len(value)) :]
    elif chance < 0.2:
        value += rng.choice((b" ", b"\n", b"x", b"{}", b",", b"\x00"))
    return bytes(value)


@pytest.mark.parametrize("rescue", [None, "rest"])
@pytest.mark.parametrize("seed", range(8))
def test_the_kernel_accepts_what_the_careful_reader_accepts_with_the_same_result(seed: int, rescue: str | None) -> None:
    rng = Random(seed)
    values = [generated(rng) for _ in range(500)]
    fast = decode(values, rescue=rescue, is_fast=True)
    careful = decode(values, rescue=rescue, is_fast=False)
    assert fast[1] == careful[1]
    assert repr(fast[0]) == repr(careful[0])  # -0.0 is not 0.0
    accepted = 0
    for value, row, error in zip(values, *careful, strict=True):
        assert (row is None) == (error is not None)
        if row is None:
            continue
        accepted += 1
        known = json.loads(value, parse_float=Decimal, parse_constant=lambda name: pytest.fail(name))
        for name in ("id", "small", "amount", "large", "is_new"):
            assert row[name] == known.get(name), value
    assert 50 < accepted < 450
