"""Where a record names its schema: in the first bytes (Confluent's wire format), or in a header as a GUID."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.converters.framing import FIRST_MESSAGE, HEADER, header, indexes_at
from ottla.serializers.errors import SerializationError

HEADERS = {False: "__value_schema_id", True: "__key_schema_id"}
"""The header that names the schema of the value, and of the key."""
_BY_ID, _BY_GUID = 0, 1
_GUID_SIZE = 16
Headers = Sequence[tuple[str, bytes | None]]


class Named(NamedTuple):
    """The schema that a record names, the message in that schema, and the payload."""

    schema: int | UUID
    indexes: tuple[int, ...]
    payload: bytes


def prefix(schema_id: int, indexes: tuple[int, ...] | None) -> bytes:
    return header(schema_id, indexes)


def header_value(guid: str, indexes: tuple[int, ...] | None) -> bytes:
    more = b"" if indexes is None else header(0, indexes)[HEADER.size :]
    return bytes([_BY_GUID]) + UUID(guid).bytes + more


def parse(data: bytes, headers: Headers, *, is_key: bool, has_indexes: bool) -> Named:
    """The schema that a record names: in its header, else in its first bytes. SerializationError if it names none."""
    wanted = HEADERS[is_key]
    found = next((value for name, value in reversed(headers) if name == wanted and value), None)
    if found is not None:
        schema, indexes, end = _name(found, has_indexes)
        return Named(schema, indexes, data)
    schema, indexes, end = _name(data, has_indexes)
    return Named(schema, indexes, data[end:])


def _name(data: bytes, has_indexes: bool) -> tuple[int | UUID, tuple[int, ...], int]:
    schema: int | UUID
    if data[:1] == b"\0" and len(data) >= HEADER.size:
        schema, end = HEADER.unpack_from(data)[1], HEADER.size
    elif data[:1] == b"\1" and len(data) > _GUID_SIZE:
        schema, end = UUID(bytes=data[1 : 1 + _GUID_SIZE]), 1 + _GUID_SIZE
    else:
        begins = data[:5].hex(" ") or "nothing"
        raise SerializationError(
            f"the record names no schema: it begins with {begins}, where a zero and an id are expected, and has no "
            f"header {HEADERS[False]} or {HEADERS[True]}"
        )
    if not has_indexes:
        return schema, FIRST_MESSAGE, end
    indexes, end = indexes_at(data, end)
    if indexes is None:
        raise SerializationError("the record's Protobuf message indexes are no numbers")
    return schema, indexes, end
