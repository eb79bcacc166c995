"""One seed, one cluster: nodes that die, pause, lose power and each other, and clients that count on them.

The plan for power: it fails on one node at a time, only while all replicas of everything are in sync, and nothing else
happens until they are again. So an acknowledged record is always in the page cache of another node, and every record
that is lost is a bug. (Kafka does not flush before it acknowledges: a leader that was alone when its power failed would
rightly lose records.) Everything else may happen to any node at any time.
"""

from __future__ import annotations

import asyncio
import random
from typing import cast

from ottla.sim.checkers import Content, Violation, check_once_in_order
from ottla.sim.client import LATEST, NoAnswer, batch_of
from ottla.sim.cluster import Host
from ottla.sim.network import Weather
from ottla.sim.replicas import RETRY_S, SETTLING_S, Cluster
from ottla.sim.router import PASSING
from ottla.sim.transaction_workload import Ring
from ottla.wire.errors import ErrorCode, KafkaError

REPLICAS, RING = "replicas", "replicas-ring"
"""Worlds of several nodes, by what goes on in them."""
TOPICS = ("once", "plain")
PAUSE_S = 0.05
CALM_SYNC_S = (0.000_2, 0.005)


class Counter:
    """Each value is the next integer, with acks=all. An idempotent producer sends a batch until it is answered: then it
    is there once, and in order; another one sends it once."""

    def __init__(self, sim: Cluster, topic: str, partition: int, *, is_idempotent: bool) -> None:
        self.name = f"{topic}-{partition}"
        self._sim = sim
        self._topic, self._partition = topic, partition
        self._rng = random.Random(f"{self.name} {sim.seed}")
        self._router = sim.router(f"producer-{self.name}")
        self._is_idempotent = is_idempotent
        self._producer = (-1, -1)
        self._sequence = 0
        self._next_value = 0
        self._pending: list[Content] = []
        self._sent: list[Content] = []
        self.acknowledged_count = 0
        self.history = sim.history(topic, partition)

    async def step(self) -> None:
        if not self._pending or not self._is_idempotent:
            self._pending = [self._content() for _ in range(self._rng.choice((1, 1, 2, 5, 20)))]
            self.history.doubt(self._pending)
        contents = self._pending
        try:
            if self._is_idempotent and self._producer[0] < 0:
                self._producer = await self._router.any_broker().init_producer_id()
                self._sim.see_producer_id(self._producer[0])
            offset = await self._router.produce(self._topic, self._partition, self._batch(contents))
        except (NoAnswer, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)
            return
        self.history.acknowledge(offset, contents)
        self._sent += contents
        self._sequence += len(contents)
        self._pending = []
        self.acknowledged_count += 1

    def _content(self) -> Content:
        self._next_value += 1
        size = self._rng.choice((10, 10, 100, 1_000))
        return None, f"{self._next_value}:".encode().ljust(size, b".")

    def _batch(self, contents: list[Content]) -> bytearray:
        return batch_of(
            [value for _, value in contents],
            self._sim.clock(),
            producer=self._producer,
            sequence=self._sequence if self._is_idempotent else -1,
        )

    async def settle(self) -> None:
        """Make progress once more."""
        count = self.acknowledged_count
        while self.acknowledged_count == count or (self._pending and self._is_idempotent):
            await self.step()

    async def verify(self) -> None:
        found = await self._sim.verified(self._topic, self._partition)
        if self._is_idempotent:
            check_once_in_order(self.name, found, self._sent)


class Reader:
    """What it read stays so for everybody, and what was readable stays readable, whoever leads."""

    def __init__(self, sim: Cluster, topic: str, partition: int) -> None:
        self.name = f"reader-{topic}-{partition}"
        self._topic, self._partition = topic, partition
        self._router = sim.router(self.name)
        self._rng = random.Random(f"{self.name} {sim.seed}")
        self._history = sim.history(topic, partition)
        self._offset = 0

    async def step(self) -> None:
        try:
            if self._rng.random() < 0.2:
                self._history.see_high_watermark(
                    await self._router.list_offset(self._topic, self._partition, LATEST)
                )  # KIP-207: a new leader says nothing until it knows
            fetched = await self._router.fetch(self._topic, self._partition, self._offset, max_wait_ms=200)
        except NoAnswer:
            await asyncio.sleep(RETRY_S)
            return
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Violation(f"lost: {self.name}: what was read up to {self._offset} is not there") from error
            if error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)
            return
        self._history.see((record.offset, (record.key, record.value)) for record in fetched.records)
        self._offset = fetched.next_offset

    async def settle(self) -> None:
        await self.step()

    async def verify(self) -> None:
        """Whoever writes does."""


class Disturbances:
    """What goes wrong, drawn anew every few seconds from a menu drawn with the world."""

    def __init__(self, sim: Cluster) -> None:
        self._sim = sim
        self._rng = rng = random.Random(f"disturbances {sim.seed}")
        everything = (
            self._kill,
            self._kill_two,
            self._kill_leaders,
            self._power_loss,
            self._clean_restart,
            self._reset_connections,
            self._cut_off,
            self._cut_a_pair,
            self._pause,
            self._slow_disk,
        )
        self._menu = [disturb for disturb in everything if rng.random() < 0.5] or [self._kill]
        self._pause_s = rng.choice((0.3, 1.0, 4.0))
        self._stream_count = rng.choice((1, 2))
        """How many things may be wrong at once."""
        self._ongoing = 0
        self._is_power_out = self._is_over = False

    async def run(self) -> None:
        await asyncio.gather(*(self._disturb() for _ in range(self._stream_count)))

    async def _disturb(self) -> None:
        while not self._is_over:
            await asyncio.sleep(self._rng.uniform(0.0, 2 * self._pause_s))
            if not self._is_power_out:
                self._ongoing += 1
                await self._rng.choice(self._menu)()
                self._ongoing -= 1

    def stop(self) -> None:
        self._is_over = True

    async def end(self) -> None:
        for host in self._sim.hosts.values():
            host.device.sync_delay_s = CALM_SYNC_S
        await self._sim.healed()

    def _any(self) -> str:
        return self._rng.choice(self._sim.names)

    async def _for_a_while(self, *seconds: float) -> None:
        await asyncio.sleep(self._rng.choice(seconds))

    def _die(self, name: str) -> None:
        if self._sim.host(name).is_running:
            self._sim.kill(name)

    def _rise(self, name: str) -> None:
        if not self._sim.host(name).is_running:
            self._sim.begin(name)

    async def _kill(self) -> None:
        name = self._any()
        self._die(name)
        await self._for_a_while(0.01, 0.5, 3.0, 15.0)
        self._rise(name)

    async def _kill_two(self) -> None:
        first, second = self._rng.sample(self._sim.names, 2)
        self._die(first)
        await self._for_a_while(0.0, 0.3, 5.0)
        self._die(second)
        await self._for_a_while(0.1, 5.0)
        self._rise(self._rng.choice((first, second)))
        await self._for_a_while(0.1, 5.0)
        self._rise(first)
        self._rise(second)

    async def _kill_leaders(self) -> None:
        """The active controller, and whoever leads a partition."""
        active = [node.config.node_id for node in self._sim.live() if node.controllership.is_active]
        image = self._sim.image(self._rng.choice(TOPICS))
        for id in dict.fromkeys([*active[:1], *([image.leader] if image is not None and image.leader > 0 else [])]):
            self._die(self._sim.names[id - 1])
        await self._for_a_while(0.1, 3.0)
        for name in self._sim.names:
            self._rise(name)

    async def _power_loss(self) -> None:
        if self._ongoing > 1 or self._sim.lag(is_moving=True):
            return
        self._is_power_out = True
        name = self._any()
        self._sim.power_loss(name)
        await self._for_a_while(0.1, 3.0, 15.0)
        self._rise(name)
        await self._sim.settled(is_moving=True)
        self._is_power_out = False

    async def _clean_restart(self) -> None:
        name = self._any()
        host = self._sim.host(name)
        if host.is_serving and not self._sim.is_paused(name):
            stopping = self._sim.loop.create_task(host.stop())
            await asyncio.wait([stopping])
            if not stopping.cancelled():
                stopping.result()
            await self._for_a_while(0.01, 3.0)
            self._rise(name)

    async def _reset_connections(self) -> None:
        everyone = [*self._sim.names, *self._sim.client_names()]
        for name in self._sim.names:
            for other in everyone:
                if other != name and self._rng.random() < 0.4:
                    self._sim.network.reset(name, other)

    async def _cut_off(self) -> None:
        name = self._any()
        self._sim.cut_off(name, both_ways=self._rng.random() < 0.7)
        if self._rng.random() < 0.5:
            for client in self._sim.client_names():
                self._sim.network.cut(client, name)
        await self._for_a_while(0.1, 1.0, 5.0, 20.0)
        self._sim.network.heal()

    async def _cut_a_pair(self) -> None:
        first, second = self._rng.sample(self._sim.names, 2)
        self._sim.network.cut(first, second, both_ways=self._rng.random() < 0.7)
        await self._for_a_while(0.1, 5.0, 20.0)
        self._sim.network.heal()

    async def _pause(self) -> None:
        name = self._any()
        if self._sim.host(name).is_running and not self._sim.is_paused(name):
            self._sim.pause(name)
            await self._for_a_while(0.1, 1.0, 5.0, 15.0)
            self._sim.resume(name)

    async def _slow_disk(self) -> None:
        device = self._sim.host(self._any()).device
        device.sync_delay_s = (0.05, self._rng.choice((0.1, 1.0)))
        await self._for_a_while(0.5, 3.0)
        device.sync_delay_s = CALM_SYNC_S


def new_cluster(seed: int) -> Cluster:
    rng = random.Random(f"properties {seed}")
    properties = {
        "broker.session.timeout.ms": str(rng.choice((2_000, 9_000))),
        "broker.heartbeat.interval.ms": str(rng.choice((500, 1_000))),
        "replica.lag.time.max.ms": str(rng.choice((1_000, 5_000, 30_000))),
        "leader.imbalance.check.interval.seconds": str(rng.choice((3, 300))),
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((500, 5_000))),
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((500, 5_000))),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "metadata.log.max.record.bytes.between.snapshots": str(rng.choice((500, 5_000, 1_000_000))),
    }
    weather = Weather(
        delay_s=(0.000_1, rng.choice((0.000_5, 0.005, 0.05))),
        partial_probability=rng.choice((0.0, 0.1)),
        buffer_bytes=rng.choice((20_000, 200_000)),
    )
    return Cluster(seed, properties=properties, weather=weather, is_started=False)


class Everyone:
    """Stands where workloads of one node expect its host."""

    name = ""
    power_loss_count = 0

    def __init__(self, sim: Cluster) -> None:
        self._sim = sim

    @property
    def incarnation(self) -> int:
        return self._sim.incarnation


async def draw(sim: Cluster, only: str) -> list[Counter | Reader | Ring]:
    """The workloads of this world, and their topics."""
    partition_count = sim.rng.choice((1, 2))
    tiny = {"internal.segment.bytes": str(sim.rng.choice((25_000, 100_000))), "index.interval.bytes": "100"}
    if only == RING:
        ring = Ring(sim, cast(Host, Everyone(sim)), random.Random(f"ring {sim.seed}"), near_last_epoch=0.0)
        await ring.set_up()
        return [ring]
    for topic in TOPICS:
        configs = tiny if sim.rng.random() < 0.7 else {}
        await sim.router().any_broker().create_topic(topic, partition_count, configs, replicas=len(sim.names))
    partitions = [(topic, partition) for topic in TOPICS for partition in range(partition_count)]
    return [
        *(Counter(sim, topic, partition, is_idempotent=topic == "once") for topic, partition in partitions),
        *(Reader(sim, topic, partition) for topic, partition in partitions),
    ]


async def live(sim: Cluster, *, duration_s: float, only: str = REPLICAS) -> None:
    loop = sim.loop
    await sim.start_all()
    workloads = await draw(sim, only)
    await sim.settled()

    async def turn(workload: Counter | Reader | Ring) -> None:
        while True:
            await workload.step()
            await asyncio.sleep(PAUSE_S)

    disturbances = Disturbances(sim)
    running = [loop.create_task(turn(workload), name=workload.name) for workload in workloads]
    disturbing = loop.create_task(disturbances.run(), name="disturbances")

    def fail_early() -> None:
        loop.check()
        for task in (*running, disturbing, sim.watching):
            if task.done() and not task.cancelled():
                task.result()

    await asyncio.wait([*running, disturbing, sim.watching], timeout=duration_s, return_when=asyncio.FIRST_EXCEPTION)
    fail_early()
    disturbances.stop()
    await disturbing
    loop.trace.note("world", "liveness")
    async with asyncio.timeout(SETTLING_S):
        await disturbances.end()
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    fail_early()
    async with asyncio.timeout(SETTLING_S):
        for workload in workloads:
            await workload.settle()
    fail_early()
    await sim.settled()
    sim.reconnect()
    for workload in workloads:
        await workload.verify()
    if only == REPLICAS:
        for topic, partition in sim.histories:
            sim.check_replicas(topic, partition)
    fail_early()
