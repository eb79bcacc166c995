"""The cleaner on real files: what stays, what goes and when, and what a crash leaves."""

from __future__ import annotations

import asyncio
import errno
import json
from base64 import b64decode
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ottla.storage.compaction as compaction
from ottla.config import BrokerConfig, TopicConfig
from ottla.records import (
    BatchHeader,
    Compression,
    Record,
    build,
    crc_ok,
    end_txn_marker,
    read,
    read_end_txn_marker,
    split,
)
from ottla.storage import Log, Logs, OsDisk, Segment
from ottla.storage.compaction import Cleaner, Cleaning, group_segments
from ottla.wire.errors import KafkaError

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class World:
    """A log dir with one compacted topic, a cleaner, and a clock that the test moves."""

    def __init__(self, path: Path, *, disk: Any = None, topic: dict[str, str] | None = None, **broker: str) -> None:
        self.path = path
        self.disk = disk if disk is not None else OsDisk()
        self.timestamp = NOW
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        } | {name.replace("_", "."): value for name, value in broker.items()}
        self.config = BrokerConfig.parse(self.settings)
        self.topic = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY_MS)} | (topic or {})
        self.open()

    def open(self) -> None:
        self.logs = Logs(self.disk, [str(self.path)], self.config, lambda: self.timestamp, rng=Random(1))
        self.logs.open_dirs()
        list(self.logs.load(lambda _: TopicConfig.parse(self.topic, self.config)))
        self.log = self.logs.get("topic", 0) or self.create()
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.cleaner = Cleaner(self.logs, self.disk, rng=Random(2))

    def create(self) -> Log:
        return self.logs.create("topic", 0, bytes(range(16)), TopicConfig.parse(self.topic, self.config))

    def configure(self, **changes: str) -> None:
        self.topic |= {name.replace("_", "."): value for name, value in changes.items()}
        self.log.config = TopicConfig.parse(self.topic, self.config)

    def produce(self, *records: tuple[str, str | None] | Record, roll: bool = False, **fields: Any) -> int:
        """One batch; its base offset."""
        batch = build([record if isinstance(record, Record) else self.record(*record) for record in records], **fields)
        appended = self.log.append(batch, leader_epoch=0, timestamp=self.timestamp)
        self.commit(roll)
        return appended.base_offset

    def record(self, key: str, value: str | None) -> Record:
        return Record(timestamp=self.timestamp, key=key.encode(), value=None if value is None else value.encode())

    def end_transaction(self, producer_id: int, *, is_commit: bool, roll: bool = False) -> int:
        marker = end_txn_marker(
            producer_id=producer_id,
            producer_epoch=0,
            is_commit=is_commit,
            coordinator_epoch=0,
            timestamp=self.timestamp,
        )
        appended = self.log.append_control(marker, leader_epoch=0, timestamp=self.timestamp)
        self.commit(roll)
        return appended.base_offset

    def commit(self, roll: bool) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)
        if roll:
            self.roll()

    def roll(self) -> None:
        self.log.roll(timestamp=self.timestamp)

    def clean(self) -> Cleaning | None:
        return drive(self.cleaner.clean(self.log, self.timestamp))

    def batches(self) -> list[tuple[BatchHeader, list[Record]]]:
        found = []
        for segment in self.log.segments:
            end = 0
            for position, header, batch in segment.batches(check=True):
                found.append((header, read(batch)))
                end = position + header.size
            assert end == segment.size, "every byte belongs to a good batch"
        return found

    def records(self) -> list[tuple[int, str, str | None]]:
        """(offset, key, value) of the data."""
        return [
            (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
            for header, records in self.batches()
            if not header.is_control
            for record in records
        ]

    def markers(self) -> list[int]:
        return [header.base_offset for header, records in self.batches() if header.is_control and records]

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.path / "topic-0").iterdir())


def drive(steps: Generator[Any, None, Cleaning | None]) -> Cleaning | None:
    """Run a cleaning to its end, waiting for what it waits for."""
    try:
        while True:
            step = next(steps)
            if step is not None:
                try:
                    asyncio.run(step)
                except (OSError, KafkaError) as trouble:
                    steps.throw(trouble)
    except StopIteration as stop:
        cleaning: Cleaning | None = stop.value
        return cleaning


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_latest_record_of_each_key_stays_at_its_offset(world: World) -> None:
    world.produce(("a", "1"), ("b", "1"), ("a", "2"), roll=True)
    world.produce(("c", "1"), ("b", "2"), roll=True)
    world.produce(("a", "3"))
    cleaning = world.clean()
    assert cleaning is not None and (cleaning.end_offset, cleaning.read_count, cleaning.kept_count) == (5, 5, 3)
    assert world.records() == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert world.log.log_end_offset == 6
    assert [segment.base_offset for segment in world.log.segments] == [0, 5], "two small ones became one"


def test_reads_go_on_over_the_gaps(world: World) -> None:
    for index in range(10):
        world.produce(("a", str(index)), roll=True)
    world.clean()
    for offset in range(10):
        slice = world.log.read(offset, max_bytes=1000)
        assert slice is not None
        (record,) = read(slice.read()[: 12 + int.from_bytes(slice.read()[8:12], "big")])
        assert record.offset >= offset or offset == 9


def test_the_active_segment_is_never_cleaned(world: World) -> None:
    world.produce(("a", "1"))
    world.produce(("a", "2"))
    assert world.cleaner.cleanable(NOW) == []
    world.clean()
    assert len(world.records()) == 2


def test_a_log_is_due_when_its_dirty_share_is_above_the_ratio(world: World) -> None:
    world.produce(("a", "1" * 1000), roll=True)
    assert [due.log for due in world.cleaner.cleanable(NOW)] == [world.log]
    world.clean()
    assert world.cleaner.cleanable(NOW) == []
    world.produce(("b", "1" * 100), roll=True)
    assert world.cleaner.cleanable(NOW) == []
    assert 0 < world.cleaner.max_dirty_ratio < 0.5
    world.configure(min_cleanable_dirty_ratio="0.01")
    assert len(world.cleaner.cleanable(NOW)) == 1


def test_a_log_is_due_when_the_longest_lag_has_passed(world: World) -> None:
    world.configure(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms=str(HOUR_MS))
    world.produce(("a", "1"), roll=True)
    assert world.cleaner.cleanable(NOW + HOUR_MS) == []
    (due,) = world.cleaner.cleanable(NOW + HOUR_MS + 5)
    assert due.compaction_delay_ms == 5


def test_records_younger_than_the_least_lag_stay(world: World) -> None:
    world.configure(min_compaction_lag_ms=str(HOUR_MS))
    world.produce(("a", "1"), roll=True)
    world.timestamp += HOUR_MS
    world.produce(("a", "2"), roll=True)
    world.produce(("a", "3"), roll=True)
    world.timestamp += 1
    world.clean()
    assert len(world.records()) == 3, "only the first segment was old enough, and nothing there is superseded by it"
    assert world.cleaner.cleaned_offset(world.log) == 1
    world.timestamp += HOUR_MS
    world.clean()
    assert world.records() == [(2, "a", "3")]


def test_nothing_from_an_open_transaction_on_is_cleaned(world: World) -> None:
    world.produce(("a", "1"), ("a", "2"), roll=True)
    world.produce(("a", "3"), producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True, roll=True)
    world.produce(("a", "4"), roll=True)
    cleaning = world.clean()
    assert cleaning is not None and cleaning.end_offset == 2
    assert world.records() == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]


def test_nothing_above_the_high_watermark_is_cleaned(world: World) -> None:
    world.produce(("a", "1"), roll=True)
    world.produce(("a", "2"), roll=True)
    world.log.advance_high_watermark(1)
    world.clean()
    assert len(world.records()) == 2


def test_tombstones_stay_for_delete_retention_after_the_cleaner_first_kept_them(world: World) -> None:
    world.produce(("a", "1"), ("b", "1"), roll=True)
    world.produce(("a", None), ("c", "1"), roll=True)
    world.timestamp += 10 * DAY_MS
    world.clean()
    assert world.records() == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    assert world.batches()[1][0].delete_horizon == world.timestamp + DAY_MS
    assert world.batches()[1][1][0].timestamp == NOW
    world.timestamp += DAY_MS - 1
    world.produce(("d", "1"), roll=True)
    world.clean()
    assert (2, "a", None) in world.records()
    world.timestamp += 1
    world.produce(("e", "1"), roll=True)
    world.clean()
    assert world.records() == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1"), (5, "e", "1")]


def transactional(producer_id: int, sequence: int) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": sequence,
        "is_transactional": True,
    }


def test_records_of_aborted_transactions_go_and_their_keys_do_not_count(world: World) -> None:
    world.produce(("a", "1"), ("b", "1"))
    world.produce(("a", "aborted"), **transactional(9, 0))
    world.end_transaction(9, is_commit=False, roll=True)
    world.produce(("b", "2"), **transactional(9, 1))
    world.end_transaction(9, is_commit=True, roll=True)
    world.clean()
    assert world.records() == [(0, "a", "1"), (4, "b", "2")]
    assert len(world.log.aborted_transactions(0, 100)) == 1, "this round still met its batch"
    world.log.producers.clear(world.log.log_end_offset)
    world.produce(("c", "0"), roll=True)
    world.clean()
    assert world.log.aborted_transactions(0, 100) == []
    assert world.markers() == [3, 5]
    world.produce(("c", "1"), roll=True)
    world.timestamp += DAY_MS
    world.clean()
    assert world.records() == [(0, "a", "1"), (4, "b", "2"), (7, "c", "1")]
    assert world.markers() == [5], "the abort's marker has had its time; the commit's still has its record"


def test_a_marker_stays_until_its_records_are_gone_and_then_for_delete_retention(world: World) -> None:
    world.produce(("a", "1"), **transactional(9, 0))
    world.end_transaction(9, is_commit=True, roll=True)
    world.clean()
    world.log.producers.clear(world.log.log_end_offset)
    assert world.markers() == [1]
    world.produce(("a", "2"), roll=True)
    world.clean()
    assert world.records() == [(2, "a", "2")] and world.markers() == [1]
    marker = next(header for header, _ in world.batches() if header.is_control)
    assert marker.delete_horizon is None, "in this round the record was still met"
    world.produce(("b", "1"), roll=True)
    world.clean()
    marker = next(header for header, _ in world.batches() if header.is_control)
    assert marker.delete_horizon == world.timestamp + DAY_MS
    segment = world.log.segments[0]
    (batch,) = [bytes(batch) for _, header, batch in segment.batches() if header.is_control]
    assert read_end_txn_marker(batch).coordinator_epoch == 0
    world.timestamp += DAY_MS
    world.produce(("b", "2"), roll=True)
    world.clean()
    assert world.markers() == []


def test_an_aborted_transaction_with_batches_left_keeps_its_index_entry(world: World) -> None:
    """The last batch of an active producer is kept, empty, so that its sequence is; the marker is needed, too."""
    world.produce(("a", "x"), **transactional(9, 0))
    world.produce(("a", "y"), **transactional(9, 1))
    world.end_transaction(9, is_commit=False, roll=True)
    world.clean()
    assert world.records() == []
    assert [(header.base_offset, header.count) for header, _ in world.batches()] == [(1, 0), (2, 1)]
    (aborted,) = world.log.aborted_transactions(0, 100)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (9, 0, 2)


def test_a_producers_last_sequence_survives(world: World) -> None:
    world.produce(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    world.produce(("a", "2"), producer_id=7, producer_epoch=0, base_sequence=1, roll=True)
    world.produce(("a", "3"), roll=True)
    world.clean()
    assert world.records() == [(2, "a", "3")]
    assert [(h.producer_id, h.last_sequence, h.count) for h, _ in world.batches()] == [(7, 1, 0), (-1, -1, 1)]
    world.log.producers.clear(world.log.log_end_offset)
    world.produce(("b", "1"), roll=True)
    world.clean()
    assert [h.producer_id for h, _ in world.batches()] == [-1, -1]


def test_the_last_batch_below_the_uncleanable_part_stays_for_its_offset(world: World) -> None:
    world.produce(("a", "1"), roll=True)
    world.produce(("a", None), roll=True)
    world.clean()
    world.timestamp += DAY_MS
    world.configure(min_cleanable_dirty_ratio="0.0")
    cleaning = world.clean()
    assert cleaning is not None
    assert world.log.log_end_offset == 2


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batches_stay_compressed(world: World, codec: Compression) -> None:
    world.produce(*[(f"k{index % 7}", "v" * 50 + str(index)) for index in range(100)], compression=codec, roll=True)
    world.clean()
    ((header, records),) = world.batches()
    assert header.compression is codec
    assert [record.offset for record in records] == list(range(93, 100)) and header.last_offset == 99


def test_a_small_map_takes_several_rounds(tmp_path: Path) -> None:
    world = World(tmp_path)
    object.__setattr__(world.config, "log_cleaner_dedupe_buffer_size", 24 * 100)
    for batch in range(20):
        world.produce(*[(f"k{(batch * 40 + index) % 300}", str(batch)) for index in range(40)], roll=True)
    world.configure(min_cleanable_dirty_ratio="0.0")
    rounds = 0
    while world.cleaner.cleanable(NOW):
        cleaning = world.clean()
        assert cleaning is not None and cleaning.end_offset > cleaning.start_offset
        assert cleaning.map_utilization <= 0.9
        rounds += 1
        assert [offset for offset, *_ in world.records()] == sorted(offset for offset, *_ in world.records())
    assert rounds > 3
    assert len(world.records()) == 300
    assert len({key for _, key, _ in world.records()}) == 300


def test_a_batch_with_more_keys_than_the_map_makes_the_log_uncleanable(tmp_path: Path) -> None:
    world = World(tmp_path)
    object.__setattr__(world.config, "log_cleaner_dedupe_buffer_size", 24 * 10)
    world.produce(*[(str(index), "v") for index in range(40)], roll=True)
    assert world.clean() is None
    assert ("topic", 0) in world.cleaner.uncleanable
    assert world.cleaner.cleanable(NOW) == []


def test_a_corrupt_log_is_marked_and_left_alone(world: World) -> None:
    world.produce(("a", "1"), roll=True)
    world.produce(("a", "2"), roll=True)
    path = Path(world.log.segments[1].path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    before = world.names()
    assert world.clean() is None
    assert "CRC" in world.cleaner.uncleanable["topic", 0]
    assert world.names() == before and world.cleaner.cleanable(NOW) == []
    world.cleaner.forget("topic", 0)
    assert len(world.cleaner.cleanable(NOW)) == 1


def test_a_torn_segment_is_marked_and_left_alone(world: World) -> None:
    world.produce(("a", "1"), roll=True)
    path = Path(world.log.segments[0].path)
    path.write_bytes(path.read_bytes()[:-1])
    assert world.clean() is None
    assert world.cleaner.uncleanable


def test_where_cleaning_ended_is_remembered_over_a_restart(world: World, tmp_path: Path) -> None:
    world.produce(("a", "1"), ("a", "2"), roll=True)
    world.clean()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\ntopic 0 2\n"
    world.logs.close_now()
    world.open()
    assert world.cleaner.cleaned_offset(world.log) == 2
    assert world.cleaner.cleanable(NOW) == []


def test_a_topic_made_anew_under_the_same_name_is_dirty(world: World) -> None:
    world.produce(("a", "1"), ("a", "2"), roll=True)
    world.clean()
    world.logs.delete("topic", 0)
    world.log = world.logs.create("topic", 0, bytes(16), TopicConfig.parse(world.topic, world.config))
    world.produce(("a", "1"), ("a", "2"), ("a", "3"), roll=True)
    assert world.cleaner.cleaned_offset(world.log) == 0


def test_a_checkpoint_that_cannot_be_is_the_logs_start(world: World, tmp_path: Path) -> None:
    world.produce(("a", "1"), roll=True)
    world.logs.close_now()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ntopic 0 99\n")
    world.open()
    assert world.cleaner.cleaned_offset(world.log) == 0


def test_a_truncated_log_is_dirty_from_there_on(world: World) -> None:
    for value in "123":
        world.produce(("a", value), roll=True)
    world.clean()
    world.log.truncate(1, timestamp=NOW)
    world.cleaner.truncated(world.log)
    assert world.cleaner.cleaned_offset(world.log) == 1


@pytest.mark.parametrize("change", ["truncate", "delete", "offline", "policy", "remove"])
def test_a_log_that_changes_between_two_steps_is_left_as_it_is(
    world: World, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "PIECE_BYTES", 1)
    changes: dict[str, Callable[[], Any]] = {
        "truncate": lambda: world.log.truncate(5, timestamp=NOW),
        "delete": lambda: world.logs.delete("topic", 0),
        "offline": lambda: setattr(world.log, "is_offline", True),
        "policy": lambda: world.configure(cleanup_policy="delete"),
        "remove": lambda: world.log.remove_segments(3, timestamp=NOW),
    }
    for value in range(6):
        world.produce(("a", str(value)), roll=True)
    for step_count in range(40):
        steps = world.cleaner.clean(world.log, NOW)
        for _ in range(step_count):
            step = next(steps, None)
            if step is not None:
                asyncio.run(step)  # type: ignore[arg-type]
        if world.cleaner.cleaned_offset(world.log):
            return
        if step_count == (9 if change != "remove" else 17):
            changes[change]()
            assert drive(steps) is None
            assert not any(".cleaned" in name for name in (world.names() if change != "delete" else []))
            assert not world.cleaner.uncleanable
            return
        steps.close()
        assert not any(".cleaned" in name for name in world.names())
    raise AssertionError("the cleaning was over before the change")


def test_a_compacted_and_deleted_topic_loses_old_segments_but_not_while_it_is_cleaned(world: World) -> None:
    world.configure(cleanup_policy="compact,delete", retention_ms=str(HOUR_MS))
    world.produce(("a", "1"), roll=True)
    world.produce(("b", "1"), roll=True)
    steps = world.cleaner.clean(world.log, NOW)
    next(steps)
    assert world.cleaner.retain(NOW + DAY_MS) == 0
    drive(steps)
    assert world.cleaner.retain(NOW) == 0
    assert world.cleaner.retain(NOW + DAY_MS) == 1
    assert world.log.log_start_offset == 2 and world.records() == []


def test_run_cleans_every_log_that_is_due(world: World) -> None:
    other = world.logs.create("other", 3, bytes(16), TopicConfig.parse(world.topic, world.config))
    for value in "12":
        world.produce(("a", value), roll=True)
        other.append(build([world.record("b", value)]), leader_epoch=0, timestamp=NOW)
        other.advance_high_watermark(other.log_end_offset)
        other.roll(timestamp=NOW)
    assert asyncio.run(world.cleaner.run(NOW)) == 2
    assert world.records() == [(1, "a", "2")]
    assert asyncio.run(world.cleaner.run(NOW)) == 0


def test_a_large_map_is_given_back_by_a_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_LARGE_MAP_BYTES", 0)
    for value in "12":
        world.produce(("a", value), roll=True)
    assert asyncio.run(world.cleaner.run(NOW)) == 1
    assert world.records() == [(1, "a", "2")]


def test_cold_segments_are_read_by_a_thread_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in "12":
        world.produce(("a", value), roll=True)
    file_type = type(world.log.segments[0].file)
    monkeypatch.setattr(file_type, "is_cached", lambda *_: False)
    assert asyncio.run(world.cleaner.run(NOW)) == 1
    assert world.records() == [(1, "a", "2")]


def test_a_cancelled_run_leaves_nothing_behind(world: World) -> None:
    for value in "12":
        world.produce(("a", value), roll=True)

    async def cancel() -> None:
        task = asyncio.ensure_future(world.cleaner.run(NOW))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert not any(".cleaned" in name for name in world.names())
    assert asyncio.run(world.cleaner.run(NOW)) == 1


def test_run_keeps_to_the_limit_of_bytes_per_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, log_cleaner_io_max_bytes_per_second="1000")
    world.produce(("a", "1" * 500), roll=True)
    pauses: list[float] = []
    pause = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await pause(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    asyncio.run(world.cleaner.run(NOW))
    assert max(pauses) > 0.3


def test_segments_are_grouped_up_to_the_size_of_one(world: World) -> None:
    for _ in range(6):
        world.produce(("a", "v" * 100), roll=True)
    segments = world.log.segments[:-1]
    size = segments[0].size

    def sizes(**limits: int) -> list[int]:
        arguments = {"max_bytes": 10**9, "max_index_bytes": 10**6, "first_uncleanable_offset": 6} | limits
        return [len(group) for group in group_segments(segments, *arguments.values())]

    assert sizes() == [6]
    assert sizes(max_bytes=2 * size) == [2, 2, 2]
    assert sizes(max_bytes=size - 1) == [1] * 6
    assert sizes(max_index_bytes=24) == [2, 2, 2], "each has one entry in its time index"
    assert sizes(first_uncleanable_offset=2**31 + 1) == [5, 1], "offsets of a segment fit 31 bits"
    assert group_segments([], 1, 1, 1) == []


class Crash(BaseException):
    """The process is killed: nothing catches it."""


class BrittleDisk(OsDisk):
    """Fails or dies at its n-th change of anything."""

    def __init__(self, fuse: int = -1, trouble: Callable[[], BaseException] = Crash) -> None:
        super().__init__()
        self.fuse = fuse
        self.trouble = trouble

    def burn(self) -> None:
        if self.fuse == 0:
            raise self.trouble()
        self.fuse -= 1

    def open(self, path: str, *, create: bool = False) -> Any:
        if create:
            self.burn()
        file = super().open(path, create=create)
        return BrittleFile(self, file)

    def rename(self, source: str, target: str) -> None:
        self.burn()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.burn()
        super().remove(path)


class BrittleFile:
    def __init__(self, disk: BrittleDisk, file: Any) -> None:
        self.disk = disk
        self.file = file

    def write(self, position: int, data: Any) -> None:
        self.disk.burn()
        self.file.write(position, data)

    def truncate(self, size: int) -> None:
        self.disk.burn()
        self.file.truncate(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def fill(world: World) -> None:
    for round_ in range(4):
        world.produce(*[(f"k{index}", f"{round_}.{index}") for index in range(5)], roll=True)
        world.produce((f"k{round_}", None), **transactional(9, round_))
        world.end_transaction(9, is_commit=round_ % 2 == 0, roll=True)


def latest(records: Iterable[tuple[int, str, str | None]], aborted: set[int]) -> dict[str, str | None]:
    return {key: value for offset, key, value in records if offset not in aborted}


def test_a_kill_at_any_point_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Every write, rename, creation and removal of a cleaning is the last one once."""
    whole = World(tmp_path / "whole")
    fill(whole)
    before = whole.records()
    aborted = {offset for offset, _, value in before if value is None and (offset // 7) % 2 == 1}
    expected = latest(before, aborted)
    points = 0
    while True:
        disk = BrittleDisk()
        world = World(tmp_path / str(points), disk=disk)
        fill(world)
        world.log.flush_now()
        world.logs.checkpoint()
        world.log.config = TopicConfig(cleanup_policy=("compact",), segment_bytes=600, delete_retention_ms=DAY_MS)
        disk.fuse = points
        is_killed = False
        try:
            world.clean()
        except Crash:
            is_killed = True
        end_offset = world.log.log_end_offset
        for log_dir in world.logs.log_dirs:
            assert log_dir.release is not None
            log_dir.release()
        world.disk = OsDisk()
        world.open()
        assert world.log.log_end_offset == end_offset
        assert not any(name.endswith((".cleaned", ".swap")) for name in world.names())
        records = world.records()
        offsets = [offset for offset, *_ in records]
        assert offsets == sorted(set(offsets))
        assert latest(records, aborted) == expected, f"at point {points}"
        world.clean()
        assert latest(world.records(), aborted) == expected
        for log_dir in world.logs.log_dirs:
            assert log_dir.release is not None
            log_dir.release()
        if not is_killed:
            break
        points += 1
    assert points > 60, "several groups of segments were replaced"


def test_a_full_disk_ends_the_cleaning_and_nothing_else(tmp_path: Path) -> None:
    disk = BrittleDisk(trouble=lambda: OSError(errno.ENOSPC, "no room"))
    world = World(tmp_path, disk=disk)
    for value in range(3):
        world.produce(("a", str(value)), roll=True)
    disk.fuse = 1
    assert world.clean() is None
    disk.fuse = -1
    assert not world.cleaner.uncleanable and not world.log.is_offline
    assert not any(".cleaned" in name for name in world.names()) or world.clean() is not None
    world.clean()
    assert world.records() == [(2, "a", "2")]


def test_cleaning_at_random_keeps_the_latest_of_every_key(tmp_path: Path) -> None:
    """Against a model, over many rounds with tombstones, transactions, codecs, map sizes and restarts."""
    cleaned = 0
    for seed in range(8):
        rng = Random(seed)
        world = World(tmp_path / str(seed), topic={"delete.retention.ms": "500"})
        history: list[tuple[str, str | None, int]] = []  # in offset order: key, value, number of its transaction
        decided: dict[int, bool] = {0: True}
        ongoing: dict[int, int] = {}
        sequences = dict.fromkeys(range(3), 0)
        for step in range(1, 200):
            world.timestamp += rng.randrange(100)
            producer_id = rng.randrange(3)
            records = [
                (f"k{rng.randrange(12)}", rng.choice([None, f"{step}.{index}", f"{step}.{index}"]))
                for index in range(rng.randrange(1, 6))
            ]
            codec = rng.choice(list(Compression))
            kind = rng.random()
            if kind < 0.35:
                world.produce(*records, compression=codec)
                history += [(*record, 0) for record in records]
            elif kind < 0.55:
                world.produce(*records, compression=codec, **transactional(producer_id, sequences[producer_id]))
                sequences[producer_id] += len(records)
                number = ongoing.setdefault(producer_id, step)
                history += [(*record, number) for record in records]
            elif kind < 0.75:
                if producer_id in ongoing:
                    is_commit = decided[ongoing.pop(producer_id)] = rng.random() < 0.5
                    world.end_transaction(producer_id, is_commit=is_commit)
            elif kind < 0.88:
                world.roll()
            else:
                object.__setattr__(world.config, "log_cleaner_dedupe_buffer_size", 24 * rng.choice([7, 9, 20, 1000]))
                cleaning = world.clean()
                assert not world.cleaner.uncleanable and cleaning is not None
                cleaned += cleaning.read_count - cleaning.kept_count
                if rng.random() < 0.2:
                    world.logs.close_now()
                    world.open()
        for producer_id in list(ongoing):
            decided[ongoing.pop(producer_id)] = True
            world.end_transaction(producer_id, is_commit=True)
        expected = {key: value for key, value, number in history if decided[number]}
        found = committed(world)
        assert {key: value for key, value in found.items() if value} == {
            key: value for key, value in expected.items() if value
        }
        assert all(expected[key] is None for key, value in found.items() if value is None)
    assert cleaned > 200


def committed(world: World) -> dict[str, str | None]:
    """What read_committed sees, by key, in offset order."""
    log = world.log
    aborted = log.aborted_transactions(0, log.log_end_offset)
    state: dict[str, str | None] = {}
    last_offset = -1
    for header, records in world.batches():
        assert header.base_offset > last_offset
        last_offset = header.last_offset
        if header.is_control or header.last_offset >= log.last_stable_offset:
            continue
        if header.is_transactional and any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        ):
            continue
        for record in records:
            state[(record.key or b"").decode()] = None if record.value is None else record.value.decode()
    return state


def test_the_indexes_of_a_cleaned_segment_fit_it(world: World) -> None:
    world.configure(index_interval_bytes="200")
    for value in range(60):
        world.timestamp += 7
        world.produce((f"k{value % 40}", str(value) * 30), roll=value % 10 == 9)
    world.clean()
    segment: Segment = world.log.segments[0]
    positions = {position: header for position, header, _ in segment.batches()}
    entries = list(segment.offset_index.entries())
    assert len(entries) > 5
    for last_offset, position in entries:
        assert positions[position].last_offset == last_offset
    times = list(segment.time_index.entries())
    assert times[-1] == (max(h.max_timestamp for h in positions.values()), segment.offset_of_max_timestamp)
    for offset in range(world.log.log_end_offset):
        position = segment.locate(offset)
        if position >= 0:
            assert positions[position].last_offset >= offset
    assert all(crc_ok(Path(segment.path).read_bytes(), p, h.size) for p, h in positions.items())


def test_the_result_is_that_of_kafkas_own_cleaner(tmp_path: Path) -> None:
    """Byte for byte, but for what the compressors of two libraries make of the same records."""
    recorded = json.loads(Path(__file__).with_name("kafka_cleaned.json").read_text())
    folder = tmp_path / "topic-0"
    folder.mkdir()
    for name, content in recorded["before"].items():
        (folder / name).write_bytes(b64decode(content))
    world = World(tmp_path, topic={"index.interval.bytes": "200"})
    world.timestamp = recorded["timestamp"]
    assert len(world.log.segments) == 7 and len(world.log.producers) == 3
    cleaning = world.clean()
    assert cleaning is not None and cleaning.end_offset == 367
    after = {name: b64decode(content) for name, content in recorded["after"].items()}
    theirs = after["00000000000000000000.log"]
    ours = (folder / "00000000000000000000.log").read_bytes()
    expected, found = split(theirs), split(ours)
    assert len(found) == len(expected)
    identical = 0
    for (their_position, their_header), (our_position, our_header) in zip(expected, found, strict=True):
        their_batch = theirs[their_position : their_position + their_header.size]
        our_batch = ours[our_position : our_position + our_header.size]
        if our_batch == their_batch:
            identical += 1
        else:
            assert our_header._replace(length=0, crc=0) == their_header._replace(length=0, crc=0)
            assert our_header.is_compressed and read(our_batch) == read(their_batch)
    assert identical >= len(expected) - 2
    for name in ("00000000000000000000.txnindex", "00000000000000000000.timeindex"):
        assert (folder / name).read_bytes() == after[name]
