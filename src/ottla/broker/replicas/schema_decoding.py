"""Whether the keys or values of a batch decode with the schemas that they name (`ottla.value.schema.validation=full`).

It decodes every record, so it runs on a thread, only for topics with this setting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.replicas.schema_lookup import RegistryUnavailable, ids_of
from ottla.net import beside_loop
from ottla.records import CorruptRecords, Record, RecordError, read
from ottla.validation import FieldRules

if TYPE_CHECKING:
    from ottla.converters.registry import Registry

MAX_DECODED_BYTES = 64 * 1024 * 1024
"""The largest batch, after decompression; a larger one is refused."""
MAX_ERRORS = 1_000
_ID = Struct(">bI")
_ID_SIZE, _GUID_SIZE = 5, 17

Decode = Callable[[memoryview, FieldRules], Awaitable[list[RecordError]]]
"""Returns the records that do not decode. RegistryUnavailable: a schema cannot be fetched now."""


def decoding_by(registry: Registry) -> Decode:
    from ottla.converters.checking import DecodingCheck

    check = DecodingCheck(registry)
    ids: dict[bytes, int] = {}

    def id_of(name: bytes) -> int:
        """The id or GUID of a schema, by its first bytes."""
        if name[0] == 0:
            id_: int = _ID.unpack(name)[1]
            return id_
        if name not in ids:
            found = ids_of(registry, name[1:])
            if not found:
                raise RegistryUnavailable("a schema is gone that the registry had before")
            if len(ids) >= MAX_ERRORS:
                ids.clear()
            ids[name] = found[0]
        return ids[name]

    def errors(batch: memoryview, rules: FieldRules) -> list[RecordError]:
        return undecodable(batch, rules, check, id_of)

    async def decode(batch: memoryview, rules: FieldRules) -> list[RecordError]:
        return await beside_loop(lambda: errors(batch, rules))

    return decode


def undecodable(
    batch: memoryview, rules: FieldRules, check: object, id_of: Callable[[bytes], int]
) -> list[RecordError]:
    """It blocks."""
    from ottla.converters.checking import DecodingCheck
    from ottla.converters.errors import ConverterError, RegistryError, SchemaNotFound
    from ottla.converters.framing import FIRST_MESSAGE

    assert isinstance(check, DecodingCheck)
    try:
        records = read(batch, max_decompressed=MAX_DECODED_BYTES)
    except CorruptRecords as corrupt:
        return [RecordError(0, str(corrupt))]
    found: dict[tuple[int, tuple[int, ...] | None], list[tuple[int, bytes]]] = {}
    try:
        for index, record in enumerate(records):
            part = split(record, rules)
            if part is not None:
                name, rest, payload = part
                id_ = id_of(name)
                indexes: tuple[int, ...] | None = FIRST_MESSAGE
                if check.has_indexes(id_):
                    indexes, rest, payload = message_of(rest, payload)
                found.setdefault((id_, indexes), []).append((index, payload))
        errors = []
        for (id_, indexes), rows in found.items():
            try:
                if indexes is None:
                    reasons: list[str | None] = ["its Protobuf message indexes are no numbers"] * len(rows)
                else:
                    reasons = check.reasons(id_, [payload for _, payload in rows], indexes)
            except RegistryError:
                raise
            except ConverterError as error:
                reasons = [f"the schema {id_} cannot be used to check it: {error}"] * len(rows)
            errors += [
                RecordError(index, f"the {rules.field} does not decode with schema id {id_}: {reason}")
                for (index, _), reason in zip(rows, reasons, strict=True)
                if reason is not None
            ]
    except SchemaNotFound as error:
        raise RegistryUnavailable(f"a schema is gone that the registry had before: {error}") from None
    except RegistryError as error:
        raise RegistryUnavailable(str(error)) from None
    return sorted(errors)[:MAX_ERRORS]


def split(record: Record, rules: FieldRules) -> tuple[bytes, bytes | None, bytes] | None:
    """Splits a key or value into the bytes that name its schema, what follows them in a header (None: not in a header),
    and the payload. None for a null.
    """
    data = record.key if rules.is_key else record.value
    if data is None:
        return None
    for name, content in record.headers:
        if name.encode("utf-8", "surrogateescape") == rules.header and content is not None:
            size = _size(content)
            return content[:size], content[size:], data
    size = _size(data)
    return data[:size], None, data[size:]


def _size(data: bytes) -> int:
    return _ID_SIZE if data[0] == 0 else _GUID_SIZE


def message_of(rest: bytes | None, payload: bytes) -> tuple[tuple[int, ...] | None, bytes | None, bytes]:
    """The message indexes of Protobuf, which follow the schema's name, and the rest."""
    from ottla.converters.framing import FIRST_MESSAGE, message_indexes

    place = payload if rest is None else rest
    indexes: tuple[int, ...] = FIRST_MESSAGE
    end = 1
    if place[:1] != b"\0":
        # as behind five bytes of a wire format
        read_indexes, end = message_indexes(bytes(_ID_SIZE) + place)
        if read_indexes is None:
            return None, rest, payload
        indexes, end = read_indexes, end - _ID_SIZE
    return (indexes, None, payload[end:]) if rest is None else (indexes, rest[end:], payload)
