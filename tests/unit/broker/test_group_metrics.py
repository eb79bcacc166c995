"""Lag in /metrics: what a group has still to read, in records and in seconds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import group_metrics
from ottla.broker.coordinators.lag_metrics import MAX_MARKERS, Lag
from ottla.broker.replicas.partitions import Partition
from ottla.records import end_txn_marker
from tests.unit.storage.logs_on_disk import NOW, TOPIC_ID, append, batch, new_log

PRODUCER = (7, 0)


class World:
    """One group that has committed an offset of the only partition."""

    def __init__(self, folder: Path) -> None:
        self.log = new_log(folder)
        self.committed = 0
        self.timestamp = NOW
        self._sequence = 0
        partition = Partition("topic", TOPIC_ID, 0, self.log, 0)
        self.partitions = SimpleNamespace(get=lambda topic, index: partition)
        self.groups = SimpleNamespace(active=lambda: [SimpleNamespace(machine=self)])
        self.lag = Lag(self)  # type: ignore[arg-type]

    offset_count = 1

    def committed_offsets(self) -> list[Any]:
        return [("group", "topic", 0, SimpleNamespace(offset=self.committed))]

    def clock(self) -> int:
        return self.timestamp

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
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_markers_behind_the_last_record_are_no_lag(world: World) -> None:
    world.write(3)
    world.end()
    world.timestamp = NOW + 5_000
    world.committed = 1
    assert world.told() == (3, 5.0)
    world.committed = 3
    assert world.told() == (0, 0.0)
    world.committed = 4
    assert world.told() == (0, 0.0)


def test_a_record_behind_a_marker_is_lag_as_soon_as_it_is_there(world: World) -> None:
    world.write()
    world.end()
    world.committed = 1
    assert world.told() == (0, 0.0)
    world.end()
    assert world.told() == (0, 0.0)
    append(world.log)
    world.timestamp = NOW + 1_000
    assert world.told() == (3, 1.0)


def test_only_a_few_markers_are_passed_over(world: World) -> None:
    world.write()
    world.committed = 1
    for _ in range(MAX_MARKERS):
        world.end()
    assert world.told() == (0, 0.0)
    world.end()
    assert world.told() == (MAX_MARKERS + 1, None)


def test_a_scrape_looks_at_so_many_logs_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write()
    world.end()
    world.committed = 1
    monkeypatch.setattr(group_metrics, "MAX_LOOKUPS_PER_SCRAPE", 0)
    assert world.told() == (1, None)
    monkeypatch.undo()
    assert world.told() == (0, 0.0)
    monkeypatch.setattr(group_metrics, "MAX_LOOKUPS_PER_SCRAPE", 0)
    assert world.told() == (0, 0.0), "what has not moved is known"
