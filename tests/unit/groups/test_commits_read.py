"""Loading a shard: whatever the log holds, the shard becomes what it would by one record after the other."""

from __future__ import annotations

from random import Random

import pytest

from ottla.groups import GroupRecord, decode_record, encode_record
from ottla.groups.commits_read import MAX_WAITING_COUNT, is_ordinary_key, is_ordinary_value
from ottla.groups.shard import GroupShard
from ottla.records import Record
from ottla.wire import WireError
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue
from tests.unit.groups.shard_driver import Shard, state_of

TOPIC_IDS = (b"1" * 16, b"2" * 16, bytes(16))


def commit(
    offset: int, group: str = "g", partition: int = 0, topic: str = "t", topic_id: bytes = b"1" * 16, metadata: str = ""
) -> GroupRecord:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=offset % 3 - 1, metadata=metadata, commit_timestamp=offset + 100, topic_id=topic_id
    )
    return GroupRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), value)


def as_read(*records: GroupRecord) -> list[Record]:
    return [Record(offset, 0, *encode_record(record)) for offset, record in enumerate(records)]


def new_shard() -> GroupShard:
    return Shard().new_machine()


def test_of_each_offset_the_last_commit_counts() -> None:
    shard = new_shard()
    shard.replay_read(as_read(commit(1), commit(2), commit(7, partition=-1), commit(3)))
    shard.loaded(0, 0)

    assert [(partition, value.offset) for _, _, partition, value in shard.offsets.committed] == [(0, 3), (-1, 7)]
    assert list(shard.state.groups) == ["g"]


def test_a_damaged_record_takes_nothing_away() -> None:
    shard = new_shard()
    good, cut = as_read(commit(5), commit(6))
    assert cut.value is not None
    found: list[int] = []
    damaged = [
        Record(8, 0, cut.key, cut.value[:20]),
        Record(9, 0, b"\0\1\0\x09g", cut.value),
        Record(10, 0, b"\0", b""),
    ]
    shard.replay_read([good, *damaged], damaged=lambda record, error: found.append(record.offset))
    shard.loaded(0, 0)

    assert found == [8, 9, 10]
    assert [value.offset for *_, value in shard.offsets.committed] == [5]


def test_more_offsets_than_may_wait_are_taken_in_between() -> None:
    shard = new_shard()
    records = as_read(*(commit(index, partition=index) for index in range(MAX_WAITING_COUNT + 10)))
    shard.replay_read(records)
    assert 0 < shard.offsets.committed.count <= MAX_WAITING_COUNT + 1
    shard.loaded(0, 0)
    assert shard.offsets.committed.count == len(records)


@pytest.mark.parametrize("seed", range(30))
def test_any_log_is_read_as_one_record_after_the_other(seed: int) -> None:
    rng = Random(seed)
    one, other = new_shard(), new_shard()
    for start in range(0, 200, 10):
        records: list[GroupRecord] = []
        for index in range(10):
            group, partition = rng.choice(("g", "h", "ü")), rng.randrange(3)
            kind = rng.random()
            if kind < 0.75:
                topic_id, metadata = rng.choice(TOPIC_IDS), rng.choice(("", "", "", "m"))
                topic = rng.choice(("t", "u"))
                records.append(commit(start + index, group, partition, topic, topic_id, metadata))
            elif kind < 0.9:
                records.append(GroupRecord(OffsetCommitKey(group=group, topic="t", partition=partition), None))
            else:
                value = GroupMetadataValue(protocol_type="consumer", generation=start)
                records.append(GroupRecord(GroupMetadataKey(group=group), value))
        producer_id = rng.choice((-1, -1, 4, 5))
        batch = as_read(*records)
        one.replay_read(batch, producer_id)
        for record in batch:
            assert record.key is not None
            decoded = decode_record(record.key, record.value)
            assert decoded is not None
            other.replay(decoded, producer_id)
        if rng.random() < 0.2:
            ended, is_commit = rng.choice((4, 5)), rng.random() < 0.5
            one.replay_transaction_end(ended, is_commit=is_commit)
            other.replay_transaction_end(ended, is_commit=is_commit)
    one.loaded(0, 0)
    other.loaded(0, 0)

    assert state_of(one) == state_of(other)
    assert list(one.state.groups) == list(other.state.groups)


def test_what_is_called_ordinary_can_be_decoded() -> None:
    rng = Random(3)
    key, value = encode_record(commit(5, "group", 3, "topic"))
    assert value is not None and is_ordinary_key(key) and is_ordinary_value(value)
    ordinary = 0
    for _ in range(5000):
        mutated_key, mutated_value = bytearray(key), bytearray(value)
        for mutated in (mutated_key, mutated_value):
            for _ in range(rng.randrange(3)):
                mutated[rng.randrange(len(mutated))] = rng.randrange(256)
            if rng.random() < 0.1:
                del mutated[rng.randrange(len(mutated)) :]
        if is_ordinary_key(bytes(mutated_key)) and is_ordinary_value(bytes(mutated_value)):
            ordinary += 1
            try:
                decoded = decode_record(bytes(mutated_key), bytes(mutated_value))
            except WireError:
                pytest.fail(f"{mutated_key} {mutated_value}")
            assert decoded is not None and type(decoded.key) is OffsetCommitKey
    assert ordinary > 500
