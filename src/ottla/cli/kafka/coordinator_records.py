"""Records of Kafka's own topics, as kafka-dump-log and the formatters of kafka-console-consumer show them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.cli.kafka.message_json import to_json
from ottla.wire import Message, WireError, decode
from ottla.wire.messages.records import (
    GROUP_KEYS,
    GROUP_VALUES,
    SHARE_KEYS,
    SHARE_VALUES,
    TRANSACTION_KEYS,
    TRANSACTION_VALUES,
    record_class,
)

GROUP_METADATA = 2
_NUMBER_SIZE = 2
_KEY_VERSION = 0


class Schemas(NamedTuple):
    """Which keys and values a topic has, by the number in front of the key."""

    keys: dict[int, tuple[str, str]]
    values: dict[int, tuple[str, str]]


GROUPS = Schemas(GROUP_KEYS, GROUP_VALUES)
TRANSACTIONS = Schemas(TRANSACTION_KEYS, TRANSACTION_VALUES)
SHARES = Schemas(SHARE_KEYS, SHARE_VALUES)


class CoordinatorRecord(NamedTuple):
    type: int
    key: dict[str, Any]
    version: int | None
    """None of a tombstone, which has no value."""
    value: dict[str, Any] | None


class UnknownType(WireError):
    """A record of a kind that Kafka 4.3.1 does not know."""

    def __init__(self, number: int) -> None:
        super().__init__(f"unknown record type {number}")
        self.number = number


def read_record(schemas: Schemas, key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record's key and value as JSON. UnknownType, or WireError for bytes that are no such record."""
    number = _number(key, "key")
    if number not in schemas.keys:
        raise UnknownType(number)
    decoded_key = decode(record_class(schemas.keys, number), _KEY_VERSION, key, _NUMBER_SIZE)
    shown_key = to_json(decoded_key, _KEY_VERSION)
    if value is None:
        return CoordinatorRecord(number, shown_key, None, None)
    version = _number(value, "value")
    decoded: Message = decode(record_class(schemas.values, number), version, value, _NUMBER_SIZE)
    return CoordinatorRecord(number, shown_key, version, to_json(decoded, version))


def open_consumer_protocol(value: dict[str, Any]) -> None:
    """In the JSON of a GroupMetadataValue: put the members' subscriptions and assignments in place of their bytes."""
    from base64 import b64decode

    if value.get("protocolType") != "consumer":
        return
    from ottla.wire.messages.records.consumer_protocol_assignment import ConsumerProtocolAssignment
    from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription

    kinds: dict[str, type[Message]] = {
        "subscription": ConsumerProtocolSubscription,
        "assignment": ConsumerProtocolAssignment,
    }
    for member in value["members"]:
        for name, kind in kinds.items():
            data = b64decode(member[name])
            try:
                version = _number(data, name)
                member[name] = to_json(decode(kind, version, data, _NUMBER_SIZE), version)
            except WireError:
                continue  # of another client's making: its bytes stay


def _number(data: bytes, what: str) -> int:
    begin = data[:_NUMBER_SIZE]
    if len(begin) < _NUMBER_SIZE:
        raise WireError(f"the {what} has {len(begin)} bytes; it begins with a number of {_NUMBER_SIZE}")
    return int.from_bytes(begin, "big", signed=True)
