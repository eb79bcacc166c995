"""`ottla.serializers` and confluent-kafka's serializers on one registry: each reads what the other wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.client import Consumer, Producer
from ottla.serializers import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryClient,
)
from ottla.testing import Broker
from tests.interop.test_registry import registry as started
from tests.unit.serializers.test_serializers import protobuf

pytestmark = pytest.mark.interop
AVRO = '{"type":"record","name":"Line","fields":[{"name":"item","type":"string"},{"name":"count","type":"long"}]}'
JSON = '{"title":"Line","type":"object","properties":{"item":{"type":"string"},"count":{"type":"integer"}}}'
LINE = {"item": "pear", "count": 2}


@dataclass
class Line:
    item: str
    count: int


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


@pytest.fixture(scope="module")
def url(broker: Broker) -> Iterator[str]:
    with started(broker, "_schemas") as (found, _):
        yield found


@pytest.fixture
def confluent(url: str) -> Iterator[SchemaRegistryClient]:
    made = SchemaRegistryClient({"url": url})
    yield made
    made.close()


def context(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_avro_both_ways(url: str, confluent: SchemaRegistryClient) -> None:
    ours = RegistryClient(url)
    data = AvroSerializer(ours, AVRO).serialize_blocking("avro", Line("pear", 2))
    assert confluent_avro.AvroDeserializer(confluent)(data, context("avro")) == LINE
    theirs = confluent_avro.AvroSerializer(confluent, AVRO)(LINE, context("avro"))
    assert theirs == data
    assert AvroDeserializer(ours, to=Line).deserialize_blocking("avro", theirs) == Line("pear", 2)


def test_json_both_ways(url: str, confluent: SchemaRegistryClient) -> None:
    ours = RegistryClient(url)
    data = JsonSerializer(ours, JSON).serialize_blocking("json", Line("pear", 2))
    assert confluent_json.JSONDeserializer(None, schema_registry_client=confluent)(data, context("json")) == LINE
    theirs = confluent_json.JSONSerializer(JSON, confluent)(LINE, context("json"))
    assert theirs is not None and data is not None and theirs[:5] == data[:5]
    assert JsonDeserializer(ours, to=Line).deserialize_blocking("json", theirs) == Line("pear", 2)


def test_protobuf_both_ways(url: str, confluent: SchemaRegistryClient) -> None:
    ours = RegistryClient(url)
    kind = protobuf()
    message = kind(item="pear", price={"cents": 3})
    settings = {"use.deprecated.format": False}
    data = ProtobufSerializer(ours, kind).serialize_blocking("proto", message)
    assert confluent_protobuf.ProtobufDeserializer(kind, settings, confluent)(data, context("proto")) == message
    theirs = confluent_protobuf.ProtobufSerializer(kind, confluent, settings)(message, context("proto"))
    assert theirs == data
    assert ProtobufDeserializer(ours, to=kind).deserialize_blocking("proto", theirs) == message
    assert ProtobufDeserializer(ours).deserialize_blocking("proto", theirs)["item"] == "pear"


def test_ids_in_headers_both_ways(url: str, confluent: SchemaRegistryClient) -> None:
    ours = RegistryClient(url)
    headers: list[tuple[str, bytes | None]] = []
    data = AvroSerializer(ours, AVRO, id_in_headers=True).serialize_blocking("headers", LINE, headers)
    read = confluent_avro.AvroDeserializer(confluent, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    assert read(data, context("headers", headers)) == LINE
    found: list[tuple[str, bytes | None]] = []
    write = confluent_avro.AvroSerializer(confluent, AVRO, conf={"schema.id.serializer": header_schema_id_serializer})
    assert write(LINE, context("headers", found)) == data
    assert found == headers
    assert AvroDeserializer(ours).deserialize_blocking("headers", data, found) == LINE


def test_a_producer_and_a_consumer(broker: Broker, url: str) -> None:
    async def run() -> None:
        registry = RegistryClient(url)
        lines = [Line("pear", number) for number in range(100)]
        write = await AvroSerializer(registry, Line).for_topic("lines")
        async with Producer(bootstrap_servers=broker.bootstrap_servers, value_serializer=write) as producer:
            for line in lines:
                producer.send("lines", line)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        deserializer = AvroDeserializer(registry, to=Line)
        found: list[Line] = []
        async with Consumer({**settings, "enable.auto.commit": "false"}) as consumer:
            consumer.assign([("lines", 0)])
            while len(found) < len(lines):
                found += [one.value for one in await deserializer.records(await consumer.poll(500))]
        assert found == lines

    asyncio.run(run())
