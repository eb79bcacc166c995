"""Protobuf messages. The schema of a message is its file, and the files that it imports are registered under their
names."""

from __future__ import annotations

import base64
from collections.abc import Hashable
from typing import Any
from uuid import UUID

from ottla.converters.errors import ConverterError
from ottla.converters.registry import PROTOBUF, SERIALIZED, Reference, RegisteredSchema
from ottla.serializers.deserializer import Decode, Deserializer
from ottla.serializers.errors import SerializationError
from ottla.serializers.registry_client import RegistryClient
from ottla.serializers.serializer import Encode, Serializer

try:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError, EncodeError, Message
except ModuleNotFoundError as error:
    raise ConverterError("Protobuf needs google's library: pip install 'ottla[serializers]'") from error

_WELL_KNOWN = ("google/protobuf/", "google/type/", "confluent/")


class ProtobufSerializer(Serializer):
    """`message` is the class that protoc generates; values are messages of it, or dicts."""

    _kind = PROTOBUF

    def __init__(self, registry: RegistryClient, message: type[Message], **settings: Any) -> None:
        super().__init__(registry, **settings)
        self._message: Any = message

    def _own(self, shape: Hashable) -> RegisteredSchema | None:
        return self._registrable(self._message.DESCRIPTOR.file)

    def _registrable(self, file: Any) -> RegisteredSchema:
        """The schema of a file; its imports are registered, or looked up, first."""
        references = []
        for one in file.dependencies:
            if one.name.startswith(_WELL_KNOWN):
                continue
            needed = self._registrable(one)
            ask = self.registry.register_blocking if self._is_registering else self.registry.lookup_blocking
            ask(one.name, needed, is_normalized=self.normalize_schemas)
            references.append(Reference(one.name, one.name, self.registry.version_blocking(one.name, needed)))
        text = base64.b64encode(file.serialized_pb).decode()
        return RegisteredSchema(PROTOBUF, text, tuple(references))

    def _record_name(self, shape: Hashable) -> str:
        return str(self._message.DESCRIPTOR.full_name)

    def _indexes(self, shape: Hashable) -> tuple[int, ...]:
        return indexes_of(self._message.DESCRIPTOR)

    def _encoder(self, schema: RegisteredSchema, shape: Hashable) -> Encode:
        kind = self._message

        def encode(value: Any) -> bytes:
            try:
                if isinstance(value, dict):
                    value = json_format.ParseDict(value, kind())
                if not isinstance(value, kind):
                    raise SerializationError(
                        f"the value is no {kind.DESCRIPTOR.full_name}, but a {type(value).__name__}"
                    )
                return bytes(value.SerializeToString())
            except (json_format.ParseError, EncodeError) as error:
                raise SerializationError(f"the value is no {kind.DESCRIPTOR.full_name}: {error}") from None

        return encode


class ProtobufDeserializer(Deserializer):
    """`to` is the class of messages; without one they are built by the registered schema, and given as dicts."""

    _kind = PROTOBUF
    _has_indexes = True

    def __init__(self, registry: RegistryClient, *, to: type[Message] | None = None, is_key: bool = False) -> None:
        super().__init__(registry, is_key=is_key)
        self._to: Any = to

    def _decoder(self, schema: RegisteredSchema, name: int | UUID, indexes: tuple[int, ...]) -> Decode:
        kind, is_plain = self._to, self._to is None
        if kind is None:
            kind = self._built(schema, name, indexes)

        def decode(payload: bytes) -> Any:
            message = kind()
            try:
                message.ParseFromString(payload)
            except DecodeError as error:
                raise SerializationError(f"the bytes are no {kind.DESCRIPTOR.full_name}: {error}") from None
            return json_format.MessageToDict(message, preserving_proto_field_name=True) if is_plain else message

        return decode

    def _built(self, schema: RegisteredSchema, name: int | UUID, indexes: tuple[int, ...]) -> Any:
        """A class of messages made of a registered schema."""
        from ottla.converters.protobuf_schema import ProtobufSchema, message_at, registered, serialized_file

        registry = self.registry.blocking
        if isinstance(name, UUID):
            answer = registry.ask("GET", f"/schemas/guids/{name}?format={SERIALIZED}")
            serialized = RegisteredSchema(PROTOBUF, str(answer["schema"]), schema.references)
        else:
            serialized = registry.by_id(name, SERIALIZED)
        files, file = registered(registry, serialized), serialized_file(serialized.text)
        full_name = None if file is None else message_at(file, indexes)
        if full_name is None:
            raise SerializationError(f"the schema {name} has no message at {indexes}: give its class with 'to'")
        return ProtobufSchema(files, full_name).message_class


def indexes_of(descriptor: Any) -> tuple[int, ...]:
    """The indexes of a message in its file."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
        path.append([one.full_name for one in siblings].index(descriptor.full_name))
        descriptor = outer
    return tuple(reversed(path))
