"""The metadata log on disk."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.metadata.data_folder import DataFolderError
from ottla.broker.metadata.log import FOLDER, MetadataLog
from ottla.broker.metadata.quorum import Quorum
from ottla.broker.metadata.snapshots import SnapshotId, decode_snapshot, encode_snapshot
from ottla.cluster import ClusterImage
from ottla.config import BrokerConfig
from ottla.raft import Voter, Voters
from ottla.records import ControlType, control_type, crc_ok, read, split
from ottla.storage import OsDisk
from ottla.wire import Message
from ottla.wire.messages.records.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.topic_record import TopicRecord

KAFKAS_FOLDER = Path(__file__).parent / "kafka-4.3.1"
LOG = "00000000000000000000.log"


def alone(*_: Any, **__: Any) -> None:
    raise AssertionError("a quorum of one sends no requests")


class Started:
    """A metadata log, the image of what it holds, and a quorum of one that leads it."""

    def __init__(self, folder: Path, disk: Any = None, timestamp: int = 1_000, **settings: str) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.timestamp = timestamp
        self.folder = folder / FOLDER
        self.config = BrokerConfig.parse(properties)
        self.log = MetadataLog(
            OsDisk() if disk is None else disk,
            self.config,
            clock=lambda: self.timestamp,
            rng=Random(7),
        )
        self.committed_image = self.log.load()
        self.committed: list[Message] = []
        self.applied_offset = -1
        self.quorum: Quorum

    @property
    def image(self) -> ClusterImage:
        """What is committed, and what would be if this replica's log were."""
        image = self.committed_image.copy()
        for written in self.log._uncommitted.written:
            image.apply(written.records)
        return image

    async def lead(self) -> None:
        self.quorum = Quorum(self.log, self.config, send=alone, rng=Random(8))
        self.quorum.on_commit = self._commit
        self.quorum.start()
        await self.quorum.caught_up()
        self.committed.clear()

    def _commit(self, records: Sequence[Message], end_offset: int) -> None:
        self.committed += records
        self.committed_image.apply(records)
        self.applied_offset = end_offset

    async def append(self, *records: Message, is_atomic: bool = True) -> int:
        return await self.quorum.append(records, is_atomic=is_atomic)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def use(folder: Path, *records: Message, **settings: str) -> ClusterImage:
    """Start on a folder, write records one after the other, stop."""

    async def session() -> ClusterImage:
        started = Started(folder, None, 1_000, **settings)
        await started.lead()
        for record in records:
            await started.append(record)
        await started.quorum.close()
        return started.image

    image: ClusterImage = run(session())
    return image


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"topic-{number}", topic_id=number.to_bytes(16, "big"))


LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_an_empty_folder_is_formatted_as_kafka_does(tmp_path: Path) -> None:
    use(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FOLDER, "bootstrap.checkpoint", "meta.properties"]
    names = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert names == [
        "00000000000000000000.index",
        LOG,
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",  # of producers, which this log has none of: Kafka leaves one at a clean stop
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
    ]
    kafkas = decode_snapshot((KAFKAS_FOLDER / "bootstrap.checkpoint").read_bytes())
    assert decode_snapshot((tmp_path / "bootstrap.checkpoint").read_bytes()) == kafkas
    theirs = KAFKAS_FOLDER / FOLDER
    assert (tmp_path / FOLDER / "partition.metadata").read_bytes() == (theirs / "partition.metadata").read_bytes()
    expected = (theirs / "quorum-state").read_text().replace('"leaderEpoch":2', '"leaderEpoch":1')
    assert (tmp_path / FOLDER / "quorum-state").read_text() == expected
    first = (tmp_path / FOLDER / LOG).read_bytes()
    kafka_first = (theirs / LOG).read_bytes()[:91]
    assert control_type(first) is ControlType.LEADER_CHANGE
    assert read(first)[0].value == read(kafka_first)[0].value


def test_bootstrap_records_are_read_from_the_folder(tmp_path: Path) -> None:
    started = Started(tmp_path)
    assert next(getattr(record, "name", "") for record in started.log.bootstrap_records()) == "metadata.version"
    assert started.log.is_empty
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"damaged")
    with pytest.raises(DataFolderError, match=r"bootstrap\.checkpoint"):
        started.log.bootstrap_records()


def test_a_snapshot_that_the_leader_sent_meanwhile_replaces_ones_own(tmp_path: Path) -> None:
    """Found by a seed: one's own, begun before and ended after, took away the log that begins where that one ends."""
    use(tmp_path / "leader", LEVEL, *map(topic, range(1, 9)))

    async def scenario() -> None:
        leader = Started(tmp_path / "leader")
        await leader.lead()
        sent = await leader.log.snapshot(leader.image)
        assert sent is not None
        follower = Started(tmp_path / "follower")
        await follower.lead()
        await follower.append(LEVEL)
        writing = asyncio.create_task(follower.log.snapshot(follower.image))
        await asyncio.sleep(0)
        follower.log.write_snapshot(sent, 0, leader.log.read_snapshot(sent, 0, 1_000_000)[1])
        follower.log.install_snapshot(sent)
        assert await writing is None
        assert follower.log.latest_snapshot == sent
        assert follower.log.start_offset == follower.log.end_offset == sent.end_offset
        names = sorted(path.name for path in follower.folder.iterdir())
        assert f"{sent.end_offset:020d}.log" in names
        assert [name for name in names if "checkpoint" in name] == [sent.name, "leader-epoch-checkpoint"]

    run(scenario())


def test_what_the_quorum_writes_for_itself_counts_as_applied(tmp_path: Path) -> None:
    """Found by a seed: a voter that loaded a snapshot had applied more than the voters that wrote its records."""
    use(tmp_path, LEVEL, topic(1))
    started = Started(tmp_path)
    run(started.lead())
    assert started.applied_offset == started.log.high_watermark == started.log.end_offset == 4


def test_what_was_written_is_there_after_a_restart_in_a_new_epoch(tmp_path: Path) -> None:
    use(tmp_path, LEVEL, topic(1))
    use(tmp_path, topic(2))
    started = Started(tmp_path)
    assert list(started.image.topics_by_name) == ["topic-1", "topic-2"]
    assert started.log.state.leader_epoch == 2
    assert started.log.end_offset == 5
    run(started.lead())
    assert (started.log.state.leader_epoch, started.log.high_watermark) == (3, 6)
    text = (tmp_path / FOLDER / "leader-epoch-checkpoint").read_text()
    assert text == "0\n3\n1 0\n2 3\n3 5\n"


def test_a_folder_that_kafka_wrote_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(KAFKAS_FOLDER, folder)
    started = Started(folder)
    image = started.image
    assert {name: len(found.partitions) for name, found in image.topics_by_name.items()} == {"beta": 32}
    assert image.client_quotas == {
        (("client-id", None), ("user", "u1")): {"consumer_byte_rate": 2048.0, "producer_byte_rate": 1024.0}
    }
    assert image.configs == {(4, ""): {"log.cleaner.threads": "2", "min.insync.replicas": "1"}}
    assert list(image.scram) == [("bob", 1)]
    assert image.brokers[1].epoch == 91
    assert (started.log.cluster_id, started.log.end_offset, started.log.state.leader_epoch) == (
        "AAAAAAAAAAAAAAAAAAAAAQ",
        131,
        2,
    )
    without_snapshot = tmp_path / "other"
    shutil.copytree(KAFKAS_FOLDER, without_snapshot)
    (without_snapshot / FOLDER / "00000000000000000120-0000000002.checkpoint").unlink()
    again = Started(without_snapshot).image
    assert again.topics_by_name == image.topics_by_name and again.configs == image.configs


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data + b"\x00" * 200,
        lambda data: data + data[:50],
        lambda data: data[:-1],
        lambda data: data[:-40] + bytes(40),
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data + data,
    ],
)
def test_a_torn_tail_is_cut_off(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    use(tmp_path, LEVEL, topic(1), topic(2))
    path = tmp_path / FOLDER / LOG
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    image = use(tmp_path, topic(3))
    kept = "topic-2" in image.topics_by_name
    assert kept == damage(whole).startswith(whole)
    data = path.read_bytes()
    offsets = []
    for position, header in split(data):
        assert crc_ok(data, position, header.size)
        offsets.append(header.base_offset)
    assert offsets == list(range(6 if kept else 5))
    assert list(Started(tmp_path).image.topics_by_name) == list(image.topics_by_name)


def test_appends_keep_their_order_and_share_a_sync(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def session() -> None:
        started = Started(tmp_path, disk)
        await started.lead()
        await started.append(LEVEL)
        disk.sync_count = 0
        told: list[int] = []
        waiting = []
        for number in range(50):
            durable = started.quorum.append([topic(number)])
            durable.add_done_callback(lambda done: told.append(done.result()))
            waiting.append(durable)
        assert started.committed == [LEVEL]
        await asyncio.gather(*waiting)
        assert [getattr(record, "name", "") for record in started.committed[1:]] == [f"topic-{n}" for n in range(50)]
        assert told == list(range(3, 53))
        assert disk.sync_count <= 2
        await started.quorum.close()

    run(session())


def test_records_are_acknowledged_only_after_the_sync_that_covers_them(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def session() -> None:
        started = Started(tmp_path, disk)
        await started.lead()
        await started.append(LEVEL)
        disk.gate = asyncio.Event()
        first = started.quorum.append([topic(1)])
        await asyncio.sleep(0)
        second = started.quorum.append([topic(2)])
        await asyncio.sleep(0)
        assert not first.done() and started.committed == [LEVEL]
        disk.gate.set()
        assert await first == 3
        assert started.log.high_watermark == 3 and not second.done()
        assert await second == 4
        await started.quorum.close()

    run(session())


def test_a_full_disk_refuses_and_then_goes_on(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def session() -> None:
        started = Started(tmp_path, disk)
        await started.lead()
        await started.append(LEVEL)
        disk.is_full = True
        with pytest.raises(OSError, match="No space"):
            started.quorum.append([topic(1)])
        disk.is_full = False
        assert await started.append(topic(2)) == 3
        await started.quorum.close()

    run(session())
    assert list(Started(tmp_path).image.topics_by_name) == ["topic-2"]


def test_a_sync_that_fails_ends_the_log(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def session() -> None:
        started = Started(tmp_path, disk)
        await started.lead()
        await started.append(LEVEL)
        disk.is_failing = True
        with pytest.raises(OSError, match="Input/output"):
            await started.append(topic(1))
        assert started.committed == [LEVEL]
        with pytest.raises(OSError, match="Input/output"):
            started.quorum.append([topic(2)])

    run(session())


def test_more_records_than_a_batch_holds_go_into_a_transaction(tmp_path: Path) -> None:
    many = [ConfigRecord(resource_type=4, resource_name="", name=f"key-{n}", value="1") for n in range(10_001)]

    async def session() -> None:
        started = Started(tmp_path)
        await started.lead()
        await started.append(LEVEL)
        assert await started.quorum.append(many) == 2 + 10_003
        assert await started.quorum.append(many, is_atomic=False) == 2 + 10_003 + 10_001
        await started.quorum.close()

    run(session())
    data = (tmp_path / FOLDER / LOG).read_bytes()
    assert [header.count for _, header in split(data)] == [1, 1, 10_000, 3, 10_000, 1]
    image = Started(tmp_path).image
    assert len(image.configs[4, ""]) == 10_001


def test_a_transaction_that_was_cut_off_is_still_open_after_the_restart(tmp_path: Path) -> None:
    use(tmp_path, LEVEL, BeginTransactionRecord(name="cut"), topic(1))
    image = Started(tmp_path).image
    assert image.is_in_transaction and image.topics_by_name == {}
    image = use(tmp_path, EndTransactionRecord())
    assert list(image.topics_by_name) == ["topic-1"]


def snapshots(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / FOLDER).iterdir() if "checkpoint" in path.suffix)


async def session_with_snapshots(folder: Path, count: int, **settings: str) -> Started:
    started = Started(folder, None, 1_000, **settings)
    await started.lead()
    await started.append(LEVEL)
    for number in range(count):
        await started.append(topic(number))
        assert await started.log.snapshot(started.image) is not None
    await started.quorum.close()
    return started


def test_a_snapshot_replaces_the_log_before_it(tmp_path: Path) -> None:
    run(session_with_snapshots(tmp_path, 2))
    assert snapshots(tmp_path) == [
        "00000000000000000003-0000000001.checkpoint",
        "00000000000000000004-0000000001.checkpoint",
    ]
    assert not (tmp_path / FOLDER / LOG).exists()
    assert list(Started(tmp_path).image.topics_by_name) == ["topic-0", "topic-1"]
    image = use(tmp_path, topic(7))
    assert list(image.topics_by_name) == ["topic-0", "topic-1", "topic-7"]


def test_a_snapshot_that_is_damaged_is_passed_over(tmp_path: Path) -> None:
    run(session_with_snapshots(tmp_path, 2))
    latest = tmp_path / FOLDER / snapshots(tmp_path)[-1]
    for damaged in (latest.read_bytes()[:-75], latest.read_bytes()[:200], b""):
        latest.write_bytes(damaged)
        started = Started(tmp_path)
        assert list(started.image.topics_by_name) == ["topic-0", "topic-1"]
        assert started.log.end_offset == 4


def test_a_snapshot_that_was_not_finished_is_removed(tmp_path: Path) -> None:
    use(tmp_path, LEVEL, topic(1))
    part = tmp_path / FOLDER / "00000000000000000003-0000000001.checkpoint.part"
    part.write_bytes(b"half")
    assert list(Started(tmp_path).image.topics_by_name) == ["topic-1"]
    assert not part.exists()


def test_metadata_that_is_lost_stops_the_start(tmp_path: Path) -> None:
    run(session_with_snapshots(tmp_path, 1))
    (tmp_path / FOLDER / snapshots(tmp_path)[0]).unlink()
    with pytest.raises(DataFolderError, match="lost"):
        Started(tmp_path)


def test_a_log_that_ends_before_the_snapshot_begins_anew_behind_it(tmp_path: Path) -> None:
    use(tmp_path, LEVEL, topic(1))
    id = SnapshotId(100, 4)
    batches = encode_snapshot([LEVEL, topic(9)], metadata_version=30, epoch=4, timestamp=1, last_contained_timestamp=1)
    (tmp_path / FOLDER / id.name).write_bytes(b"".join(batches))
    started = Started(tmp_path)
    assert list(started.image.topics_by_name) == ["topic-9"]
    run(started.lead())
    assert (started.log.state.leader_epoch, started.log.high_watermark) == (5, 101)


def test_old_snapshots_go_by_size_and_by_age(tmp_path: Path) -> None:
    run(session_with_snapshots(tmp_path / "size", 5, metadata_max_retention_bytes="1500"))
    assert 1 <= len(snapshots(tmp_path / "size")) < 5
    assert len(Started(tmp_path / "size").image.topics_by_name) == 5

    async def session() -> None:
        started = Started(tmp_path / "age", timestamp=10**15, metadata_max_retention_ms="1000")
        await started.lead()
        await started.append(LEVEL)
        for number in range(3):
            await started.append(topic(number))
            await started.log.snapshot(started.image)
        await started.quorum.close()

    run(session())
    assert snapshots(tmp_path / "age") == ["00000000000000000005-0000000001.checkpoint"]


def test_snapshots_are_due_by_size_and_by_time(tmp_path: Path) -> None:
    async def session() -> None:
        started = Started(
            tmp_path,
            metadata_log_max_record_bytes_between_snapshots="300",
            metadata_log_max_snapshot_interval_ms="5000",
        )
        await started.lead()
        assert not started.log.is_snapshot_due()
        await started.append(LEVEL)
        await started.append(topic(1))
        await started.append(topic(2))
        assert started.log.is_snapshot_due()
        await started.log.snapshot(started.image)
        assert not started.log.is_snapshot_due()
        assert await started.log.snapshot(started.image) is None
        await started.append(topic(3))
        assert not started.log.is_snapshot_due()
        started.timestamp += 5000
        assert started.log.is_snapshot_due()
        await started.quorum.close()

    run(session())


def test_a_snapshot_is_due_before_a_start_becomes_slow(tmp_path: Path) -> None:
    many = [ConfigRecord(resource_type=4, resource_name="", name=f"key-{n}", value="1") for n in range(10_000)]

    async def session() -> None:
        started = Started(tmp_path)
        await started.lead()
        await started.append(LEVEL)
        assert not started.log.is_snapshot_due()
        await started.quorum.append(many, is_atomic=False)
        assert started.log.is_snapshot_due()
        await started.log.snapshot(started.image)
        assert not started.log.is_snapshot_due()
        await started.quorum.close()

    run(session())
    assert not Started(tmp_path).log.is_snapshot_due()


def test_a_fetch_from_the_middle_of_a_large_segment_is_found_through_the_index(tmp_path: Path) -> None:
    disk = CountingDisk()
    count = 5_000

    async def session() -> None:
        started = Started(tmp_path, disk)
        await started.lead()
        await started.append(LEVEL)
        for number in range(count):
            durable = started.quorum.append([topic(number)])
        await durable
        assert (tmp_path / FOLDER / LOG).stat().st_size > 400_000
        for offset in (0, 1, 17, count // 2, count - 1, started.log.end_offset - 1):
            disk.read_count = disk.read_bytes = 0
            found = split(started.log.read(offset, 2_000))
            assert found[0][1].base_offset == offset
            assert sum(header.size for _, header in found) <= 2_000
            assert disk.read_count <= 20 and disk.read_bytes <= 20_000
        assert started.log.read(started.log.end_offset, 2_000) == b""
        # A follower that asks again and again for what is new does not read what it has.
        disk.read_bytes = 0
        for number in range(20):
            end_offset = started.log.end_offset
            assert started.log.read(end_offset, 2_000) == b""
            await started.append(topic(count + number))
            assert [header.base_offset for _, header in split(started.log.read(end_offset, 2_000))] == [end_offset]
        assert disk.read_bytes < 20 * 5_000
        await started.quorum.close()

    run(session())
    started = Started(tmp_path, disk)
    disk.read_count = disk.read_bytes = 0
    assert read(started.log.read(count // 2, 1))[0].offset == count // 2
    assert disk.read_count <= 20 and disk.read_bytes <= 20_000


def test_a_read_gives_whole_batches_and_at_least_one(tmp_path: Path) -> None:
    use(tmp_path, LEVEL, *map(topic, range(30)))
    log = Started(tmp_path).log
    data = (tmp_path / FOLDER / LOG).read_bytes()
    ends = [position + header.size for position, header in split(data)]
    for max_bytes in range(0, len(data) + 10, 7):
        expected = max([end for end in ends if end <= max_bytes], default=ends[0])
        assert log.read(0, max_bytes) == data[:expected]


def test_an_epoch_that_goes_back_ends_the_log(tmp_path: Path) -> None:
    """No CRC covers a batch's epoch: rot there shows only so."""
    use(tmp_path, LEVEL, topic(1))
    use(tmp_path, topic(2), topic(3))
    path = tmp_path / FOLDER / LOG
    data = bytearray(path.read_bytes())
    position = split(data)[-1][0]
    assert data[position + 15] == 2
    data[position + 15] = 1
    path.write_bytes(data)
    started = Started(tmp_path)
    assert list(started.image.topics_by_name) == ["topic-1", "topic-2"]
    assert path.stat().st_size == position
    assert started.log.end_offset == started.log.flushed_offset == 5


def test_a_snapshot_gets_its_name_when_the_log_before_it_is_flushed(tmp_path: Path) -> None:
    """A leader may know that others have what it has not synced itself. Recovery trusts what is before a snapshot."""

    async def session() -> None:
        started = Started(tmp_path)
        await started.lead()
        started.log.append([LEVEL], started.quorum.epoch)
        started.log.append([topic(1)], started.quorum.epoch)
        for written in started.log.commit(started.log.end_offset):
            started.committed_image.apply(written.records)
        assert started.log.flushed_offset == 1
        assert await started.log.snapshot(started.image) == SnapshotId(3, 1)
        assert started.log.flushed_offset == 3

    run(session())


def test_a_disk_that_is_full_for_the_second_batch_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    disk = CountingDisk()
    many = [ConfigRecord(resource_type=4, resource_name="", name=f"key-{n}", value="1") for n in range(10_001)]

    async def session() -> None:
        started = Started(tmp_path, disk)
        await started.lead()
        await started.append(LEVEL)
        size = (tmp_path / FOLDER / LOG).stat().st_size
        disk.room = 200_000
        with pytest.raises(OSError, match="No space"):
            started.quorum.append(many + many)
        disk.room = None
        assert started.log.end_offset == 2 and (tmp_path / FOLDER / LOG).stat().st_size == size
        assert await started.append(topic(1)) == 3
        await started.quorum.close()

    run(session())
    assert list(Started(tmp_path).image.topics_by_name) == ["topic-1"]


def test_a_truncation_is_synced_though_nothing_is_left_to_flush(tmp_path: Path) -> None:
    disk = CountingDisk()

    async def session() -> None:
        started = Started(tmp_path, disk)
        await started.lead()
        started.log.append([LEVEL], 1)
        started.log.append([topic(1)], 1)
        assert await started.log.sync() == 3
        disk.sync_count = 0
        started.log.truncate(2)
        assert (started.log.end_offset, started.log.flushed_offset) == (2, 2)
        assert await started.log.sync() == 2
        assert disk.sync_count == 1
        assert await started.log.sync() == 2
        assert disk.sync_count == 1

    run(session())
    assert list(Started(tmp_path).image.topics_by_name) == []


def test_epochs_before_the_log_are_known_from_the_snapshot(tmp_path: Path) -> None:
    """The leader has the log from a snapshot on. A follower at its end, in its epoch, is not sent back."""
    run(session_with_snapshots(tmp_path, 2, metadata_max_retention_bytes="0"))
    assert (Started(tmp_path).log.start_offset, Started(tmp_path).log.last_epoch) == (4, 1)
    use(tmp_path, topic(7))
    use(tmp_path, topic(8))
    log = Started(tmp_path).log
    assert (log.start_offset, log.end_offset, log.last_epoch) == (4, 8, 3)
    assert [log.end_of_epoch(epoch) for epoch in range(5)] == [(0, 4), (1, 4), (2, 6), (3, 8), (3, 8)]


def test_segments_roll_by_age(tmp_path: Path) -> None:
    async def session() -> None:
        started = Started(tmp_path, metadata_log_segment_ms="60000")
        await started.lead()
        for number in range(4):
            await started.append(topic(number))
            started.timestamp += 40_000
        await started.quorum.close()

    run(session())
    assert sorted(path.name for path in (tmp_path / FOLDER).glob("*.log")) == [LOG, "00000000000000000003.log"]


def test_segments_roll_by_size(tmp_path: Path) -> None:
    use(tmp_path, LEVEL, *map(topic, range(20)), internal_metadata_log_segment_bytes="300")
    logs = sorted((tmp_path / FOLDER).glob("*.log"))
    assert len(logs) > 3
    assert len(Started(tmp_path).image.topics_by_name) == 20
    logs[1].write_bytes(logs[1].read_bytes()[:-1])
    started = Started(tmp_path)
    assert 0 < len(started.image.topics_by_name) < 8
    assert len(sorted((tmp_path / FOLDER).glob("*.log"))) == 2


def test_dynamic_voters_are_kept(tmp_path: Path) -> None:
    use(tmp_path)
    started = Started(tmp_path)
    voters = Voters(1, {1: Voter(1, started.log.directory_id, (("CONTROLLER", "127.0.0.1", 9093),))})
    id = SnapshotId(1, 1)
    batches = encode_snapshot(
        [LEVEL], metadata_version=30, epoch=1, timestamp=1, last_contained_timestamp=1, voters=voters
    )
    (tmp_path / FOLDER / id.name).write_bytes(b"".join(batches))

    async def session() -> None:
        started = Started(tmp_path)
        assert started.log.voters == voters
        await started.lead()
        assert '"data_version":1' in (tmp_path / FOLDER / "quorum-state").read_text()
        await started.append(topic(1))
        latest = await started.log.snapshot(started.image)
        assert latest is not None
        assert decode_snapshot((tmp_path / FOLDER / latest.name).read_bytes()).voters == voters
        await started.quorum.close()

    run(session())


def test_voters_become_dynamic(tmp_path: Path) -> None:
    async def session() -> Voters:
        started = Started(tmp_path)
        await started.lead()
        await started.append(LEVEL)
        await started.quorum.make_voters_dynamic(started.quorum.voters_to_be_dynamic())
        assert await started.append(topic(1)) == 5
        await started.quorum.close()
        return started.log.voters

    voters = run(session())
    assert voters.kraft_version == 1
    started = Started(tmp_path)
    assert started.log.voters == voters
    assert list(started.image.topics_by_name) == ["topic-1"]
    run(started.lead())
    assert '"data_version":1' in (tmp_path / FOLDER / "quorum-state").read_text()


def test_a_damaged_quorum_state_stops_the_start(tmp_path: Path) -> None:
    use(tmp_path)
    (tmp_path / FOLDER / "quorum-state").write_text("{")
    with pytest.raises(DataFolderError, match="quorum-state"):
        Started(tmp_path)


class CountingDisk(OsDisk):
    """A disk that counts syncs and reads, lets syncs wait, and can be full or failing."""

    def __init__(self) -> None:
        super().__init__()
        self.sync_count = 0
        self.gate: asyncio.Event | None = None
        self.is_full = False
        self.room: int | None = None
        """How many bytes can be written yet, if not as many as one likes."""
        self.is_failing = False
        self.read_count = 0
        self.read_bytes = 0

    def open(self, path: str, *, create: bool = False) -> Any:
        return _CountingFile(self, super().open(path, create=create))


class _CountingFile:
    def __init__(self, disk: CountingDisk, file: Any) -> None:
        self._disk = disk
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, position: int, size: int) -> bytes:
        found: bytes = self._file.read(position, size)
        self._disk.read_count += 1
        self._disk.read_bytes += len(found)
        return found

    def write(self, position: int, data: bytes) -> None:
        if self._disk.room is not None:
            self._disk.room -= len(data)
        if self._disk.is_full or (self._disk.room or 0) < 0:
            self._file.write(position, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.write(position, data)

    async def sync(self) -> None:
        self._disk.sync_count += 1
        if self._disk.gate is not None:
            await self._disk.gate.wait()
        if self._disk.is_failing:
            raise OSError(errno.EIO, "Input/output error")
        await self._file.sync()
