"""Whether payloads decode with the schema that they name: Avro, Protobuf, and JSON by the types of its schema.

Schemas that would let a few bytes claim endless rows, or a payload nest without end, are refused (`avro_schema`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ottla.converters.errors import ConverterError, UnusableSchema
from ottla.converters.framing import FIRST_MESSAGE, Frame
from ottla.converters.registry import AVRO, JSON, PROTOBUF, SERIALIZED, RegisteredSchema, Registry

MAX_KEPT_COUNT = 1_000
Reasons = list[str | None]
Check = Callable[[Sequence[bytes]], Reasons]
"""For each payload the reason why it does not decode; None: it does."""


class DecodingCheck:
    """Checks of a registry's schemas, kept by id."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._checks: dict[tuple[int, tuple[int, ...]], Check] = {}

    def has_indexes(self, schema_id: int) -> bool:
        """Whether the number of a message stands before the payload."""
        return self._registry.by_id(schema_id).kind == PROTOBUF

    def reasons(self, schema_id: int, payloads: Sequence[bytes], indexes: tuple[int, ...] = FIRST_MESSAGE) -> Reasons:
        """ConverterError: the schema cannot be fetched or not be used."""
        place = (schema_id, indexes)
        check = self._checks.get(place)
        if check is None:
            check = self._new_check(schema_id, indexes)
            if len(self._checks) >= MAX_KEPT_COUNT:
                self._checks.clear()
            self._checks[place] = check
        return check(payloads)

    def _new_check(self, schema_id: int, indexes: tuple[int, ...]) -> Check:
        schema = self._registry.by_id(schema_id)
        try:
            if schema.kind == AVRO:
                return self._avro(schema)
            if schema.kind == PROTOBUF:
                return self._protobuf(schema_id, indexes)
            if schema.kind == JSON:
                return self._json(schema)
        except ModuleNotFoundError as missing:
            raise ConverterError(f"{missing}: pip install 'ottla[avro,protobuf]'") from None
        raise UnusableSchema(f"the schema with the id {schema_id} is {schema.kind[:100]}, which is not known here")

    def _avro(self, schema: RegisteredSchema) -> Check:
        from ottla.converters.avro import AvroDecoder

        references = tuple(needed.text for _, needed in self._registry.references_of(schema))
        decode = AvroDecoder(schema.text, references).decode_frame
        return lambda payloads: _errors(decode(_frame(payloads))[1])

    def _protobuf(self, schema_id: int, indexes: tuple[int, ...]) -> Check:
        from ottla.converters.protobuf import ProtobufDecoder
        from ottla.converters.protobuf_schema import registered, written_message

        files = registered(self._registry, self._registry.by_id(schema_id, SERIALIZED))
        decode = ProtobufDecoder(files, written_message(self._registry, schema_id, indexes)).decode_frame
        return lambda payloads: _errors(decode(_frame(payloads))[1])

    def _json(self, schema: RegisteredSchema) -> Check:
        import pyarrow

        from ottla.converters.json_schema import json_columns
        from ottla.converters.json_values import JsonDecoder

        references = [(one.name, needed.text) for one, needed in self._registry.references_of(schema)]
        try:
            decoder = JsonDecoder(json_columns(schema.text, references), is_open=True)
        except ConverterError:  # no object, or one without named properties: any JSON
            return lambda payloads: [_why_no_json(one) for one in payloads]
        return lambda payloads: _errors(decoder.decode(pyarrow.array(payloads, pyarrow.binary()))[1])


def _frame(payloads: Sequence[bytes]) -> Frame:
    return Frame(0, FIRST_MESSAGE, list(range(len(payloads))), list(payloads))


def _errors(found: object) -> Reasons:
    errors: Reasons = found.to_pylist()  # type: ignore[attr-defined]
    return errors


def _why_no_json(payload: bytes) -> str | None:
    try:
        json.loads(payload)
    except (ValueError, RecursionError) as error:
        return f"the value is not valid JSON: {error}"
    return None
