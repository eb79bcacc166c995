"""Records of `__consumer_offsets`: a key and a value, each a number of two bytes and a message.

A key's number is the kind of record; a value's number is the version of its schema. A record without a value deletes
the content of its key, and compaction removes it later.

Commits of offsets are almost all that is ever written to the topic, so they have an encoder and a decoder of their own;
both leave what is unusual to the general codec.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, error
from typing import Any, NamedTuple

from ottla.wire import Message, WireError, decoder, encoder
from ottla.wire.messages.records import GROUP_KEYS, GROUP_VALUES, record_class
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue
from ottla.wire.primitives import ZERO_UUID

KEY_VERSION = 0
GROUP_METADATA_KIND = 2
_VALUE_VERSIONS = {GROUP_METADATA_KIND: 3}
"""The version of written values, by kind of record, if Kafka 4.3 writes another than 0."""

OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1
"""The only version with an expire timestamp; it has neither a leader epoch nor a topic id."""
_OFFSET_COMMIT = b"\x00\x01"
_VERSION_4 = b"\x00\x04"
_SIZE = Struct(">h")
_PARTITION = Struct(">i")
_KEY_START = Struct(">hh")
_VALUE_START = Struct(">hqiB")
_VALUE_END = Struct(">qB")
_VALUE_END_WITH_TOPIC_ID = Struct(">qBBB16s")
_VALUE_START_SIZE = _VALUE_START.size
_MAX_SHORT_SIZE = 126
"""The longest text whose size fits into the one byte of the fast encoder and decoder."""


class GroupRecord(NamedTuple):
    """One record: `key` is a ...Key message, `value` the ...Value of the same kind, or None for a tombstone."""

    key: Message
    value: Message | None


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The record's key and value as bytes."""
    key, value = record
    if type(key) is OffsetCommitKey:
        if value is None:
            return _encode_offset_key(key), None
        assert type(value) is OffsetCommitValue
        return _encode_offset_key(key), _encode_offset_value(value)
    kind: int = type(key).__schema__.api_key  # type: ignore[assignment]
    encoded_key = _encode(key, kind, KEY_VERSION)
    if value is None:
        return encoded_key, None
    version = _VALUE_VERSIONS.get(kind, 0)
    return encoded_key, _encode(value, version, version)


def decode_record(key: bytes | memoryview, value: bytes | memoryview | None) -> GroupRecord | None:
    """The record of these bytes; None for an unknown kind (of a later Kafka), which the coordinator skips.

    WireError for bytes that are no record."""
    if len(key) < 2:
        raise WireError(f"the key of a group record has {len(key)} bytes; it begins with a number of 2 bytes")
    if key[:2] == _OFFSET_COMMIT:
        fast = _decode_offset(key, value)
        if fast is not None:
            return fast
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind not in GROUP_KEYS:
        return None
    decoded_key = _key_decoder(kind)(key, 2)[0]
    if value is None:
        return GroupRecord(decoded_key, None)
    if len(value) < 2:
        raise WireError(f"the value of a group record has {len(value)} bytes; it begins with a number of 2 bytes")
    version = int.from_bytes(value[:2], "big", signed=True)
    return GroupRecord(decoded_key, _value_decoder(kind, version)(value, 2)[0])


def _encode(message: Message, number: int, version: int) -> bytes:
    pieces: list[Any] = [number.to_bytes(2, "big")]
    encoder(type(message), version)(message, pieces)
    return b"".join(pieces)


def commit_key_prefix(group: bytes, topic: bytes) -> bytes:
    """The key of a committed offset without the partition, its last four bytes."""
    return b"".join((_KEY_START.pack(1, len(group)), group, _SIZE.pack(len(topic)), topic))


def _encode_offset_key(key: OffsetCommitKey) -> bytes:
    group, topic = key.group.encode(), key.topic.encode()
    try:
        return b"".join(
            (_KEY_START.pack(1, len(group)), group, _SIZE.pack(len(topic)), topic, _PARTITION.pack(key.partition))
        )
    except error:
        return _encode(key, 1, KEY_VERSION)  # raises an error that names the wrong field


def _encode_offset_value(value: OffsetCommitValue) -> bytes:
    if value.expire_timestamp != -1:
        return _encode(value, OFFSET_COMMIT_VERSION_WITH_EXPIRY, OFFSET_COMMIT_VERSION_WITH_EXPIRY)
    metadata = value.metadata.encode()
    size = len(metadata)
    if size > _MAX_SHORT_SIZE or value.unknown_tagged_fields:
        return _encode(value, OFFSET_COMMIT_VERSION, OFFSET_COMMIT_VERSION)
    start = _VALUE_START.pack(OFFSET_COMMIT_VERSION, value.offset, value.leader_epoch, size + 1)
    if value.topic_id == ZERO_UUID:
        end = _VALUE_END.pack(value.commit_timestamp, 0)
    else:
        end = _VALUE_END_WITH_TOPIC_ID.pack(value.commit_timestamp, 1, 0, 16, value.topic_id)
    return start + metadata + end if metadata else start + end


def _decode_offset(key: bytes | memoryview, value: bytes | memoryview | None) -> GroupRecord | None:
    """Decodes a commit as Kafka 4 writes it, or its tombstone; None for everything else, valid or not."""
    try:
        group_size = _SIZE.unpack_from(key, 2)[0]
        topic_at = 4 + group_size
        topic_size = _SIZE.unpack_from(key, topic_at)[0]
        partition_at = topic_at + 2 + topic_size
        if group_size < 0 or topic_size < 0 or len(key) != partition_at + 4:
            return None
        decoded_key = OffsetCommitKey(
            group=str(key[4:topic_at], "utf-8"),
            topic=str(key[topic_at + 2 : partition_at], "utf-8"),
            partition=_PARTITION.unpack_from(key, partition_at)[0],
        )
        if value is None:
            return GroupRecord(decoded_key, None)
        version, offset, leader_epoch, size = _VALUE_START.unpack_from(value)
        end = _VALUE_START_SIZE - 1 + size
        if version != OFFSET_COMMIT_VERSION or not 0 < size <= _MAX_SHORT_SIZE + 1:
            return None
        topic_id = ZERO_UUID
        if len(value) == end + 9:
            commit_timestamp, tag_count = _VALUE_END.unpack_from(value, end)
            if tag_count:
                return None
        elif len(value) == end + 27:
            commit_timestamp, tag_count, tag, tag_size, topic_id = _VALUE_END_WITH_TOPIC_ID.unpack_from(value, end)
            if tag_count != 1 or tag != 0 or tag_size != 16:
                return None
        else:
            return None
        metadata = str(value[_VALUE_START_SIZE:end], "utf-8") if size > 1 else ""
    except (error, UnicodeDecodeError):
        return None
    return GroupRecord(
        decoded_key,
        OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp,
            topic_id=topic_id,
        ),
    )


@cache
def _key_decoder(kind: int) -> Any:
    return decoder(record_class(GROUP_KEYS, kind), KEY_VERSION)


@cache
def _value_decoder(kind: int, version: int) -> Any:
    return decoder(record_class(GROUP_VALUES, kind), version)
