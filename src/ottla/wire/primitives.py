"""Kafka's primitive encodings: variable-length integers and the text form of uuids.

An unsigned varint carries seven bits per byte, least significant group first; a signed one is zigzag-encoded before.
"""

from __future__ import annotations

from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64

ZERO_UUID = bytes(16)
"""Kafka's "no id": what a uuid field holds when nothing was set."""

_UINT32_MAX = 0xFFFFFFFF
_UINT64_MAX = 0xFFFFFFFFFFFFFFFF

Readable = bytes | bytearray | memoryview


class WireError(ValueError):
    """Bytes that are no Kafka message, or a message that has no bytes in the wanted version."""


class UnsupportedVersion(WireError):
    """A field is set that the version does not have and must not drop."""


def encode_unsigned_varint(value: int) -> bytes:
    if 0 <= value < 0x200000:  # up to three bytes, without a loop: these are the lengths of strings and batches
        if value < 0x80:
            return bytes((value,))
        if value < 0x4000:
            return bytes((value & 127 | 128, value >> 7))
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    if not 0 <= value <= _UINT64_MAX:
        raise WireError(f"{value} does not fit an unsigned varint")
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_unsigned_varint(buffer: Readable, position: int) -> tuple[int, int]:
    """The 32-bit value at position, and the position after it."""
    return _decode_groups(buffer, position, _UINT32_MAX)


def encode_varint(value: int) -> bytes:
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise WireError(f"{value} does not fit a varint")
    return encode_unsigned_varint(value << 1 ^ value >> 31)


def decode_varint(buffer: Readable, position: int) -> tuple[int, int]:
    value, position = _decode_groups(buffer, position, _UINT32_MAX)
    return value >> 1 ^ -(value & 1), position


def encode_varlong(value: int) -> bytes:
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise WireError(f"{value} does not fit a varlong")
    return encode_unsigned_varint(value << 1 ^ value >> 63)


def decode_varlong(buffer: Readable, position: int) -> tuple[int, int]:
    value, position = _decode_groups(buffer, position, _UINT64_MAX)
    return value >> 1 ^ -(value & 1), position


def _decode_groups(buffer: Readable, position: int, maximum: int) -> tuple[int, int]:
    value = shift = 0
    size = len(buffer)
    while position < size:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if value > maximum or shift > 63:
            raise WireError("varint is too long")
        if byte < 128:
            return value, position
        shift += 7
    raise WireError("varint is cut short")


def uuid_text(uuid: bytes) -> str:
    """The 22 characters Kafka's tools show: url-safe base64 without padding."""
    return b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def parse_uuid(text: str) -> bytes:
    try:
        uuid = a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=False)
    except (BinasciiError, ValueError) as error:
        raise WireError(f"{text!r} is no uuid") from error
    if len(uuid) != 16 or uuid_text(uuid) != text:
        raise WireError(f"{text!r} is no uuid")
    return uuid
