"""Records of `__share_group_state`: a snapshot has the whole state of one share partition, an update the changes of a
later write. A snapshot without a value deletes the share partition.

A key begins with the kind of record, a value with the version of its schema, two bytes each.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Any, NamedTuple

from ottla.wire import WireError, decoder, encoder
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.share_snapshot_key import ShareSnapshotKey
from ottla.wire.messages.records.share_snapshot_value import ShareSnapshotValue
from ottla.wire.messages.records.share_update_key import ShareUpdateKey
from ottla.wire.messages.records.share_update_value import ShareUpdateValue

SNAPSHOT_KIND = 0
UPDATE_KIND = 1
VALUE_VERSION = 0
UUID_BYTES = 16


class SharePartitionKey(NamedTuple):
    """One partition of a topic as one share group reads it."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """The key that FindCoordinator takes and whose hash chooses the partition of `__share_group_state`."""
        topic_id = urlsafe_b64encode(self.topic_id).rstrip(b"=").decode("ascii")
        return f"{self.group_id}:{topic_id}:{self.partition}"

    @staticmethod
    def parse(text: str) -> SharePartitionKey:
        """INVALID_REQUEST if the text is not `groupId:topicId:partition`."""
        group_id, _, rest = text.rpartition(":")
        group_id, _, topic_id = group_id.rpartition(":")
        if not group_id.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text!r} is not groupId:topicId:partition")
        try:
            id_bytes = urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4))
            partition = int(rest)
        except (Base64Error, ValueError):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text!r} is not groupId:topicId:partition") from None
        if len(id_bytes) != UUID_BYTES or not -(1 << 31) <= partition < 1 << 31:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text!r} is not groupId:topicId:partition")
        return SharePartitionKey(group_id, id_bytes, partition)


class ShareStateRecord(NamedTuple):
    """One record; `value` None is a tombstone."""

    key: SharePartitionKey
    value: ShareSnapshotValue | ShareUpdateValue | None


def encode_state_record(record: ShareStateRecord) -> tuple[bytes, bytes | None]:
    """The record's key and value as bytes."""
    group_id, topic_id, partition = record.key
    value = record.value
    if isinstance(value, ShareUpdateValue):
        update_key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
        return _encoded(UPDATE_KIND, update_key, 0), _encoded(VALUE_VERSION, value, VALUE_VERSION)
    key = _encoded(SNAPSHOT_KIND, ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition), 0)
    return key, None if value is None else _encoded(VALUE_VERSION, value, VALUE_VERSION)


def _encoded(head: int, message: Any, version: int) -> bytes:
    pieces: list[Any] = [head.to_bytes(2, "big")]
    encoder(type(message), version)(message, pieces)
    return b"".join(pieces)


def decode_state_record(key: bytes, value: bytes | None) -> ShareStateRecord | None:
    """The record of these bytes; None for a kind that only a later Kafka knows. WireError for bytes that are no record.
    An update without a value, which Kafka never writes, is also None."""
    if len(key) < 2 or (value is not None and len(value) < 2):
        raise WireError("the key and the value of a share state record begin with a number of 2 bytes")
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind not in (SNAPSHOT_KIND, UPDATE_KIND):
        return None
    decoded_key: Any = decoder(ShareSnapshotKey if kind == SNAPSHOT_KIND else ShareUpdateKey, 0)(key, 2)[0]
    record_key = SharePartitionKey(decoded_key.group_id, decoded_key.topic_id, decoded_key.partition)
    if value is None:
        return ShareStateRecord(record_key, None) if kind == SNAPSHOT_KIND else None
    version = int.from_bytes(value[:2], "big", signed=True)
    decoded: Any = decoder(ShareSnapshotValue if kind == SNAPSHOT_KIND else ShareUpdateValue, version)(value, 2)[0]
    return ShareStateRecord(record_key, decoded)
