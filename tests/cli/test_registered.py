"""`consume --registry`: values and keys of registered schemas as JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import fastavro
import pyarrow
import pytest

from ottla.cli.registered import RegisteredDecoder, RegisteredEncoder
from ottla.client.core.fetching import ConsumerRecord, RawRecord
from ottla.converters.framing import header
from ottla.converters.protobuf import ProtobufEncoder
from ottla.converters.protobuf_schema import compiled_text
from tests.cli.conftest import Ottla
from tests.schema_registry import SchemaRegistry

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "share", "type": "double"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
PROTO = 'syntax = "proto3"; message A { string x = 1; } message B { int32 y = 1; bytes z = 2; }'


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    made = SchemaRegistry()
    yield made
    made.close()


def avro(schema: str, schema_id: int, row: object) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), row)
    return header(schema_id) + stream.getvalue()


def order(schema_id: int, number: int) -> bytes:
    from datetime import UTC, datetime
    from decimal import Decimal

    row = {"id": number, "price": Decimal("1.50"), "at": datetime(2026, 11, 17, tzinfo=UTC), "share": float("nan")}
    return avro(ORDER, schema_id, {**row, "note": None})


def protobuf(schema_id: int) -> bytes:
    """The second message of its file."""
    kind = pyarrow.struct([("y", pyarrow.int32()), ("z", pyarrow.binary())])
    values = ProtobufEncoder(compiled_text(PROTO, []), "B", kind).encode(pyarrow.array([{"y": 7, "z": b"\xff"}], kind))
    return header(schema_id) + b"\x02\x02" + bytes(values[0].as_py())


def test_each_record_is_decoded_with_the_schema_it_was_written_with(registry: SchemaRegistry) -> None:
    record_id = registry.add("t-value", ORDER)
    text_id = registry.add("t-key", '"string"')
    proto_id = registry.add("p-value", PROTO, "PROTOBUF")
    json_id = registry.add("j-value", '{"type": "object"}', "JSON")
    pairs: list[tuple[bytes | None, bytes | None, bytes | None, bytes | None]] = [
        (avro('"string"', text_id, "alice"), b'"alice"', order(record_id, 5), b'{"id": 5, "price": "1.50", '
         b'"at": "2026-11-17T00:00:00+00:00", "share": "nan", "note": null}'),
        (b"plain", b"plain", protobuf(proto_id), b'{"y": 7, "z": "/w=="}'),
        (None, None, header(json_id) + b'{"a": 1.10}', b'{"a": 1.10}'),
        (b"\x00" * 8, b"\x00" * 8, None, None),
        (b"", b"", b"no frame", b"no frame"),
        (b"", b"", header(99) + b"x", header(99) + b"x"),
        (b"", b"", header(record_id) + b"\x02", header(record_id) + b"\x02"),
    ]  # fmt: skip
    said: list[str] = []
    decoder = RegisteredDecoder(registry.settings, said.append)
    records: list[RawRecord] = [ConsumerRecord("t", 0, at, 0, one[0], one[2], ()) for at, one in enumerate(pairs)]
    found = decoder.decode(records)
    assert [(one.key, one.value) for one in found] == [(one[1], one[3]) for one in pairs]
    assert len(said) == 3
    assert "t-0 offset 4 is not decoded: the value is not in the Confluent wire format" in said[0]
    assert "t-0 offset 5 is not decoded" in said[1] and "no schema with the id 99" in said[1]
    assert "t-0 offset 6 is not decoded: the value does not fit its Avro schema: it ends too early" in said[2]
    requests = len(registry.requests)
    decoder.decode(records[:3])
    assert len(registry.requests) == requests


RICH = json.dumps(
    {
        "type": "record",
        "name": "Rich",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "raw", "type": "bytes"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "more", "type": {"type": "map", "values": "double"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
FULL = (
    b'{"id": 5, "price": "1.50", "at": "2026-11-17T00:00:00+00:00", "day": "2026-11-17", "raw": "/w==", '
    b'"tags": ["a", "b"], "more": {"x": 1.5}, "note": null}'
)


@pytest.mark.parametrize(
    ("kind", "schema", "text"),
    [
        ("AVRO", RICH, FULL),
        ("AVRO", '"long"', b"7"),
        ("PROTOBUF", PROTO, b'{"x": "hello"}'),
        ("JSON", '{"type": "object"}', b'{"any": 1.10}'),
    ],
)
def test_json_text_is_written_with_the_newest_schema_and_shown_as_it_was(
    registry: SchemaRegistry, kind: str, schema: str, text: bytes
) -> None:
    registry.add("t-value", schema, kind)
    value = RegisteredEncoder(registry.settings, "t").encode(text)
    assert value[:1] == b"\x00" and value != text
    record: RawRecord = ConsumerRecord("t", 0, 0, 0, None, value, ())
    said: list[str] = []
    (shown,) = RegisteredDecoder(registry.settings, said.append).decode([record])
    assert (shown.value, said) == (text, [])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b'{"id": "5"}', "has at 'id' no int64, but '5'"),
        (b'{"id": 5.0}', "has at 'id' no int64"),
        (b'{"id": true}', "has at 'id' no int64"),
        (b'{"ID": 5}', "has the field 'ID', which the schema has not"),
        (b'{"price": 1.5}', "has at 'price' no decimal"),
        (b'{"price": "1,5"}', "has at 'price' no decimal"),
        (b'{"at": "2026-11-17T00:00:00"}', "has at 'at' no timestamp"),
        (b'{"at": 5}', "has at 'at' no timestamp"),
        (b'{"at": "2026-11-17T00:00:00.000001Z"}', "has at 'at' no timestamp"),
        (b'{"at": "2026-11-17T00:00:00.0000001Z"}', "has at 'at' no timestamp"),
        (b'{"raw": "?"}', "has at 'raw' no binary"),
        (b'{"tags": ["a", 5]}', r"has at 'tags\[1\]' no string"),
        (b'{"more": {"x": "y"}}', "has at 'more.x' no double"),
        (b'{"id": 5}', "cannot be written as Avro"),
        (b'{"id": 99999999999999999999}', "does not fit the schema"),
        (b'{"price": "1.555"}', "does not fit the schema"),
        (b"null", "is null"),
        (b"[1]", "has no object"),
        (b"{", "is not valid JSON"),
    ],
)
def test_json_text_that_does_not_fit_the_schema_is_refused(registry: SchemaRegistry, given: bytes, reason: str) -> None:
    registry.add("t-value", RICH)
    with pytest.raises(ValueError, match=reason):
        RegisteredEncoder(registry.settings, "t").encode(given)


def test_produce_writes_registered_values(ottla: Ottla, topic: str, registry: SchemaRegistry) -> None:
    ottla("topics", "create", topic, "-p", "1")
    options = ["--registry", registry.url]
    nothing = ottla("produce", topic, "-m", "{}", *options)
    assert (nothing.code, f"no version latest of the subject {topic}-value" in nothing.err) == (1, True)
    registry.add(f"{topic}-value", '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    said = ottla("produce", topic, *options, stdin=b'{"a": 5}\n{"a": "x"}\n{"a": 6}\n')
    assert (said.code, "the value of line 2 has at 'a' no int32, but 'x'" in said.err) == (1, True)
    assert "1 record before it was written" in said.err
    assert ottla("produce", topic, *options, "--json", "-m", '{"key": "k", "value": {"a": 7}}').code == 0
    assert ottla("produce", topic, *options, "--null", "-k", "k").code == 0
    assert ottla("consume", topic, "-e", *options, "-f", r"%k %v\n").lines == [' {"a": 5}', 'k {"a": 7}', "k "]


def test_what_is_not_shown_is_not_decoded(ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"a\nb\nc\nd\ne\nf\ng\n")
    said = ottla("consume", topic, "-n", "1", "--registry", "http://127.0.0.1:1")
    assert said.out == "a\n"
    assert [line.partition(":")[0] for line in said.err.splitlines()] == [f"{topic}-0 offset 0 is not decoded"]


def test_consume_shows_registered_values(ottla: Ottla, topic: str, registry: SchemaRegistry, tmp_path: Path) -> None:
    number = registry.add(f"{topic}-value", '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, "--json", "-m", json.dumps({"value_base64": _base64(header(number) + b"\x0a")}))
    assert ottla("consume", topic, "-e", "--registry", registry.url).out == '{"a": 5}\n'
    assert ottla("consume", topic, "-e", "--registry", registry.url, "--grep", '"a": 5', "-f", "%v").out == '{"a": 5}'
    settings = tmp_path / "client.properties"
    settings.write_text(f"schema.registry.url={registry.url}\n")
    assert ottla("consume", topic, "-e", "--decode", "--command-config", str(settings)).out == '{"a": 5}\n'
    where = ottla("consume", topic, "-e", "--decode")
    assert (where.code, "where is the schema registry?" in where.err) == (1, True)
    registry.broken[:] = [500] * 9
    fresh = registry.url.replace("127.0.0.1", "localhost")
    away = ottla("consume", topic, "-e", "--registry", fresh)
    assert (away.code, "does not answer" in away.err, "Traceback" in away.err) == (1, True, False)


def _base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode()
