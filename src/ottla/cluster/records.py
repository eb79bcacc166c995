"""Metadata records as bytes: the value of a record in `__cluster_metadata`.

A frame is four things in a row: the frame's version (always 1), the record type's key, the version of its schema, all
three unsigned varints, and the record itself. Which version is written depends on the `metadata.version` the cluster
has agreed on, never on what this release could write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

from ottla.cluster.features import LATEST_METADATA_VERSION, partition_version, register_broker_version
from ottla.wire import Message, WireError, decoder, encoder, schema
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord
from ottla.wire.primitives import decode_unsigned_varint, encode_unsigned_varint

FRAME_VERSION = 1

_RECORDS: dict[int, str] = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    29: "UnregisterControllerRecord",
}
"""Every kind of metadata record Kafka 4.4.0 knows, by its key."""


def encode_record(record: Message, metadata_version: int = LATEST_METADATA_VERSION) -> bytes:
    """One metadata record with its frame, in the version that a cluster at `metadata_version` may write."""
    version = record_version(record, metadata_version)
    parts: list[Any] = [_prefix(type(record), version)]
    encoder(type(record), version)(record, parts)
    return b"".join(parts)


def decode_record(data: bytes | memoryview) -> Message:
    """The metadata record of one frame. WireError if it is damaged, or of a kind that only a later release knows."""
    view = memoryview(data)
    frame_version, position = decode_unsigned_varint(view, 0)
    if frame_version != FRAME_VERSION:
        raise WireError(f"a metadata record has frame version {frame_version}; only {FRAME_VERSION} is known")
    key, position = decode_unsigned_varint(view, position)
    version, position = decode_unsigned_varint(view, position)
    record, position = _decoder(key, version)(view, position)
    if position != len(view):
        raise WireError(f"{type(record).__name__} is followed by {len(view) - position} bytes that are not its own")
    return record


def decode_records(frames: Iterable[bytes]) -> list[Message]:
    """The metadata records of many frames: a start replays tens of thousands of them."""
    records = []
    decoders: dict[bytes, Callable[[memoryview, int], tuple[Message, int]]] = {}
    for frame in frames:
        prefix = frame[:3]
        decode = decoders.get(prefix)
        if decode is None:
            records.append(decode_record(frame))
            if max(prefix) < 128:  # three varints of one byte each
                decoders[prefix] = _decoder(prefix[1], prefix[2])
            continue
        record, position = decode(memoryview(frame), 3)
        if position != len(frame):
            raise WireError(f"{type(record).__name__} is followed by {len(frame) - position} bytes not its own")
        records.append(record)
    return records


def record_version(record: Message, metadata_version: int) -> int:
    """The version of its schema that a record is written in."""
    kind = type(record)
    if kind is PartitionRecord or kind is PartitionChangeRecord:
        return partition_version(metadata_version)
    if kind is RegisterBrokerRecord:
        return register_broker_version(metadata_version)
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return 0


@cache
def _decoder(key: int, version: int) -> Callable[[memoryview, int], tuple[Message, int]]:
    cls = _record_class(key)
    first, last = schema(cls).versions
    if not first <= version <= last:
        raise WireError(f"{cls.__name__} has version {version}; this release knows {first} to {last}")
    return decoder(cls, version)


@cache
def _record_class(key: int) -> type[Message]:
    name = _RECORDS.get(key)
    if name is None:
        raise WireError(f"a metadata record has key {key}, which this release does not know")
    module = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)[1:]
    cls: type[Message] = getattr(import_module(f"ottla.wire.messages.records.{module}"), name)
    return cls


@cache
def _prefix(cls: type[Message], version: int) -> bytes:
    key = schema(cls).api_key
    if key is None:
        raise WireError(f"{cls.__name__} is not a metadata record")
    return b"".join(map(encode_unsigned_varint, (FRAME_VERSION, key, version)))
