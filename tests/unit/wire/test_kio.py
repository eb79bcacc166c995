"""kio, an independent implementation of the protocol, reads our messages and writes messages that we read."""

from __future__ import annotations

import io
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random
from typing import Any
from uuid import UUID

import pytest

from ottla.wire import Message, Struct, decode_from, encode_bytes, schema
from ottla.wire.apis import APIS, request_class, response_class
from ottla.wire.primitives import ZERO_UUID
from tests.unit.wire.values import make, versions_of

kio_serial = pytest.importorskip("kio.serial")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RECORDS = {
    "ConsumerProtocolAssignment": "consumer_protocol_assignment",
    "ConsumerProtocolSubscription": "consumer_protocol_subscription",
    "DefaultPrincipalData": "default_principal_data",
    "KraftVersionRecord": "kraft_version_record",
    "LeaderChangeMessage": "leader_change_message",
    "SnapshotFooterRecord": "snapshot_footer_record",
    "SnapshotHeaderRecord": "snapshot_header_record",
    "VotersRecord": "voters_record",
}
NEWER_APIS = (93, 94)
"""kio ends with Kafka 4.3."""
RENAMED = {"generationidormemberepoch": "generationid", "acceptablerecoverylaglegacy": "acceptablerecoverylag"}
"""Fields that Kafka 4.4 renamed."""
MESSAGES = [
    *(request_class(key) for key in APIS if key not in NEWER_APIS),
    *(response_class(key) for key in APIS if key not in NEWER_APIS),
    *(getattr(import_module(f"ottla.wire.messages.records.{module}"), name) for name, module in RECORDS.items()),
]


def kio_class(cls: type[Message], version: int) -> Any | None:
    module = cls.__module__.rpartition(".")[2].replace("kraft_version", "k_raft_version")
    kind = "request" if cls.__name__.endswith("Request") else "response"
    if cls.__name__ in RECORDS:
        kind = "data"
    try:
        found = import_module(f"kio.schema.{module}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    return getattr(found, cls.__name__.replace("Kraft", "KRaft"))


def plain(value: Any) -> Any:
    """kio's richer types as what is on the wire."""
    if value is None:
        return ZERO_UUID
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(milliseconds=1)
    if hasattr(value, "value"):
        return value.value
    return value


def bare(name: str) -> str:
    """kio splits words elsewhere and has no unit in the names of times."""
    return name.removesuffix("_ms").replace("_", "")


def assert_same(ours: Any, theirs: Any, version: int, path: str) -> None:
    if isinstance(ours, Struct):
        by_name = {bare(field.name): getattr(theirs, field.name) for field in fields(theirs)}
        for field in schema(type(ours)).fields:
            if field.is_in(version):
                name = bare(field.name)
                other = by_name.pop(name if name in by_name else RENAMED[name])
                value = getattr(ours, field.name)
                if value is None and field.struct is not None and field.tag is not None and other is not None:
                    continue  # absent: kio makes up a default
                assert_same(value, other, version, f"{path}.{field.name}")
        assert not by_name, path
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), path
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our, their, version, f"{path}[{index}]")
    elif ours is None:
        assert theirs is None, path
    else:
        assert ours == plain(theirs), path


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_kio_and_we_read_and_write_the_same_bytes(cls: type[Message]) -> None:
    rng = Random(cls.__name__)
    compared = 0
    for version in versions_of(cls):
        theirs = kio_class(cls, version)
        if theirs is None:
            continue
        read, write = kio_serial.entity_reader(theirs), kio_serial.entity_writer(theirs)
        for _ in range(3):
            message = make(cls, version, rng, is_flexible=schema(cls).is_flexible(version), is_tame=True)
            encoded = encode_bytes(message, version)
            entity, size = read(encoded, 0)
            assert size == len(encoded)
            assert_same(message, entity, version, f"{cls.__name__} version {version}")
            buffer = io.BytesIO()
            write(buffer, entity)
            decoded, end = decode_from(cls, version, buffer.getvalue())
            assert end == len(buffer.getvalue())
            assert encode_bytes(decoded, version) == buffer.getvalue()
            assert_same(decoded, entity, version, f"{cls.__name__} version {version}")
            compared += 1
    assert compared, f"kio has no {cls.__name__}"
