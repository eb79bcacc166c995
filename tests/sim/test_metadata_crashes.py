"""kill -9 and power loss at every write of the metadata log: formatting, starting, appending, rolling, snapshots.

The metadata log is synced before anything is answered, so nothing that was acknowledged may ever be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ottla.broker.metadata.data_folder import DataFolderError
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.metadata.quorum import Quorum
from ottla.cluster import ClusterImage
from ottla.config import BrokerConfig
from ottla.sim.machine import Machine, at_every_write
from ottla.wire import Message
from ottla.wire.messages.records.topic_record import TopicRecord

FOLDER = "/data/__cluster_metadata-0"
PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://node-1:9092,CONTROLLER://node-1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@node-1:9093",
    "log.dirs": "/data,/more",
    "internal.metadata.log.segment.bytes": "600",
}


def _no_requests(*_: object, **__: object) -> None:
    raise AssertionError("a quorum of one sends no requests")


class Metadata:
    """The metadata log, the image that follows it, and what was acknowledged."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.acknowledged: list[str] = []
        self.written: list[str] = []
        self.cluster_id = ""
        self.epoch = 0
        self.end_offset = 0
        self.log: MetadataLog
        self.quorum: Quorum
        self.image: ClusterImage

    async def start(self) -> None:
        machine = self.machine
        config = BrokerConfig.parse(PROPERTIES)
        self.log = MetadataLog(machine.disk, config, clock=machine.clock, rng=machine.rng)
        self.image = self.log.load()
        self.quorum = Quorum(self.log, config, send=_no_requests, rng=machine.rng)
        self.quorum.on_commit = self._commit
        self.quorum.start()
        await self.quorum.caught_up()
        if self.log.end_offset == 1:
            records = self.log.bootstrap_records()
            await self.quorum.append(records)

    def _commit(self, records: Sequence[Message], end_offset: int) -> None:
        self.image.apply(records)

    async def create(self, *names: str) -> None:
        """Several at once, as concurrent requests do."""
        batches = [[TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))] for name in names]
        futures = []
        for name, batch in zip(names, batches, strict=True):
            self.written.append(name)
            futures.append(self.quorum.append(batch))
        for name, future in zip(names, futures, strict=True):
            self.end_offset = await future
            self.acknowledged.append(name)

    async def check(self, label: str) -> None:
        """Start on what is left, and go on working."""
        epoch, cluster_id = self.epoch, self.cluster_id
        await self.start()
        topics = list(self.image.topics_by_name)
        assert topics[: len(self.acknowledged)] == self.acknowledged, label
        assert topics == self.written[: len(topics)], label
        assert self.quorum.epoch > epoch, f"{label}: an epoch was used twice"
        assert not cluster_id or self.log.cluster_id == cluster_id, label
        self.epoch, self.cluster_id = self.quorum.epoch, self.log.cluster_id
        self.written = list(topics)
        await self.create(f"more-{epoch}")
        self.acknowledged = [*topics, f"more-{epoch}"]
        await self.log.snapshot(self.image)
        await self.quorum.close()


def started(machine: Machine, topics: int = 0) -> Metadata:
    metadata = Metadata(machine)
    machine.run(metadata.start())
    metadata.epoch, metadata.cluster_id = metadata.quorum.epoch, metadata.log.cluster_id
    for index in range(topics):
        machine.run(metadata.create(f"topic-{index}"))
    return metadata


def verify(machine: Machine, metadata: Metadata, label: str) -> None:
    """Start after the crash; start once more after another kill, and after a clean stop."""
    for _ in range(2):
        metadata.machine = machine
        machine.run(metadata.check(label))
        machine.kill()


def test_formatting_a_folder_survives_a_crash_at_every_write() -> None:
    for label, machine, metadata in at_every_write(Metadata, lambda machine, it: machine.run(it.start())):
        verify(machine, metadata, label)


def test_starting_survives_a_crash_at_every_write() -> None:
    def prepare(machine: Machine) -> Metadata:
        metadata = started(machine, topics=4)
        machine.kill()
        return metadata

    for label, machine, metadata in at_every_write(prepare, lambda machine, it: machine.run(it.start())):
        verify(machine, metadata, label)


def test_appending_and_rolling_survive_a_crash_at_every_write() -> None:
    async def work(metadata: Metadata) -> None:
        for index in range(4):
            await metadata.create(f"a{index}", f"b{index}", f"c{index}")

    for label, machine, metadata in at_every_write(started, lambda machine, it: machine.run(work(it))):
        verify(machine, metadata, label)


def test_a_snapshot_survives_a_crash_at_every_write() -> None:
    async def work(metadata: Metadata) -> None:
        snapshot = asyncio.ensure_future(metadata.log.snapshot(metadata.image))
        await metadata.create("during-the-snapshot")
        await snapshot
        await metadata.create("after-the-snapshot")
        await metadata.log.snapshot(metadata.image)

    def prepare(machine: Machine) -> Metadata:
        return started(machine, topics=12)

    for label, machine, metadata in at_every_write(prepare, lambda machine, it: machine.run(work(it))):
        verify(machine, metadata, label)


def test_what_a_start_found_stays_when_the_power_fails() -> None:
    """A killed process leaves bytes that are in the page cache only. A replica that starts on them tells the others
    that it has them, so they must be on the disk by then."""
    for luck in range(20):
        machine = Machine()
        metadata = started(machine, topics=2)
        for index in range(8):
            metadata.log.append([TopicRecord(name=f"unsynced-{index}", topic_id=bytes([index + 1] * 16))], 1)
        machine.kill()
        config = BrokerConfig.parse(PROPERTIES)
        log = MetadataLog(machine.disk, config, clock=machine.clock, rng=machine.rng)
        log.load()
        flushed_offset = log.flushed_offset
        assert flushed_offset == log.end_offset > 10
        machine.device.rng.seed(f"luck {luck}")
        machine.power_loss()
        again = MetadataLog(machine.disk, config, clock=machine.clock, rng=machine.rng)
        again.load()
        assert again.end_offset == flushed_offset, f"luck {luck}"
        machine.loop.close()


def with_two_snapshots(machine: Machine) -> tuple[Metadata, list[str]]:
    metadata = started(machine, topics=3)
    machine.run(metadata.log.snapshot(metadata.image))
    machine.run(metadata.create("between-the-snapshots"))
    machine.run(metadata.log.snapshot(metadata.image))
    machine.run(metadata.create("after-the-snapshots"))
    machine.run(metadata.quorum.close())
    machine.kill()
    return metadata, [path for path in machine.device.files(FOLDER) if path.endswith(".checkpoint")]


def test_a_snapshot_that_rotted_is_passed_over_for_the_one_before() -> None:
    for luck in range(20):
        machine = Machine()
        metadata, snapshots = with_two_snapshots(machine)
        machine.device.rng.seed(f"rot {luck}")
        machine.device.rot(snapshots[-1])
        verify(machine, metadata, f"rot {luck}")


def test_a_start_without_any_whole_snapshot_is_refused_and_loses_nothing() -> None:
    machine = Machine()
    metadata, snapshots = with_two_snapshots(machine)
    for path in snapshots:
        machine.device.rot(path, position=70)
    with pytest.raises(DataFolderError, match="lost"):
        machine.run(metadata.start())
