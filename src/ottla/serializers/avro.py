"""Avro values, by fastavro. A field that the schema does not have is an error: no field is dropped silently."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from io import BytesIO
from typing import Any
from uuid import UUID

from ottla.converters.errors import ConverterError
from ottla.converters.registry import AVRO, Reference, RegisteredSchema, Registry
from ottla.serializers.derived_schemas import avro_schema, is_derivable
from ottla.serializers.deserializer import Decode, Deserializer
from ottla.serializers.errors import SerializationError
from ottla.serializers.registry_client import RegistryClient
from ottla.serializers.serializer import Encode, Serializer
from ottla.serializers.values import made, plain

try:
    import fastavro
except ModuleNotFoundError as error:
    raise ConverterError("Avro needs fastavro: pip install 'ottla[serializers]'") from error


class AvroSerializer(Serializer):
    """`schema` is a schema's text or document, a dataclass or a pydantic model; without one `use_latest_version` is
    needed. `references` are other schemas of the registry that it names."""

    _kind = AVRO

    def __init__(
        self, registry: RegistryClient, schema: Any = None, *, references: Sequence[Reference] = (), **settings: Any
    ) -> None:
        super().__init__(registry, **settings)
        self._given: RegisteredSchema | None = None
        self._name = ""
        if schema is not None:
            text, document = _text(schema)
            self._given = RegisteredSchema(AVRO, text, tuple(references))
            self._name = _name(document)

    def _own(self, shape: Hashable) -> RegisteredSchema | None:
        return self._given

    def _record_name(self, shape: Hashable) -> str:
        return self._name

    def _encoder(self, schema: RegisteredSchema, shape: Hashable) -> Encode:
        parsed = _parsed(self.registry.blocking, schema)

        def encode(value: Any) -> bytes:
            written = BytesIO()
            try:
                fastavro.schemaless_writer(written, parsed, plain(value), strict_allow_default=True)
            except Exception as error:  # whatever fastavro raises for a value that does not fit
                raise SerializationError(
                    f"the value does not fit its Avro schema: {type(error).__name__}: {error}"
                ) from None
            return written.getvalue()

        return encode


class AvroDeserializer(Deserializer):
    """`schema` is the reader's: values are resolved to it, by Avro's rules; without one they are as they were written.
    `to` is a dataclass or a pydantic model."""

    _kind = AVRO

    def __init__(self, registry: RegistryClient, schema: Any = None, *, to: Any = None, is_key: bool = False) -> None:
        super().__init__(registry, is_key=is_key)
        self._to = to
        self._reader = None if schema is None else fastavro.parse_schema(_text(schema)[1])

    def _decoder(self, schema: RegisteredSchema, name: int | UUID, indexes: tuple[int, ...]) -> Decode:
        writer, reader, to = _parsed(self.registry.blocking, schema), self._reader, self._to

        def decode(payload: bytes) -> Any:
            stream = BytesIO(payload)
            value = fastavro.schemaless_reader(stream, writer, reader)
            if stream.tell() != len(payload):
                raise SerializationError(f"{len(payload) - stream.tell()} bytes are left over after the Avro value")
            return value if to is None else made(to, value)

        return decode


def _text(schema: Any) -> tuple[str, Any]:
    """A schema's text and document."""
    if is_derivable(schema):
        schema = avro_schema(schema)
    if isinstance(schema, str):
        try:
            return schema, json.loads(schema)
        except ValueError:
            return json.dumps(schema), schema  # the bare name of a type
    return json.dumps(schema, separators=(",", ":")), schema


def _name(document: Any) -> str:
    """The full name of a record; of a plain type its own name."""
    if isinstance(document, str):
        return document
    if not isinstance(document, dict):
        return ""
    name, space = str(document.get("name", document.get("type", ""))), document.get("namespace")
    return f"{space}.{name}" if space and "." not in name else name


def _parsed(registry: Registry, schema: RegisteredSchema) -> Any:
    """A schema in fastavro's form, with its references."""
    named: dict[str, Any] = {}
    try:
        for _, one in registry.references_of(schema):
            fastavro.parse_schema(json.loads(one.text), named_schemas=named)
        return fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    except (ValueError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise SerializationError(f"the Avro schema cannot be used: {type(error).__name__}: {error}") from None
