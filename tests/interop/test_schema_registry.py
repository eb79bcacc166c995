"""The Confluent wire format and the registry's client, against a registry of our own; the values are what Confluent's
Python client (2.16) wrote with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from ottla.converters import registry as registries
from ottla.converters.avro import AvroDecoder, AvroEncoder, registered_decoder
from ottla.converters.errors import ConverterError, RegistryError, SchemaNotFound
from ottla.converters.framing import frames, header
from ottla.converters.json_schema import json_columns, json_schema_of
from ottla.converters.protobuf import ProtobufDecoder, ProtobufEncoder
from ottla.converters.protobuf_schema import compiled_text, message_of, registered
from ottla.converters.registry import AVRO, PROTOBUF, RegisteredSchema, Registry, RegistrySettings
from tests.schema_registry import SchemaRegistry, schema_registry

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
CONFLUENT_AVRO = bytes.fromhex("00000000010e0206746561028380b0ba9abc68")
ROW = {"id": 7, "item": "tea", "price": Decimal("-1.25"), "placed": datetime(2026, 11, 16, tzinfo=UTC)}
TOTAL = (
    'syntax = "proto3"; package shop; message Gone {int32 a = 1;} '
    "message Total {string item = 1; int64 n = 2; message Part {bool ok = 1;}}"
)
CONFLUENT_TOTAL = bytes.fromhex("000000000202020a037465611003")
CONFLUENT_GONE = bytes.fromhex("0000000002000801")
CONFLUENT_PART = bytes.fromhex("00000000020402000801")


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        made.add("orders-value", json.dumps(ORDER))
        yield made


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "ATTEMPT_PAUSE_S", 0.0)


def test_avro_of_confluents_client_is_read_and_written_alike(server: SchemaRegistry) -> None:
    decoder = AvroDecoder(json.dumps(ORDER), (), server.settings)
    rows, errors = decoder.decode(pyarrow.array([CONFLUENT_AVRO]))
    assert rows.to_pylist() == [ROW], errors
    assert AvroEncoder(json.dumps(ORDER), (), decoder.type, 1).encode(rows).to_pylist() == [CONFLUENT_AVRO]


def test_rows_are_of_the_readers_schema_whatever_they_were_written_with(server: SchemaRegistry) -> None:
    fields: list[Any] = ORDER["fields"]  # type: ignore[assignment]
    newer = {**ORDER, "fields": [fields[0], {"name": "note", "type": "string", "default": "-"}, *fields[2:]]}
    reader = registered_decoder(server.settings, Registry(server.settings).latest("orders-value"))
    number = server.add("orders-value", json.dumps(newer))
    written = AvroEncoder(json.dumps(newer), (), AvroDecoder(json.dumps(newer)).type, number)
    new = written.encode(pyarrow.array([{**{key: ROW[key] for key in ("id", "price", "placed")}, "note": "x"}]))
    values = pyarrow.array([CONFLUENT_AVRO, new[0].as_py(), b"\0\0\0\0\x63", b"", b"text", None, CONFLUENT_AVRO])
    rows, errors = reader.decode(values)
    assert rows.to_pylist() == [ROW, {**ROW, "item": None}, None, None, None, None, ROW]
    said = errors.to_pylist()
    assert [one is None for one in said] == [True, True, False, False, False, True, True]
    assert "no schema with the id 99: was the record written with another registry?" in said[2]
    assert "it begins with nothing" in said[3]
    assert "it begins with 74 65 78 74" in said[4]


def test_a_schema_is_asked_for_once_and_an_unknown_one_not_again_at_once(server: SchemaRegistry) -> None:
    client = Registry(server.settings)
    for _ in range(3):
        assert client.by_id(1).kind == AVRO
        with pytest.raises(SchemaNotFound):
            client.by_id(99)
        assert client.register("orders-value", RegisteredSchema(AVRO, json.dumps(ORDER))) == 1
    assert server.requests == ["GET /schemas/ids/1", "GET /schemas/ids/99", "POST /subjects/orders-value/versions"]


@pytest.mark.parametrize("knows_serialized", [True, False])
def test_protobuf_of_confluents_client_is_read_and_written_alike(knows_serialized: bool) -> None:
    with schema_registry(knows_serialized=knows_serialized) as server:
        server.add("other", "x")
        server.add("totals-value", TOTAL, PROTOBUF)
        client = Registry(server.settings)
        files = registered(client, client.latest("totals-value", "serialized"))
        decoder = ProtobufDecoder(files, message_of(files, "Total"), server.settings)
        values = pyarrow.array(
            [CONFLUENT_TOTAL, CONFLUENT_GONE, CONFLUENT_PART, b"\0\0\0\0\x02\x04", b"\0\0\0\0\x02\x02\x14"]
        )
        rows, errors = decoder.decode(values)
        assert rows.to_pylist() == [{"item": "tea", "n": 3}, None, None, None, None]
        said = errors.to_pylist()
        assert said[1] == "the value is a message shop.Gone, not shop.Total"
        assert said[2] == "the value is a message shop.Total.Part, not shop.Total"
        assert said[3] == "the value's Protobuf message indexes are no numbers"
        assert "no message at (10,)" in said[4]
        encoded = ProtobufEncoder(files, "shop.Total", decoder.type, 2).encode(rows.slice(0, 1))
        assert encoded.to_pylist() == [CONFLUENT_TOTAL]
        part = pyarrow.array([{"ok": True}])
        assert ProtobufEncoder(files, "shop.Total.Part", part.type, 2).encode(part).to_pylist() == [CONFLUENT_PART]


@pytest.mark.parametrize("knows_serialized", [True, False])
def test_schemas_may_refer_to_others(knows_serialized: bool) -> None:
    with schema_registry(knows_serialized=knows_serialized) as server:
        server.add("money", 'syntax = "proto3"; package shop; message Money {int64 cents = 1;}', PROTOBUF)
        text = 'syntax = "proto3"; package shop; import "shop/money.proto"; message Bill {Money sum = 1;}'
        server.add("bill", text, PROTOBUF, [{"name": "shop/money.proto", "subject": "money", "version": 1}])
        client = Registry(server.settings)
        files = registered(client, client.latest("bill", "serialized"))
        assert str(ProtobufDecoder(files, "shop.Bill").type) == "struct<sum: struct<cents: int64>>"
    with schema_registry() as server:
        server.add("state", json.dumps({"type": "enum", "name": "shop.State", "symbols": ["NEW"]}))
        one = {"type": "record", "name": "shop.A", "fields": [{"name": "state", "type": "State"}]}
        server.add("a-value", json.dumps(one), "AVRO", [{"name": "shop.State", "subject": "state", "version": 1}])
        decoder = registered_decoder(server.settings, Registry(server.settings).latest("a-value"))
        assert decoder.decode(pyarrow.array([b"\0\0\0\0\x02\0"]))[0].to_pylist() == [{"state": "NEW"}]


def test_the_wire_format_is_taken_apart_for_whole_arrays() -> None:
    indexed = [header(5, (0,)) + b"a", header(5, (1,)) + b"b", header(5, (2, 0)) + b"c", header(5, (1,)) + b"d"]
    found = [
        (frame.schema_id, frame.indexes, frame.rows, frame.payloads)
        for frame in frames([*indexed, None], has_indexes=True)
    ]
    assert sorted(found) == [(5, (0,), [0], [b"a"]), (5, (1,), [1, 3], [b"b", b"d"]), (5, (2, 0), [2], [b"c"])]
    assert header(1) == b"\0\0\0\0\x01"


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        ([500, 502, 503], "does not answer"),
        ([b"<html>"], "answers with no JSON: is it a schema registry?"),
        ([b'{"a": 1}'], "answers without a schema"),
        ([b'{"schema": "x", "references": [1]}'], "invalid references or an invalid id"),
        ([302], "status 302"),
        ([b" " * 2000], "more than 1000 bytes"),
    ],
)
def test_a_registry_that_fails_is_told_from_values_that_are_bad(
    server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, failures: list[bytes | int], message: str
) -> None:
    monkeypatch.setattr(registries, "MAX_RESPONSE_BYTES", 1000)
    server.broken += failures
    with pytest.raises(RegistryError) as raised:
        Registry(server.settings).latest("orders-value")
    assert message in str(raised.value)
    assert not isinstance(raised.value, SchemaNotFound)


def test_a_registry_that_stumbles_is_asked_again(server: SchemaRegistry) -> None:
    server.broken += [503, 500]
    assert Registry(server.settings).latest("orders-value").schema_id == 1


def test_nothing_is_decoded_while_the_registry_is_away(server: SchemaRegistry) -> None:
    gone = RegistrySettings(("http://127.0.0.1:1",))
    with pytest.raises(RegistryError, match="does not answer"):
        AvroDecoder(json.dumps(ORDER), (), gone).decode(pyarrow.array([CONFLUENT_AVRO]))


def test_credentials_are_sent_and_never_shown() -> None:
    with schema_registry(user="me", password="s3cret") as server:
        server.add("orders-value", json.dumps(ORDER))
        assert Registry(server.settings).subjects() == ["orders-value"]
        with pytest.raises(RegistryError, match="refuses the credentials") as raised:
            Registry(RegistrySettings((server.url,), "me", "wrong")).subjects()
        assert "wrong" not in str(raised.value)
        assert "s3cret" not in repr(server.settings)


def test_what_may_not_be_registered_says_why(server: SchemaRegistry) -> None:
    client = Registry(server.settings)
    with pytest.raises(RegistryError, match=r"a field was removed\. Give new fields a default"):
        client.register("orders-value", RegisteredSchema(AVRO, '"incompatible"'))
    with pytest.raises(SchemaNotFound, match="register it, or leave out 'register: false'"):
        client.lookup("orders-value", RegisteredSchema(AVRO, '"string"'))
    assert client.lookup("orders-value", RegisteredSchema(AVRO, json.dumps(ORDER))) == 1


def test_settings_have_short_names_and_confluents() -> None:
    one = RegistrySettings.parse({"url": "http://a:1/, https://b", "user": "me", "password": "x", "timeout_ms": "5"})
    assert one == RegistrySettings(("http://a:1", "https://b"), "me", "x", None, 5)
    two = RegistrySettings.parse({"schema.registry.url": "http://a:1", "basic.auth.user.info": "me:x:y"})
    assert two == RegistrySettings(("http://a:1",), "me", "x:y")
    assert RegistrySettings.parse({"url": "http://me:p%40@a:1"}) == RegistrySettings(("http://a:1",), "me", "p@")
    assert RegistrySettings.parse({"acks": "all"}) is None
    with pytest.raises(RegistryError, match="'a:1' is no address such as") as raised:
        RegistrySettings.parse({"url": "ftp://me:secret@a:1"})
    assert "secret" not in str(raised.value)
    for wrong in ("http://a:99999", "http://a:x", "http://[a", "http://:8081", "http://a:0"):
        with pytest.raises(RegistryError, match="is no address such as"):
            RegistrySettings.parse({"url": wrong})
    with pytest.raises(RegistryError, match="milliseconds"):
        RegistrySettings.parse({"url": "http://a", "timeout_ms": "soon"})


def test_json_schemas_give_columns() -> None:
    schema = {
        "type": "object",
        "$defs": {"Line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["null", "integer", "number"]},
            "at": {"type": "string", "format": "date-time"},
            "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "any": {},
            "other": {"$ref": "other.json#/definitions/x"},
        },
    }
    kind = json_columns(json.dumps(schema), [("other.json", '{"definitions": {"x": {"type": "boolean"}}}')])
    assert str(kind) == (
        "struct<id: int64, price: double, at: timestamp[us, tz=UTC], note: string, "
        "lines: list<element: struct<sku: string>>, counts: map<string, int64>, any: string, other: bool>"
    )
    assert json_columns(json.dumps(json_schema_of(kind))) == kind
    for bad in ('{"$ref": "#/gone"}', '{"type": "string"}', "{", '{"properties": {"a": {"$ref": "#"}}}'):
        with pytest.raises(ConverterError):
            json_columns(bad)


def test_compiling_keeps_to_its_folder() -> None:
    with pytest.raises(ConverterError, match="which is no plain name"):
        compiled_text("", [("../../x.proto", "")])
