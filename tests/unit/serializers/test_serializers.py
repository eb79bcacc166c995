"""Values to bytes that name their schema, and back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pydantic import BaseModel

from ottla.client.core.fetching import ConsumerRecord
from ottla.converters.errors import RegistryError, SchemaNotFound
from ottla.serializers import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SerializationError,
)
from ottla.serializers.derived_schemas import avro_schema, json_schema
from ottla.serializers.wire_format import parse
from tests.unit.serializers.registries import MemoryRegistry

AT = datetime(2026, 11, 18, 12, tzinfo=UTC)


class State(Enum):
    NEW = 1
    DONE = 2


@dataclass
class Line:
    item: str
    count: int = 1


@dataclass
class Order:
    id: int
    at: datetime
    state: State
    lines: list[Line] = field(default_factory=list)
    note: str | None = None
    tags: dict[str, float] = field(default_factory=dict)


class Customer(BaseModel):
    name: str
    age: int | None = None


ORDER = Order(7, AT, State.DONE, [Line("pear", 2)], None, {"a": 0.5})


def protobuf(*, is_nested: bool = False) -> Any:
    pool = descriptor_pool.DescriptorPool()
    shared = descriptor_pb2.FileDescriptorProto(name="shared.proto", package="shop", syntax="proto3")
    shared.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("shared.proto")
    file.message_type.add(name="First")
    order = file.message_type.add(name="Order")
    order.field.add(name="item", number=1, type=9, label=1)
    order.field.add(name="price", number=2, type=11, type_name=".shop.Money", label=1)
    order.nested_type.add(name="Line").field.add(name="item", number=1, type=9, label=1)
    for one in (shared, file):
        pool.AddSerializedFile(one.SerializeToString())
    name = "shop.Order.Line" if is_nested else "shop.Order"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_dataclasses_go_through_avro() -> None:
    async def run() -> None:
        registry = MemoryRegistry()
        serializer = AvroSerializer(registry, Order)
        data = await serializer.serialize("orders", ORDER)
        assert data is not None and data[:5] == b"\0\0\0\0\1"
        assert await serializer.serialize("orders", None) is None
        assert await AvroDeserializer(registry, to=Order).deserialize("orders", data) == ORDER
        found = await AvroDeserializer(registry).deserialize("orders", data)
        assert found["state"] == "DONE" and found["lines"] == [{"item": "pear", "count": 2}]
        assert registry.memory.ask("GET", "/subjects") == ["orders-value"]

    asyncio.run(run())


def test_the_registry_is_asked_once_for_many_records() -> None:
    async def run() -> None:
        registry = MemoryRegistry()
        serializer = AvroSerializer(registry, Line)
        made = await asyncio.gather(*(serializer.serialize("t", Line("a", n)) for n in range(50)))
        assert registry.asked == ["POST /subjects/t-value/versions"]
        records = [ConsumerRecord("t", 0, n, 0, None, one, ()) for n, one in enumerate(made)]
        found = await AvroDeserializer(registry, to=Line).records(records)
        assert [one.value for one in found] == [Line("a", n) for n in range(50)]
        assert len(registry.asked) == 2
        write = await serializer.for_topic("t")
        assert write({"item": "a", "count": 3}) == made[3]
        assert len(registry.asked) == 2

    asyncio.run(run())


def test_models_and_dataclasses_go_through_json() -> None:
    registry = MemoryRegistry()
    serializer = JsonSerializer(registry, Customer)
    data = serializer.serialize_blocking("customers", Customer(name="Eve"))
    assert data is not None and data[5:] == b'{"name": "Eve", "age": null}'
    assert JsonDeserializer(registry, to=Customer).deserialize_blocking("customers", data) == Customer(name="Eve")
    data = JsonSerializer(registry, Order).serialize_blocking("orders", ORDER)
    assert JsonDeserializer(registry, to=Order).deserialize_blocking("orders", data) == ORDER
    with pytest.raises(SerializationError, match=r"\$\.age"):
        serializer.serialize_blocking("customers", {"name": "Eve", "age": "old"})


def test_messages_go_through_protobuf_with_their_imports() -> None:
    registry = MemoryRegistry()
    kind = protobuf()
    serializer = ProtobufSerializer(registry, kind)
    data = serializer.serialize_blocking("orders", kind(item="pear", price={"cents": 3}))
    assert data is not None and data[:7] == b"\0\0\0\0\2\2\2"
    assert registry.memory.ask("GET", "/subjects") == ["orders-value", "shared.proto"]
    assert ProtobufDeserializer(registry, to=kind).deserialize_blocking("orders", data).price.cents == 3
    found = ProtobufDeserializer(registry).deserialize_blocking("orders", data)
    assert found == {"item": "pear", "price": {"cents": "3"}}
    assert serializer.serialize_blocking("orders", {"item": "pear", "price": {"cents": 3}}) == data
    nested = ProtobufSerializer(registry, protobuf(is_nested=True)).serialize_blocking("lines", {"item": "x"})
    assert ProtobufDeserializer(registry).deserialize_blocking("lines", nested) == {"item": "x"}
    with pytest.raises(SerializationError, match=r"no shop\.Order"):
        serializer.serialize_blocking("orders", {"colour": 1})


def test_the_schema_may_be_named_in_a_header() -> None:
    registry = MemoryRegistry()
    headers: list[tuple[str, bytes | None]] = []
    data = AvroSerializer(registry, Line, id_in_headers=True).serialize_blocking("t", Line("a"), headers)
    assert headers[0][0] == "__value_schema_id" and headers[0][1] is not None and headers[0][1][0] == 1
    assert AvroDeserializer(registry, to=Line).deserialize_blocking("t", data, headers) == Line("a")
    kind = protobuf()
    headers = []
    serializer = ProtobufSerializer(registry, kind, id_in_headers=True, is_key=True)
    data = serializer.serialize_blocking("t", kind(item="a"), headers)
    assert headers[0][0] == "__key_schema_id"
    found = ProtobufDeserializer(registry, is_key=True).deserialize_blocking("t", data, headers)
    assert found == {"item": "a"}
    with pytest.raises(SerializationError, match="headers"):
        serializer.serialize_blocking("t", kind(item="a"))


def test_in_production_schemas_are_registered_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = MemoryRegistry("http://registry.example.org:8081")
    with pytest.raises(SchemaNotFound):
        AvroSerializer(remote, Line).serialize_blocking("t", Line("a"))
    monkeypatch.setenv("OTTLA_PRODUCTION", "1")
    registry = MemoryRegistry()
    with pytest.raises(SchemaNotFound):
        AvroSerializer(registry, Line).serialize_blocking("t", Line("a"))
    AvroSerializer(registry, Line, auto_register_schemas=True).serialize_blocking("t", Line("a"))
    assert AvroSerializer(registry, Line).serialize_blocking("t", Line("a")) is not None
    assert AvroSerializer(registry, use_latest_version=True).serialize_blocking("t", Line("a")) is not None


def test_the_latest_version_is_written_and_another_format_refused() -> None:
    registry = MemoryRegistry()
    registry.memory.register(
        "t-value", {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}]}
    )
    serializer = AvroSerializer(registry, use_latest_version=True)
    assert serializer.serialize_blocking("t", {"item": "a"}) == b"\0\0\0\0\1\2a"
    with pytest.raises(SerializationError, match="count"):
        serializer.serialize_blocking("t", Line("a"))
    with pytest.raises(SerializationError, match="AVRO, not JSON"):
        JsonSerializer(registry, use_latest_version=True).serialize_blocking("t", {})
    with pytest.raises(ValueError, match="which schema is meant"):
        AvroSerializer(registry, Line, use_latest_version=True, auto_register_schemas=True)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("topic", "t-value"), ("record", "Line"),
     ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-Line"),
     (lambda topic, is_key, name: f"{topic}/{is_key}/{name}", "t/False/Line")],
)  # fmt: skip
def test_subjects_are_named_by_a_strategy(strategy: Any, subject: str) -> None:
    registry = MemoryRegistry()
    serializer = AvroSerializer(registry, Line, subject_name_strategy=strategy)
    try:
        serializer.serialize_blocking("t", Line("a"))
    except RegistryError as error:
        pytest.fail(str(error))
    assert registry.memory.ask("GET", "/subjects") == [subject]


@pytest.mark.parametrize("data", [b"", b"\0", b"\2\0\0\0\1x", b"\0\0\0\0\1", b"\1" + b"x" * 15])
def test_bytes_without_a_schema_or_with_damage_are_refused(data: bytes) -> None:
    registry = MemoryRegistry()
    AvroSerializer(registry, Line).serialize_blocking("t", Line("a"))
    with pytest.raises(SerializationError):
        AvroDeserializer(registry).deserialize_blocking("t", data)


def test_schemas_are_derived_from_types() -> None:
    made = avro_schema(Order)
    assert [one["type"] for one in made["fields"]][:3] == [
        "long",
        {"type": "long", "logicalType": "timestamp-micros"},
        {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]},
    ]
    assert {"name": "note", "type": ["null", "string"], "default": None} in made["fields"]
    assert json_schema(Line) == {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "title": "Line",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        "additionalProperties": False, "required": ["item"],
    }  # fmt: skip

    @dataclass
    class Odd:
        what: object

    with pytest.raises(TypeError, match=r"Odd\.what"):
        avro_schema(Odd)


def test_the_last_header_counts() -> None:
    named = parse(b"x", [("__value_schema_id", b"\0\0\0\0\1"), ("__value_schema_id", b"\0\0\0\0\2")],
                  is_key=False, has_indexes=False)  # fmt: skip
    assert (named.schema, named.payload) == (2, b"x")
