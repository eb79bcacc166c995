"""Lag in /metrics: what a group has still to read, in records and in seconds."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.coordinators import lag_metrics
from ottla.broker.coordinators.lag_metrics import MAX_MARKERS, Lag
from ottla.groups import GroupRecord
from ottla.groups.shard import GroupShard
from ottla.records import end_txn_marker
from ottla.sim.loop import Loop
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue
from tests.unit.broker.rooms import Ground, add_topic, make_groups, make_replicas
from tests.unit.storage.logs_on_disk import NOW, TOPIC_ID, append, batch

PRODUCER = (7, 0)


class World:
    """One group that has committed an offset of the only partition."""

    def __init__(self, folder: Path) -> None:
        self.ground = Ground(folder, offsets_topic_num_partitions="1")
        replicas = make_replicas(self.ground)
        add_topic(replicas, "topic", TOPIC_ID)
        add_topic(replicas, "__consumer_offsets", b"o" * 16)
        self.log = replicas.partition("topic", 0).log
        self._groups = make_groups(self.ground, replicas)
        self.lag = Lag(self._groups)
        self._shard: GroupShard
        self._sequence = 0

    async def start(self) -> None:
        """The group's shard is hosted here."""
        self._groups.start()
        shard = self._groups.shard(0).machine
        assert shard is not None
        self._shard = shard
        self.commit(0)

    def commit(self, offset: int, metadata: str = "") -> None:
        key = OffsetCommitKey(group="group", topic="topic", partition=0)
        value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=NOW)
        self._shard.replay(GroupRecord(key, value))

    def write(self, count: int = 1) -> None:
        data = batch(count, producer=PRODUCER, sequence=self._sequence, is_transactional=True)
        self._sequence += count
        self.log.append(data, leader_epoch=0, timestamp=NOW, is_verified=True)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def end(self) -> None:
        marker = end_txn_marker(
            producer_id=PRODUCER[0], producer_epoch=PRODUCER[1], is_commit=True, coordinator_epoch=0, timestamp=NOW
        )
        self.log.append_control(marker, leader_epoch=0, timestamp=NOW)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def told(self) -> tuple[float, float | None]:
        """Records and seconds of one scrape."""
        ((_, records),) = self.lag.records()
        seconds = [value for _, value in self.lag.seconds()]
        return records, seconds[0] if seconds else None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    loop = Loop(seed=1)
    loop.run(made.start())
    yield made
    loop.finish()


def test_markers_behind_the_last_record_are_no_lag(world: World) -> None:
    world.write(3)
    world.end()
    world.ground.ms = 5_000
    world.commit(1)
    assert world.told() == (3, 5.0)
    world.commit(3)
    assert world.told() == (0, 0.0)
    world.commit(4)
    assert world.told() == (0, 0.0)


def test_an_offset_that_counts_the_batches_of_a_spark_sink_has_no_lag(world: World) -> None:
    world.write(3)
    world.commit(1, f"1:{base64.b64encode(bytes(16)).decode()}:0123abcd:1:AAAA")
    assert (list(world.lag.records()), list(world.lag.seconds())) == ([], [])


def test_a_record_behind_a_marker_is_lag_as_soon_as_it_is_there(world: World) -> None:
    world.write()
    world.end()
    world.commit(1)
    assert world.told() == (0, 0.0)
    world.end()
    assert world.told() == (0, 0.0)
    append(world.log)
    world.ground.ms = 1_000
    assert world.told() == (3, 1.0)


def test_only_a_few_markers_are_passed_over(world: World) -> None:
    world.write()
    world.commit(1)
    for _ in range(MAX_MARKERS):
        world.end()
    assert world.told() == (0, 0.0)
    world.end()
    assert world.told() == (MAX_MARKERS + 1, None)


def test_a_scrape_looks_at_so_many_logs_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write()
    world.end()
    world.commit(1)
    monkeypatch.setattr(lag_metrics, "MAX_LOOKUPS_PER_SCRAPE", 0)
    assert world.told() == (1, None)
    monkeypatch.undo()
    assert world.told() == (0, 0.0)
    monkeypatch.setattr(lag_metrics, "MAX_LOOKUPS_PER_SCRAPE", 0)
    assert world.told() == (0, 0.0), "what has not moved is known"
