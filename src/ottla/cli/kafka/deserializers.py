"""Kafka's deserializers by their class names, as far as a console can show what they make."""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

from ottla.cli.kafka.java import java_double
from ottla.cli.kafka.options import ToolError

Deserializer = Callable[[bytes], str]
"""What a deserializer makes of bytes, as text."""
PACKAGE = "org.apache.kafka.common.serialization"


def deserializer(class_name: str) -> Deserializer | None:
    """The deserializer of that name; None for a class that Kafka does not have."""
    package, _, name = class_name.strip().rpartition(".")
    return _DESERIALIZERS.get(name) if package == PACKAGE else None


def _refused(message: str) -> ToolError:
    return ToolError(message, "org.apache.kafka.common.errors.SerializationException")


def _number(name: str, size: int) -> Deserializer:
    def text(data: bytes) -> str:
        if len(data) != size:
            raise _refused(f"Size of data received by {name} is not {size}")
        return str(int.from_bytes(data, "big", signed=True))

    return text


def _double(data: bytes) -> str:
    if len(data) != 8:
        raise _refused("Size of data received by Deserializer is not 8")
    return java_double(struct.unpack(">d", data)[0])


def _float(data: bytes) -> str:
    if len(data) != 4:
        raise _refused("Size of data received by Deserializer is not 4")
    (value,) = struct.unpack(">f", data)
    for precision in range(1, 10):
        shortest = float(f"{value:.{precision}g}")
        if struct.pack(">f", shortest) == data:
            return java_double(shortest)
    return java_double(value)


def _boolean(data: bytes) -> str:
    if data not in (b"\x00", b"\x01"):
        what = f"Unexpected byte received by BooleanDeserializer: {data[0]}" if len(data) == 1 else ""
        raise _refused(what or "Size of data received by BooleanDeserializer is not 1")
    return "true" if data == b"\x01" else "false"


def _uuid(data: bytes) -> str:
    try:
        return str(UUID(data.decode()))
    except ValueError:
        raise _refused("Error parsing data into UUID") from None


def _bytes(data: bytes) -> str:
    """Printable ASCII as it is, everything else as hex."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02X}" for byte in data)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


_DESERIALIZERS: dict[str, Deserializer] = {
    "BooleanDeserializer": _boolean,
    "ByteArrayDeserializer": _text,
    "ByteBufferDeserializer": lambda data: f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]",
    "BytesDeserializer": _bytes,
    "DoubleDeserializer": _double,
    "FloatDeserializer": _float,
    "IntegerDeserializer": _number("IntegerDeserializer", 4),
    "LongDeserializer": _number("LongDeserializer", 8),
    "ShortDeserializer": _number("ShortDeserializer", 2),
    "StringDeserializer": _text,
    "UUIDDeserializer": _uuid,
}
