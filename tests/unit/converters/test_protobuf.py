"""Protobuf on Arrow arrays: all types both ways, presence, values that are none."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from ottla.converters.errors import ConverterError
from ottla.converters.protobuf import ProtobufDecoder, ProtobufEncoder
from ottla.converters.protobuf_schema import ProtobufSchema, compiled, compiled_text, message_of

MOMENT = datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC)
HEAD = 'syntax = "proto3"; package shop;\n'
ORDER = (
    HEAD
    + """
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/empty.proto";
message Other { int32 x = 1; message Deep { string y = 1; } }
enum State { UNKNOWN = 0; PAID = 1; }
message Item { string sku = 1; int32 count = 2; }
message Order {
  int64 id = 1; string name = 2; optional double amount = 3; google.protobuf.Timestamp at = 4;
  repeated string tags = 5; map<string, Item> items = 6; State state = 7; uint64 big = 8; bytes raw = 9;
  google.protobuf.Int64Value maybe = 10; oneof which { string a = 11; int32 b = 12; } repeated Item list = 13;
  google.protobuf.Duration took = 14; Other.Deep deep = 15; google.protobuf.Empty nothing = 16;
  repeated State states = 17; map<int32, string> names = 18; uint32 u = 19; float f = 20; bool ok = 21;
  repeated google.protobuf.Timestamp times = 22;
}
"""
)
FULL = {
    "id": 1,
    "name": "n",
    "amount": None,
    "at": MOMENT,
    "tags": ["a", "b"],
    "items": [("k", {"sku": "s", "count": 3})],
    "state": "PAID",
    "big": Decimal(2**64 - 1),
    "raw": b"\xff",
    "maybe": 7,
    "a": None,
    "b": 5,
    "list": [{"sku": "q", "count": 1}, {"sku": "", "count": 0}],
    "took": timedelta(seconds=-1.5),
    "deep": {"y": "z"},
    "states": ["PAID", "UNKNOWN"],
    "names": [(1, "x")],
    "u": 2**32 - 1,
    "f": 0.5,
    "ok": True,
    "times": [MOMENT, MOMENT],
}
LEFT_OUT: dict[str, Any] = {
    **dict.fromkeys(("amount", "at", "maybe", "a", "b", "took", "deep")),
    **{key: [] for key in ("tags", "items", "list", "states", "names", "times")},
    **dict.fromkeys(("id", "u", "f"), 0),
    "name": "",
    "state": "UNKNOWN",
    "big": Decimal(0),
    "raw": b"",
    "ok": False,
}


@pytest.fixture(scope="module")
def files() -> bytes:
    return compiled_text(ORDER)


def test_every_type_goes_there_and_back(files: bytes) -> None:
    decoder = pickle.loads(pickle.dumps(ProtobufDecoder(files, "shop.Order")))
    rows = pyarrow.array([FULL, None, {name: LEFT_OUT[name] for name in FULL}], decoder.type)
    encoder = pickle.loads(pickle.dumps(ProtobufEncoder(files, "shop.Order", decoder.type)))
    values = encoder.encode(rows)
    found, errors = decoder.decode(values)
    assert found.to_pylist() == rows.to_pylist()
    assert errors.null_count == 3
    assert encoder.encode(rows.slice(2)).equals(values.slice(2))
    assert values[2].as_py() == b""


def test_a_value_that_is_none_is_named_and_does_no_harm_to_others(files: bytes) -> None:
    rows, errors = ProtobufDecoder(files, "shop.Item").decode(pyarrow.array([b"\x0a\x01x", b"\xff", None, b"\x10\x02"]))
    assert rows.to_pylist() == [{"sku": "x", "count": 0}, None, None, {"sku": "", "count": 2}]
    assert [one is None for one in errors.to_pylist()] == [True, False, True, True]
    assert "not a Protobuf message of its type" in errors[1].as_py()


def test_a_message_is_found_by_its_name_or_is_the_first(files: bytes) -> None:
    assert message_of(files, None) == "shop.Other"
    assert message_of(files, "Order") == "shop.Order"
    assert ProtobufSchema(files, message_of(files, "shop.Other.Deep")).indexes == (0, 0)
    assert ProtobufSchema(files, "shop.Order").indexes == (2,)
    with pytest.raises(ConverterError, match=r"no message Oder: it has shop\.Other, shop\.Item, shop\.Order"):
        message_of(files, "Oder")


def test_what_cannot_be_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConverterError, match="contains itself"):
        ProtobufSchema(compiled_text(HEAD + "message Tree { repeated Tree trees = 1; }"), "shop.Tree")
    with pytest.raises(ConverterError, match="has no fields"):
        ProtobufSchema(compiled_text(HEAD + "message Empty {}"), "shop.Empty")
    (tmp_path / "bad.proto").write_text("message {")
    with pytest.raises(ConverterError, match=r"bad\.proto cannot be compiled: .*Expected"):
        compiled(str(tmp_path / "bad.proto"))
    with pytest.raises(ConverterError, match="there is no file"):
        compiled(str(tmp_path / "none.proto"))


def test_descriptors_may_be_compiled_before(files: bytes, tmp_path: Path) -> None:
    (tmp_path / "order.desc").write_bytes(files)
    assert compiled(str(tmp_path / "order.desc"))[0] == files
    (tmp_path / "order.desc").write_bytes(b"\xff\xff")
    with pytest.raises(ConverterError, match=r"neither a \.proto file nor a compiled descriptor set"):
        compiled(str(tmp_path / "order.desc"))


def test_a_row_that_does_not_fit_is_named(files: bytes) -> None:
    columns = pyarrow.struct([("state", pyarrow.string())])
    encoder = ProtobufEncoder(files, "shop.Order", columns)
    with pytest.raises(ConverterError, match=r"a row cannot be written as Protobuf shop\.Order.*'state': 'LOST'"):
        encoder.encode(pyarrow.array([{"state": "LOST"}], columns))


def test_nanoseconds_are_refused_unless_they_may_be_cut() -> None:
    text = HEAD + 'import "google/protobuf/timestamp.proto"; message A { repeated google.protobuf.Timestamp at = 1; }'
    files = compiled_text(text)
    message = ProtobufSchema(files, "shop.A").message_class(at=[{"seconds": 1, "nanos": 1500}])
    values = pyarrow.array([message.SerializeToString(), b""], pyarrow.binary())
    rows, errors = ProtobufDecoder(files, "shop.A").decode(values)
    assert rows.to_pylist() == [None, {"at": []}]
    assert "at has 1500 nanoseconds, and Spark keeps microseconds" in errors.to_pylist()[0]
    rows, errors = ProtobufDecoder(files, "shop.A", None, is_lenient=True).decode(values)
    assert errors.null_count == 2
    assert rows.to_pylist()[0] == {"at": [datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)]}


def test_numbers_that_do_not_fit_are_refused_when_rows_are_written(files: bytes) -> None:
    columns = pyarrow.struct([("b", pyarrow.int64())])
    with pytest.raises(
        ConverterError, match="do not fit the Protobuf schema: Integer value 1099511627776 not in range"
    ):
        ProtobufEncoder(files, "shop.Order", columns).encode(pyarrow.array([{"b": 2**40}], columns))
    with pytest.raises(ConverterError, match="cast the column in the view"):
        ProtobufEncoder(files, "shop.Order", pyarrow.struct([("f", pyarrow.float64())]))
