from __future__ import annotations

from random import Random

import pytest

from ottla.groups import records
from ottla.groups.records import GroupRecord, decode_record, encode_record
from ottla.wire import Message, WireError, encode_bytes, schema
from ottla.wire.messages.records import GROUP_KEYS, GROUP_VALUES, record_class
from ottla.wire.messages.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

TOPIC_ID = bytes(range(16))


def numbered(number: int, message: Message, version: int) -> bytes:
    """A key or value as the general codec writes it."""
    return number.to_bytes(2, "big") + encode_bytes(message, version)


def commit(**fields: object) -> OffsetCommitValue:
    value = OffsetCommitValue(offset=42, commit_timestamp=1_700_000_000_000)
    for name, field in fields.items():
        setattr(value, name, field)
    return value


KEY = OffsetCommitKey(group="group", topic="topic", partition=7)


def test_a_commit_has_the_bytes_that_kafka_4_3_writes() -> None:
    record = GroupRecord(KEY, commit(leader_epoch=3, metadata="note", topic_id=TOPIC_ID))

    key, value = encode_record(record)

    assert key == bytes.fromhex("0001 0005") + b"group" + bytes.fromhex("0005") + b"topic" + bytes.fromhex("00000007")
    assert value == (
        bytes.fromhex("0004 000000000000002a 00000003 05")
        + b"note"
        + (1_700_000_000_000).to_bytes(8, "big")
        + bytes.fromhex("01 00 10")
        + TOPIC_ID
    )


def test_a_commit_with_its_own_retention_is_written_in_the_only_version_that_has_an_expire_timestamp() -> None:
    value = commit(expire_timestamp=1_700_000_060_000, metadata="note", leader_epoch=3, topic_id=TOPIC_ID)

    encoded = encode_record(GroupRecord(KEY, value))

    assert encoded[1] == numbered(1, value, 1)
    decoded = decode_record(encoded[0], encoded[1])
    assert decoded == GroupRecord(KEY, commit(expire_timestamp=1_700_000_060_000, metadata="note"))


def test_a_classic_group_is_written_in_version_3_and_a_consumer_group_in_version_0() -> None:
    classic = GroupMetadataValue(protocol_type="consumer", generation=1, protocol=None, leader=None)

    assert encode_record(GroupRecord(GroupMetadataKey(group="g"), classic)) == (
        numbered(2, GroupMetadataKey(group="g"), 0),
        numbered(3, classic, 3),
    )
    assert encode_record(GroupRecord(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=2))) == (
        numbered(3, ConsumerGroupMetadataKey(group_id="g"), 0),
        numbered(0, ConsumerGroupMetadataValue(epoch=2), 0),
    )


@pytest.mark.parametrize(
    "value",
    [
        commit(),
        commit(leader_epoch=0),
        commit(leader_epoch=2**31 - 1, offset=2**63 - 1),
        commit(offset=-1),
        commit(metadata="note"),
        commit(metadata="é" * 63),
        commit(metadata="x" * 126),
        commit(metadata="x" * 127),
        commit(metadata="😀" * 1000, topic_id=TOPIC_ID),
        commit(topic_id=TOPIC_ID),
        commit(metadata="x", topic_id=TOPIC_ID, unknown_tagged_fields={5: b"later"}),
        commit(unknown_tagged_fields={5: b"later"}),
        commit(unknown_tagged_fields={5: bytes(13)}),
    ],
)
def test_the_fast_ways_agree_with_the_general_codec(value: OffsetCommitValue) -> None:
    key_bytes, value_bytes = encode_record(GroupRecord(KEY, value))

    assert key_bytes == numbered(1, KEY, 0)
    assert value_bytes == numbered(4, value, 4)
    assert decode_record(key_bytes, value_bytes) == GroupRecord(KEY, value)
    assert decode_record(memoryview(key_bytes), memoryview(value_bytes)) == GroupRecord(KEY, value)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("metadata", ["", "note", "x" * 500])
def test_commits_of_every_version_are_read(version: int, metadata: str) -> None:
    value = commit(metadata=metadata)
    if version == 1:
        value.expire_timestamp = 5
    if version >= 3:
        value.leader_epoch = 9
    if version == 4:
        value.topic_id = TOPIC_ID

    assert decode_record(numbered(1, KEY, 0), numbered(version, value, version)) == GroupRecord(KEY, value)


def test_random_commits_are_read_as_they_were_written_with_and_without_the_fast_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = Random(8)
    written = []
    for _ in range(2_000):
        text = "".join(rng.choice("aé😀\x00") for _ in range(rng.choice((0, 3, 60, 130))))
        key = OffsetCommitKey(group=text, topic=text[::-1], partition=rng.randrange(-(2**31), 2**31))
        value = OffsetCommitValue(
            offset=rng.randrange(-(2**63), 2**63),
            leader_epoch=rng.randrange(-(2**31), 2**31),
            metadata=text,
            commit_timestamp=rng.randrange(-(2**63), 2**63),
            topic_id=rng.choice((bytes(16), rng.randbytes(16))),
        )
        record = GroupRecord(key, rng.choice((value, None)))
        written.append((record, *encode_record(record)))
    for record, key_bytes, value_bytes in written:
        assert decode_record(key_bytes, value_bytes) == record
    monkeypatch.setattr(records, "_decode_offset", lambda key, value: None)
    for record, key_bytes, value_bytes in written:
        assert decode_record(key_bytes, value_bytes) == record


@pytest.mark.parametrize("kind", sorted(GROUP_KEYS))
def test_every_kind_is_read_with_and_without_a_value(kind: int) -> None:
    key, value = record_class(GROUP_KEYS, kind)(), record_class(GROUP_VALUES, kind)()
    versions = schema(type(value)).versions
    for version in range(versions[0], versions[1] + 1):
        assert decode_record(numbered(kind, key, 0), numbered(version, value, version)) == GroupRecord(key, value)
    assert decode_record(numbered(kind, key, 0), None) == GroupRecord(key, None)


@pytest.mark.parametrize("kind", [9, 18, 99, -1])
def test_an_unknown_kind_is_passed_over(kind: int) -> None:
    assert decode_record(kind.to_bytes(2, "big", signed=True) + b"whatever", b"\x00\x00") is None
    assert decode_record(kind.to_bytes(2, "big", signed=True), None) is None


@pytest.mark.parametrize("version", [5, 99, -1, -32768])
def test_a_value_of_an_unknown_version_is_an_error(version: int) -> None:
    with pytest.raises(WireError):
        decode_record(numbered(1, KEY, 0), version.to_bytes(2, "big", signed=True) + bytes(40))


def test_a_record_that_is_cut_short_anywhere_is_an_error() -> None:
    for value in (commit(metadata="note", topic_id=TOPIC_ID), commit(), commit(expire_timestamp=3)):
        key_bytes, value_bytes = encode_record(GroupRecord(KEY, value))
        assert value_bytes is not None
        for size in range(len(key_bytes)):
            with pytest.raises(WireError):
                decode_record(key_bytes[:size], value_bytes)
            with pytest.raises(WireError):
                decode_record(key_bytes[:size], None)
        for size in range(len(value_bytes)):
            with pytest.raises(WireError):
                decode_record(key_bytes, value_bytes[:size])


def test_damaged_bytes_are_either_a_record_or_an_error() -> None:
    rng = Random(2)
    key_bytes, value_bytes = encode_record(GroupRecord(KEY, commit(metadata="note", topic_id=TOPIC_ID)))
    assert value_bytes is not None
    for _ in range(20_000):
        key, value = bytearray(key_bytes), bytearray(value_bytes)
        for _ in range(rng.randrange(1, 4)):
            damaged = rng.choice((key, value))
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            decoded = decode_record(bytes(key), bytes(value))
        except WireError:
            continue
        assert decoded is None or isinstance(decoded, GroupRecord)


def test_a_text_that_is_no_utf_8_is_an_error() -> None:
    key = bytes.fromhex("0001 0001 ff 0001 61 00000000")

    with pytest.raises(WireError):
        decode_record(key, None)


def test_a_group_id_that_no_record_can_hold_is_an_error() -> None:
    with pytest.raises(WireError):
        encode_record(GroupRecord(OffsetCommitKey(group="g" * 70_000, topic="t"), None))
    with pytest.raises(WireError):
        encode_record(GroupRecord(OffsetCommitKey(group="g" * 40_000, topic="t"), None))
