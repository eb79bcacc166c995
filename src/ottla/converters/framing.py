"""The Confluent wire format: a zero byte, the id of the schema in four bytes, for Protobuf which message of the file it
is, and then the message. Rows with the same beginning go on together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

HEADER = Struct(">bI")
MAX_INDEX_COUNT = 32
FIRST_MESSAGE = (0,)


@dataclass(slots=True)
class Frame:
    """Rows that were written with the same schema. `error`: they are not in the wire format at all."""

    schema_id: int
    indexes: tuple[int, ...]
    rows: list[int]
    payloads: list[bytes]
    error: str | None = None


def frames(values: list[bytes | None], *, has_indexes: bool = False) -> Iterator[Frame]:
    """The values by their schema; null values are left out."""
    size = HEADER.size + 1 if has_indexes else HEADER.size
    found: dict[bytes, list[int]] = {}
    for row, value in enumerate(values):
        if value is not None:
            found.setdefault(value[:size], []).append(row)
    for head, rows in found.items():
        mine = [values[row] or b"" for row in rows]
        if len(head) < size or head[0] != 0:
            begins = head[:5].hex(" ") or "nothing"
            error = f"the value is not in the Confluent wire format (a zero and a schema id): it begins with {begins}"
            yield Frame(-1, (), rows, mine, error)
            continue
        schema_id = HEADER.unpack_from(head)[1]
        if not has_indexes or head[5] == 0:
            yield Frame(schema_id, FIRST_MESSAGE, rows, [value[size:] for value in mine])
        else:
            yield from _indexed(schema_id, rows, mine)


def _indexed(schema_id: int, rows: list[int], values: list[bytes]) -> Iterator[Frame]:
    """Rows whose message is not the first of its file: the length of the indexes differs between rows."""
    found: dict[tuple[int, ...] | None, Frame] = {}
    for row, value in zip(rows, values, strict=True):
        indexes, end = message_indexes(value)
        if indexes not in found:
            error = "the value's Protobuf message indexes are no numbers" if indexes is None else None
            found[indexes] = Frame(schema_id, indexes or (), [], [], error)
        found[indexes].rows.append(row)
        found[indexes].payloads.append(value[end:])
    yield from found.values()


def message_indexes(value: bytes) -> tuple[tuple[int, ...] | None, int]:
    """Which message of its file a value is, and where the message begins; None: that cannot be read."""
    return indexes_at(value, HEADER.size)


def indexes_at(value: bytes, start: int) -> tuple[tuple[int, ...] | None, int]:
    """As `message_indexes`, for indexes that begin at `start`. A count of zero is the first message."""
    count, position = _number(value, start)
    if count == 0:
        return FIRST_MESSAGE, position
    if not 0 < count <= MAX_INDEX_COUNT:
        return None, len(value)
    indexes = []
    for _ in range(count):
        index, position = _number(value, position)
        if index < 0:
            return None, len(value)
        indexes.append(index)
    return tuple(indexes), position


def _number(value: bytes, position: int) -> tuple[int, int]:
    """A zigzag number and its end; -1 if there is none."""
    number = 0
    for shift in range(0, 35, 7):
        if position >= len(value):
            break
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    return -1, len(value)


def header(schema_id: int, indexes: tuple[int, ...] | None = None) -> bytes:
    """The bytes before a message."""
    head = HEADER.pack(0, schema_id)
    if indexes is None:
        return head
    if indexes == FIRST_MESSAGE:
        return head + b"\0"
    return head + b"".join(map(_zigzag, (len(indexes), *indexes)))


def _zigzag(number: int) -> bytes:
    rest = number << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
