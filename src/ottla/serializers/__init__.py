"""Serializers for `ottla.client` with a schema registry: Avro, JSON and Protobuf, as Confluent's write them.

    from ottla.serializers import AvroDeserializer, AvroSerializer, RegistryClient

    registry = RegistryClient("http://127.0.0.1:8081")
    serializer = AvroSerializer(registry, Order)                     # a dataclass, a pydantic model, or a schema's text
    await producer.send("orders", await serializer.serialize("orders", order))

    deserializer = AvroDeserializer(registry, to=Order)
    for record in await deserializer.records(await consumer.poll()):
        print(record.value)

The registry is asked beside the loop and once for each schema. `serialize_blocking` and `deserialize_blocking` are for
threads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.serializers.avro import AvroDeserializer, AvroSerializer
    from ottla.serializers.errors import SerializationError
    from ottla.serializers.json_schema import JsonDeserializer, JsonSerializer
    from ottla.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
    from ottla.serializers.registry_client import RegistryClient

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegistryClient",
    "SerializationError",
]
_MODULES = {
    "AvroDeserializer": "avro",
    "AvroSerializer": "avro",
    "JsonDeserializer": "json_schema",
    "JsonSerializer": "json_schema",
    "ProtobufDeserializer": "protobuf",
    "ProtobufSerializer": "protobuf",
    "RegistryClient": "registry_client",
    "SerializationError": "errors",
}


def __getattr__(name: str) -> Any:
    """A program that uses one format does not need the packages of the others."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
