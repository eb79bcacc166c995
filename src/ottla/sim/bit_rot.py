"""A bit that flips in one replica of a partition: never served as a good record, never copied to another replica.

What the CRC does not cover (a batch's base offset and leader epoch) is spared: no check covers it, in Kafka neither. So
is what is not committed yet: a record that only the bad copy holds is lost, and it was never acknowledged.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from ottla import records
from ottla.sim.checkers import check
from ottla.sim.replicas import Cluster

FIRST_COVERED_BYTE = 16
"""Of a batch: the magic, then the CRC itself and the bytes that it covers."""


class Rot(NamedTuple):
    """One replica with a bad batch, and another, good one."""

    sim: Cluster
    topic: str
    partition: int
    name: str
    other: str

    @classmethod
    def begin(cls, sim: Cluster, rng: random.Random) -> Rot | None:
        """Flip a bit of a batch that all replicas of a partition have; None if there is no such batch."""
        places = [place for place in sim.histories if sim.image(*place) is not None]
        if not places:
            return None
        topic, partition = rng.choice(places)
        image = sim.image(topic, partition)
        assert image is not None
        names = [sim.names[id - 1] for id in rng.sample(image.replicas, len(image.replicas))]
        if rng.random() < 0.5:
            names.sort(key=lambda name: name != sim.leader(topic, partition))
        rot = cls(sim, topic, partition, names[0], names[1])
        if len(names) < 3 or not rot.flip(rng):
            return None
        return rot

    def flip(self, rng: random.Random) -> bool:
        device = self.sim.host(self.name).device
        node = self.sim.host(self.name).node
        hosted = None if node is None else node.replicas.partitions.get(self.topic, self.partition)
        high_watermark = 0 if hosted is None else hosted.log.high_watermark
        batches = [
            (path, position, header.size)
            for path in self._files(self.name)
            if path.endswith(".log")
            for position, header in records.split(device.content(path))
            if header.next_offset <= high_watermark
        ]
        if not batches:
            return False
        path, position, size = rng.choice((batches[-1], rng.choice(batches)))
        self.sim.rotten[self.topic, self.partition] = self.name
        device.rot(path, position + rng.randrange(FIRST_COVERED_BYTE, size), rng.randrange(8))
        return True

    def _files(self, name: str) -> list[str]:
        host = self.sim.host(name)
        return [
            path
            for log_dir in host.config().log_directories
            for path in host.device.files(f"{log_dir}/{self.topic}-{self.partition}")
        ]

    async def wipe(self, name: str) -> None:
        """The repair that an operator does: without its files the node copies them anew."""
        await self.sim.until(lambda: self._is_safe_without(name), "a good replica is in sync with the leader")
        if self.sim.host(name).is_running:
            self.sim.kill(name)
        device = self.sim.host(name).device
        self.sim.loop.trace.note(name, f"wipe {self.topic}-{self.partition}")
        disk = device.mount()
        for path in self._files(name):
            disk.remove(path)
            disk.sync_directory(path.rpartition("/")[0])
        device.kill()
        self.sim.begin(name)

    def _is_safe_without(self, name: str) -> bool:
        image = self.sim.image(self.topic, self.partition)
        if image is None:
            return True
        bad = [name, self.name]
        return image.leader > 0 and any(self.sim.names[id - 1] not in bad for id in image.isr)

    async def repair(self) -> None:
        """No other replica has the bad batch; then it disappears here, too."""
        for name in self.sim.names:
            if name != self.name:
                self._check(name)
        await self.wipe(self.name)
        self.sim.rotten.pop((self.topic, self.partition))

    def _check(self, name: str) -> None:
        device = self.sim.host(name).device
        for path in self._files(name):
            if path.endswith(".log"):
                data = device.content(path)
                for position, header in records.split(data):
                    is_good = records.crc_ok(data, position, header.size)
                    check(is_good, "spread", f"{path} on {name}: {header}, which has rotted on {self.name}")
