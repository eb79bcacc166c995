"""The share coordinator's shard against Kafka's rules of ShareCoordinatorShard."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import (
    SharePartitionKey,
    ShareStateRecord,
    decode_state_record,
    encode_state_record,
)
from ottla.groups.share.state_shard import ShareOutcome, ShareStateShard, ShareWrite
from ottla.machine import Call, CoordinatorDecision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.share_snapshot_value import ShareSnapshotValue
from ottla.wire.messages.records.share_update_value import ShareUpdateValue
from tests.unit.groups.shard_driver import NODE

TOPIC = bytes(range(16))
KEY = SharePartitionKey("g", TOPIC, 0)
CALL = Call(now=0, timestamp=1_000)
MINUTE_MS = 60_000


class Driver:
    """Decisions are encoded, decoded and replayed, each at the next offset of a log."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        setting = {"share.coordinator.snapshot.update.records.per.snapshot": str(updates_per_snapshot)}
        self.config = BrokerConfig.parse({**NODE, **setting})
        self.topics = {TOPIC: 2}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = self.new_shard()

    def new_shard(self) -> ShareStateShard:
        return ShareStateShard(lambda: self.config, lambda topic_id, index: index < self.topics.get(topic_id, 0))

    def run(self, decision: CoordinatorDecision[ShareOutcome]) -> ShareOutcome:
        for record in decision.records:
            self.log.append(encode_state_record(record))
            self.shard.log_offset = len(self.log) - 1
            self.shard.replay(_decoded(*self.log[-1]))
        self.shard.log_offset = len(self.log)
        return decision.reply

    def initialize(self, key: SharePartitionKey = KEY, state_epoch: int = 0, start_offset: int = 0) -> ErrorCode:
        return self.run(self.shard.initialize(key, state_epoch, start_offset, CALL)).code

    def write(self, *batches: StoredBatch, start: int = -1, leader: int = 0, epoch: int = 0) -> ErrorCode:
        return self.run(self.shard.write(KEY, ShareWrite(epoch, leader, start, 0, batches), CALL)).code

    def read(self, leader_epoch: int = 0) -> ShareOutcome:
        return self.run(self.shard.read(KEY, leader_epoch, CALL))

    def last(self) -> Any:
        return _decoded(*self.log[-1]).value

    def reloaded(self, start_offset: int = 0) -> ShareStateShard:
        shard = self.new_shard()
        for offset, (key, value) in enumerate(self.log):
            if offset >= start_offset:
                shard.log_offset = offset
                shard.replay(_decoded(key, value))
        shard.log_offset = len(self.log)
        return shard


def _decoded(key: bytes, value: bytes | None) -> ShareStateRecord:
    record = decode_state_record(key, value)
    assert record is not None
    return record


def batch(first: int, last: int, state: int = 0, count: int = 1) -> StoredBatch:
    return StoredBatch(first, last, state, count)


def test_a_key_has_kafkas_text_and_is_parsed_from_it() -> None:
    assert KEY.text == "g:AAECAwQFBgcICQoLDA0ODw:0"
    assert SharePartitionKey.parse(KEY.text) == KEY
    assert SharePartitionKey.parse("a:b:AAECAwQFBgcICQoLDA0ODw:1") == SharePartitionKey("a:b", TOPIC, 1)


@pytest.mark.parametrize(
    "text",
    ["", "g", "g:AAECAwQFBgcICQoLDA0ODw", ":AAECAwQFBgcICQoLDA0ODw:0", "g:short:0", "g:AAECAwQFBgcICQoLDA0ODw:x"],
)
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        SharePartitionKey.parse(text)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_a_record_of_a_later_kind_is_passed_over() -> None:
    assert decode_state_record(b"\0\x07anything", b"\0\0") is None


def test_a_share_partition_is_initialized_written_and_read() -> None:
    driver = Driver()
    assert driver.initialize(start_offset=100) == ErrorCode.NONE
    assert isinstance(driver.last(), ShareSnapshotValue)
    assert driver.last().delivery_complete_count == 0
    assert driver.write(batch(100, 109, 2), batch(110, 119), start=-1) == ErrorCode.NONE
    assert isinstance(driver.last(), ShareUpdateValue)
    assert driver.write(start=105) == ErrorCode.NONE
    state = driver.read().state
    assert state is not None
    assert (state.state_epoch, state.start_offset) == (0, 105)
    assert state.batches == [batch(105, 109, 2), batch(110, 119)]
    assert driver.reloaded().states == driver.shard.states


def test_a_start_that_is_not_known_yet_has_no_count() -> None:
    driver = Driver()
    driver.initialize(start_offset=-1)
    assert driver.last().delivery_complete_count == -1


def test_neither_reading_nor_writing_begins_a_share_partition() -> None:
    driver = Driver()
    assert driver.write(batch(0, 1)) == ErrorCode.INVALID_REQUEST
    assert driver.read().code == ErrorCode.INVALID_REQUEST
    assert driver.run(driver.shard.summary(KEY)) == ShareOutcome()
    assert driver.run(driver.shard.delete(KEY)).code == ErrorCode.NONE
    assert not driver.log


def test_a_partition_that_the_cluster_does_not_have_is_refused() -> None:
    driver = Driver()
    for key in (KEY._replace(partition=2), KEY._replace(topic_id=b"x" * 16)):
        assert driver.initialize(key) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.initialize(KEY._replace(partition=-1)) == ErrorCode.INVALID_REQUEST


def test_a_leader_of_an_earlier_epoch_is_fenced_from_the_read_of_a_later_one_on() -> None:
    driver = Driver()
    driver.initialize()
    assert driver.write(batch(0, 1), leader=3) == ErrorCode.NONE
    assert driver.write(batch(2, 3), leader=2) == ErrorCode.NONE, "a write does not raise the epoch"
    assert driver.read(leader_epoch=3).code == ErrorCode.NONE
    assert driver.last().leader_epoch == 3
    assert driver.write(batch(4, 5), leader=2) == ErrorCode.FENCED_LEADER_EPOCH
    assert driver.read(leader_epoch=2).code == ErrorCode.FENCED_LEADER_EPOCH
    assert driver.write(batch(4, 5), leader=3) == ErrorCode.NONE
    written = len(driver.log)
    assert driver.read(leader_epoch=3).code == ErrorCode.NONE
    assert driver.read(leader_epoch=-1).code == ErrorCode.NONE
    assert len(driver.log) == written, "an epoch that is known is not written again"
    assert driver.reloaded().states[KEY].leader_epoch == 3


def test_an_earlier_state_epoch_is_fenced() -> None:
    driver = Driver()
    driver.initialize(state_epoch=5)
    assert driver.write(batch(0, 1), epoch=4) == ErrorCode.FENCED_STATE_EPOCH
    assert driver.initialize(state_epoch=4) == ErrorCode.FENCED_STATE_EPOCH
    assert driver.write(batch(0, 1), epoch=5) == ErrorCode.NONE
    assert driver.initialize(state_epoch=6, start_offset=50) == ErrorCode.NONE
    assert driver.last().snapshot_epoch == 1
    assert driver.shard.states[KEY].batches == []
    assert driver.write(batch(0, 1), epoch=5) == ErrorCode.FENCED_STATE_EPOCH


def test_after_so_many_updates_comes_a_snapshot_of_everything() -> None:
    driver = Driver(updates_per_snapshot=2)
    driver.initialize(start_offset=0)
    for first in range(0, 60, 20):
        driver.write(batch(first, first + 9))
    assert [type(_decoded(*one).value).__name__ for one in driver.log] == [
        "ShareSnapshotValue",
        "ShareUpdateValue",
        "ShareUpdateValue",
        "ShareSnapshotValue",
    ]
    assert [(one.first_offset, one.last_offset) for one in driver.last().state_batches] == [(0, 9), (20, 29), (40, 49)]
    assert driver.last().snapshot_epoch == 1
    assert driver.shard.states[KEY].update_count == 0
    assert driver.shard.redundant_offset == 3
    assert driver.reloaded(start_offset=3).states == driver.shard.states


def test_a_deleted_share_partition_leaves_a_tombstone_and_is_gone() -> None:
    driver = Driver()
    driver.initialize()
    driver.write(batch(0, 1))
    assert driver.run(driver.shard.delete(KEY)).code == ErrorCode.NONE
    assert driver.log[-1][1] is None
    assert not driver.shard.states
    assert not driver.reloaded().states
    assert driver.shard.redundant_offset == len(driver.log)


def test_topics_that_are_deleted_take_their_states_along() -> None:
    driver = Driver()
    other = KEY._replace(topic_id=b"o" * 16)
    driver.topics[other.topic_id] = 1
    driver.initialize()
    driver.initialize(other)
    driver.run(driver.shard.forget_topics([TOPIC]))
    assert list(driver.shard.states) == [other]


def test_a_share_partition_that_is_not_written_any_more_gets_a_snapshot_so_that_the_log_can_be_pruned() -> None:
    driver = Driver(updates_per_snapshot=1)
    other = KEY._replace(partition=1)
    driver.initialize(other)
    driver.initialize()
    for first in range(0, 100, 10):
        driver.write(batch(first, first + 4))
    assert driver.shard.redundant_offset == 0
    soon = Call(now=0, timestamp=CALL.timestamp + MINUTE_MS)
    assert not driver.shard.snapshot_cold(soon, 10).records
    later = Call(now=0, timestamp=CALL.timestamp + 5 * MINUTE_MS)
    before = len(driver.log)
    driver.run(driver.shard.snapshot_cold(later, 10))
    assert driver.shard.redundant_offset == before
    assert driver.reloaded(before).states == driver.shard.states
    assert not driver.shard.snapshot_cold(Call(0, later.timestamp + 5 * MINUTE_MS), 10).records, "nothing new to prune"
