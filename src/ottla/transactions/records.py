"""Records of `__transaction_state`: the whole state of one transactional id each, the latest one counts.

A key begins with the kind of record, a value with the version of its schema, two bytes each. A record without a value
forgets its transactional id.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ottla.wire import WireError, decoder, encoder
from ottla.wire.messages.records.transaction_log_key import TransactionLogKey
from ottla.wire.messages.records.transaction_log_value import TransactionLogValue

KEY_KIND = 0
LAST_STATUS = 7
FLEXIBLE_SINCE_TRANSACTION_VERSION = 1
"""From this level of `transaction.version` on values are written in version 1, whose tagged fields hold what version 2
of the protocol needs."""


class TransactionRecord(NamedTuple):
    """One record; `value` None is a tombstone."""

    key: TransactionLogKey
    value: TransactionLogValue | None
    value_version: int = 1


def value_version(transaction_version: int) -> int:
    return 1 if transaction_version >= FLEXIBLE_SINCE_TRANSACTION_VERSION else 0


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """The record's key and value as bytes."""
    pieces: list[Any] = [KEY_KIND.to_bytes(2, "big")]
    encoder(TransactionLogKey, 0)(record.key, pieces)
    key = b"".join(pieces)
    if record.value is None:
        return key, None
    pieces = [record.value_version.to_bytes(2, "big")]
    encoder(TransactionLogValue, record.value_version)(record.value, pieces)
    return key, b"".join(pieces)


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """The record of these bytes; None for a kind that only a later Kafka knows, which a coordinator passes over.

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
