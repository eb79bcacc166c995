"""JSON values with a registered schema; checked against it by jsonschema, unless `validate=False`."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any
from uuid import UUID

from ottla.converters.errors import ConverterError
from ottla.converters.registry import JSON, Reference, RegisteredSchema, Registry
from ottla.serializers.derived_schemas import is_derivable, json_schema
from ottla.serializers.deserializer import Decode, Deserializer
from ottla.serializers.errors import SerializationError
from ottla.serializers.registry_client import RegistryClient
from ottla.serializers.serializer import Encode, Serializer
from ottla.serializers.values import is_model, json_value, made, plain


class JsonSerializer(Serializer):
    """`schema` is a schema's text or document, a dataclass or a pydantic model."""

    _kind = JSON

    def __init__(
        self,
        registry: RegistryClient,
        schema: Any = None,
        *,
        references: Sequence[Reference] = (),
        validate: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(registry, **settings)
        self._validates = validate
        self._given: RegisteredSchema | None = None
        self._name = ""
        if schema is not None:
            document = json_schema(schema) if is_derivable(schema) else schema
            text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
            document = json.loads(text)
            self._given = RegisteredSchema(JSON, text, tuple(references))
            self._name = str(document.get("title", "")) if isinstance(document, dict) else ""

    def _own(self, shape: Hashable) -> RegisteredSchema | None:
        return self._given

    def _record_name(self, shape: Hashable) -> str:
        return self._name

    def _encoder(self, schema: RegisteredSchema, shape: Hashable) -> Encode:
        check = _checker(self.registry.blocking, schema) if self._validates else None

        def encode(value: Any) -> bytes:
            if is_model(type(value)):
                value = value.model_dump(mode="json", by_alias=True)
            try:
                text = json.dumps(plain(value), default=json_value, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise SerializationError(f"the value cannot be written as JSON: {error}") from None
            if check is not None:
                check(json.loads(text))
            return text.encode()

        return encode


class JsonDeserializer(Deserializer):
    """`to` is a dataclass or a pydantic model."""

    _kind = JSON

    def __init__(
        self, registry: RegistryClient, *, to: Any = None, is_key: bool = False, validate: bool = True
    ) -> None:
        super().__init__(registry, is_key=is_key)
        self._to = to
        self._validates = validate

    def _decoder(self, schema: RegisteredSchema, name: int | UUID, indexes: tuple[int, ...]) -> Decode:
        check = _checker(self.registry.blocking, schema) if self._validates else None
        to = self._to

        def decode(payload: bytes) -> Any:
            value = json.loads(payload)
            if check is not None:
                check(value)
            return value if to is None else made(to, value)

        return decode


def _checker(registry: Registry, schema: RegisteredSchema) -> Callable[[Any], None]:
    try:
        from jsonschema import exceptions, validators
        from referencing import Registry as Documents
        from referencing import Resource
        from referencing.jsonschema import DRAFT7
    except ModuleNotFoundError:
        raise ConverterError(
            "checking values against a JSON schema needs jsonschema: pip install 'ottla[serializers]' (or say "
            "validate=False)"
        ) from None
    document = json.loads(schema.text)
    known: Any = Documents().with_resources(
        (reference.name, Resource.from_contents(json.loads(one.text), default_specification=DRAFT7))
        for reference, one in registry.references_of(schema)
    )
    kind = validators.validator_for(document, default=validators.Draft7Validator)
    validator = kind(document, registry=known)

    def check(value: Any) -> None:
        found = exceptions.best_match(validator.iter_errors(value))
        if found is not None:
            raise SerializationError(
                f"the value does not fit its JSON schema: {found.json_path}: {found.message[:300]}"
            )

    return check
