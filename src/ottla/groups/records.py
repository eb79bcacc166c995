"""Records of `__consumer_offsets`: a key and a value, each a number of two bytes and a message.

A key's number is the kind of record; a value's number is the version of its schema. A record without a value takes
what its key names away, and compaction forgets it in time.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ottla.wire import Message, WireError, decoder, encoder
from ottla.wire.messages.records import GROUP_KEYS, GROUP_VALUES, record_class

KEY_VERSION = 0
_VALUE_VERSIONS = {1: 4, 2: 3}
"""The version that values are written with, by the kind of record, where Kafka 4.3 writes another than 0."""


class GroupRecord(NamedTuple):
    """One record: `key` is a ...Key message, `value` the ...Value of the same kind, or None for a tombstone."""

    key: Message
    value: Message | None


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The record's key and value as bytes."""
    kind: int = type(record.key).__schema__.api_key  # type: ignore[assignment]
    pieces: list[Any] = [kind.to_bytes(2, "big")]
    encoder(type(record.key), KEY_VERSION)(record.key, pieces)
    key = b"".join(pieces)
    if record.value is None:
        return key, None
    version = _VALUE_VERSIONS.get(kind, 0)
    pieces = [version.to_bytes(2, "big")]
    encoder(type(record.value), version)(record.value, pieces)
    return key, b"".join(pieces)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """The record of these bytes; None for a kind that only a later Kafka knows, which a coordinator passes over.

    WireError for bytes that are no record."""
    if len(key) < 2:
        raise WireError(f"the key of a group record has {len(key)} bytes; it begins with a number of 2 bytes")
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind not in GROUP_KEYS:
        return None
    decode_key = _key_decoder(kind)
    if value is None:
        return GroupRecord(decode_key(key, 2)[0], None)
    if len(value) < 2:
        raise WireError(f"the value of a group record has {len(value)} bytes; it begins with a number of 2 bytes")
    version = int.from_bytes(value[:2], "big", signed=True)
    return GroupRecord(decode_key(key, 2)[0], _value_decoder(kind, version)(value, 2)[0])


@cache
def _key_decoder(kind: int) -> Any:
    return decoder(record_class(GROUP_KEYS, kind), KEY_VERSION)


@cache
def _value_decoder(kind: int, version: int) -> Any:
    return decoder(record_class(GROUP_VALUES, kind), version)
