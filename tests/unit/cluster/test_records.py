"""Metadata records as bytes."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from ottla.cluster import decode_record, decode_records, encode_record
from ottla.cluster.records import _RECORDS, _record_class, record_version
from ottla.wire import Message, WireError, schema
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord


def test_frame_is_byte_for_byte_what_kafka_writes() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_record(record) == b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00"


@pytest.mark.parametrize("key", sorted(_RECORDS))
def test_every_kind_of_record_survives_its_frame(key: int) -> None:
    cls = _record_class(key)
    assert schema(cls).api_key == key
    record: Message = cls()
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("metadata_version", "partition", "broker"),
    [(7, 0, 1), (8, 0, 2), (16, 0, 2), (17, 1, 3), (22, 1, 3), (23, 2, 3), (29, 2, 3), (30, 2, 4)],
)
def test_the_version_written_is_what_the_cluster_agreed_on(metadata_version: int, partition: int, broker: int) -> None:
    assert record_version(PartitionRecord(), metadata_version) == partition
    assert record_version(RegisterBrokerRecord(), metadata_version) == broker


def test_a_broker_change_takes_the_lowest_version_that_can_say_it() -> None:
    change = BrokerRegistrationChangeRecord
    assert record_version(change(fenced=1), 30) == 0
    assert record_version(change(in_controlled_shutdown=1), 30) == 1
    assert record_version(change(log_dirs=[b"d" * 16]), 30) == 2
    assert record_version(change(cordoned_log_dirs=[]), 30) == 3


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut short"),
        (b"\x02\x0c\x00", "frame version 2"),
        (b"\x01\x63\x00", "key 99"),
        (b"\x01\x0c\x07", "version 7"),
        (b"\x01\x14\x00\x00junk", "not its own"),
    ],
)
def test_bytes_that_are_no_record_of_this_release_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode_record(data)


def test_many_frames_are_decoded_as_each_of_them_is() -> None:
    frames = [encode_record(_record_class(key)()) for key in sorted(_RECORDS)] * 3
    assert decode_records(frames) == [decode_record(frame) for frame in frames]
    with pytest.raises(WireError, match="not its own"):
        decode_records([*frames, frames[0] + b"junk"])
    with pytest.raises(WireError, match="cut short"):
        decode_records([b""])


def test_mutated_frames_give_a_record_or_an_error() -> None:
    rng = Random(7)
    whole = encode_record(PartitionRecord(topic_id=b"t" * 16, replicas=[1, 2], isr=[1], directories=[b"d" * 16] * 2))
    for _ in range(2_000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(WireError):
            decode_record(bytes(data[: rng.randrange(len(data) + 1)]))
