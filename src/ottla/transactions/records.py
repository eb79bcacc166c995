"""Records of `__transaction_state`: the whole state of one transactional id each, the latest one counts.

A key begins with the kind of record, a value with the version of its schema, two bytes each. A record without a value
forgets its transactional id.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, pack
from typing import Any, NamedTuple

from ottla.wire import WireError, decoder, encoder
from ottla.wire.messages.records.transaction_log_key import TransactionLogKey
from ottla.wire.messages.records.transaction_log_value import TransactionLogValue
from ottla.wire.primitives import encode_unsigned_varint

KEY_KIND = 0
LAST_STATUS = 7
_KEY_HEAD = Struct(">hh")
_VALUE_HEAD = Struct(">hqhib")
_VALUE_TAIL = Struct(">qq")
_TAGGED_ID = Struct(">BBq")
_TAGGED_NUMBER = Struct(">BBh")
FLEXIBLE_SINCE_TRANSACTION_VERSION = 1
"""From this level of `transaction.version` on values are written in version 1, whose tagged fields hold what version 2
of the protocol needs."""


class TransactionRecord(NamedTuple):
    """One record; a `value` of None is a tombstone."""

    key: TransactionLogKey
    value: TransactionLogValue | None
    value_version: int = 1


def value_version(transaction_version: int) -> int:
    return 1 if transaction_version >= FLEXIBLE_SINCE_TRANSACTION_VERSION else 0


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """The record's key and value as bytes."""
    name = record.key.transactional_id.encode("utf-8")
    key = _KEY_HEAD.pack(KEY_KIND, len(name)) + name
    value = record.value
    if value is None:
        return key, None
    if record.value_version == 1:
        return key, _encode_value(value)
    pieces: list[Any] = [record.value_version.to_bytes(2, "big")]
    encoder(TransactionLogValue, record.value_version)(value, pieces)
    return key, b"".join(pieces)


def _encode_value(value: TransactionLogValue) -> bytes:
    """Version 1, as the general encoder writes it: three of these are written for every transaction."""
    pieces = [
        _VALUE_HEAD.pack(
            1,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            value.transaction_status,
        )
    ]
    partitions = value.transaction_partitions
    if partitions is None:
        pieces.append(b"\0")
    else:
        pieces.append(encode_unsigned_varint(len(partitions) + 1))
        for schema in partitions:
            topic = schema.topic.encode("utf-8")
            indexes = schema.partition_ids
            pieces += (
                encode_unsigned_varint(len(topic) + 1),
                topic,
                encode_unsigned_varint(len(indexes) + 1),
                pack(f">{len(indexes)}ix", *indexes),
            )
    pieces.append(_VALUE_TAIL.pack(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms))
    tags = []
    if value.previous_producer_id != -1:
        tags.append(_TAGGED_ID.pack(0, 8, value.previous_producer_id))
    if value.next_producer_id != -1:
        tags.append(_TAGGED_ID.pack(1, 8, value.next_producer_id))
    if value.client_transaction_version != 0:
        tags.append(_TAGGED_NUMBER.pack(2, 2, value.client_transaction_version))
    if value.next_producer_epoch != -1:
        tags.append(_TAGGED_NUMBER.pack(3, 2, value.next_producer_epoch))
    pieces.append(len(tags).to_bytes(1, "big"))
    return b"".join(pieces + tags)


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """The decoded record; None for an unknown kind (of a later Kafka), which the coordinator skips.

    WireError for bytes that are no record."""
    if len(key) < 2:
        raise WireError(f"the key of a transaction record has {len(key)} bytes; it begins with a number of 2 bytes")
    if int.from_bytes(key[:2], "big", signed=True) != KEY_KIND:
        return None
    decoded_key: TransactionLogKey = decoder(TransactionLogKey, 0)(key, 2)[0]
    if value is None:
        return TransactionRecord(decoded_key, None)
    if len(value) < 2:
        raise WireError(f"the value of a transaction record has {len(value)} bytes; it begins with a number of 2 bytes")
    version = int.from_bytes(value[:2], "big", signed=True)
    decoded: TransactionLogValue = _value_decoder(version)(value, 2)[0]
    if not 0 <= decoded.transaction_status <= LAST_STATUS:
        raise WireError(f"{decoded.transaction_status} is not the state of a transaction")
    return TransactionRecord(decoded_key, decoded, version)


@cache
def _value_decoder(version: int) -> Any:
    return decoder(TransactionLogValue, version)
