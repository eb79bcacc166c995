"""One seed, one world: what is drawn from it, what happens in it, and the verdict.

A run has a safety phase (workloads and disturbances together), then a liveness phase: the disturbances end, and within
two minutes of virtual time every workload makes progress again. Then everything is read and compared, and compared
again after each of two clean restarts.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
from dataclasses import dataclass

from ottla.sim import group_workload, replica_world, share_workload, streams_member, transaction_workload
from ottla.sim.cluster import DATA, Host, Sim
from ottla.sim.group_workload import Groups
from ottla.sim.network import Weather
from ottla.sim.share_workload import Shares
from ottla.sim.trace import Trace
from ottla.sim.transaction_workload import Ring
from ottla.sim.workloads import Admin, Counter, Pipelined, Reader, Workload

NODE = "node"
"""The world of one node."""
NODE_SHARE = 0.25
LIVENESS_S = 120.0
DAY_MS = 86_400_000
SECOND = "/second"
SETTLING_S = 3.0
PAUSE_S = 0.03
"""Between two steps of a workload."""


@dataclass(slots=True)
class Verdict:
    seed: int
    failure: str | None
    fingerprint: str
    event_count: int
    virtual_s: float
    lines: list[str]
    error: BaseException | None = None

    @property
    def has_passed(self) -> bool:
        return self.failure is None

    def summary(self) -> str:
        fate = "passed" if self.failure is None else f"failed: {self.failure}"
        return f"seed {self.seed}: {fate} ({self.event_count} events, {self.virtual_s:.0f} s, trace {self.fingerprint})"


class Recorder(logging.Handler):
    """Puts what the node logs between the events of the trace."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.INFO)
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.aside(record.getMessage())


class Disturbances:
    """What goes wrong, drawn anew every few seconds from a menu drawn with the world (swarm testing)."""

    def __init__(self, sim: Sim, host: Host, rng: random.Random) -> None:
        self._sim = sim
        self._host = host
        self._rng = rng
        everything = (
            self._kill,
            self._power_loss,
            self._crash_at_a_write,
            self._clean_restart,
            self._reset_connections,
            self._cut,
            self._slow_disk,
            self._full_disk,
            self._clock_jump,
            self._failing_log_dir,
        )
        self._menu = [disturb for disturb in everything if rng.random() < 0.6] or [self._kill]
        self._pause_s = rng.choice((0.5, 2.0, 6.0))
        self._is_over = False

    async def run(self) -> None:
        while not self._is_over:
            await asyncio.sleep(self._rng.uniform(0.0, 2 * self._pause_s))
            await self._rng.choice(self._menu)()

    def stop(self) -> None:
        """No further one after the one that goes on: a disturbance is never cut short, a stop half done is no stop."""
        self._is_over = True

    async def end(self) -> None:
        """The world becomes kind again."""
        self._host.device.cancel_crash()
        self._host.device.faults.clear()
        self._host.device.capacity_bytes = None
        self._host.device.sync_delay_s = (0.000_2, 0.005)
        self._sim.network.heal()
        if not self._host.is_running:
            await self._start()

    async def _start(self) -> None:
        await asyncio.sleep(self._rng.choice((0.01, 0.5, 3.0)))
        await self._host.start()

    async def _kill(self) -> None:
        self._host.kill()
        await self._start()

    async def _power_loss(self) -> None:
        self._host.power_loss()
        await self._start()

    async def _crash_at_a_write(self) -> None:
        crashes = self._host.crash_at(self._rng.randrange(200))
        try:
            async with asyncio.timeout(20):
                await crashes
        except TimeoutError:
            self._host.device.cancel_crash()
            return
        if self._rng.random() < 0.5:
            await self._kill()
        else:
            await self._power_loss()

    async def _clean_restart(self) -> None:
        await self._host.stop()
        await self._start()

    async def _reset_connections(self) -> None:
        for client in self._sim.client_names():
            if self._rng.random() < 0.7:
                self._sim.network.reset(client, self._host.name)

    async def _cut(self) -> None:
        for client in self._sim.client_names():
            if self._rng.random() < 0.5:
                self._sim.network.cut(client, self._host.name, both_ways=self._rng.random() < 0.7)
        await asyncio.sleep(self._rng.choice((0.1, 1.0, 15.0)))
        self._sim.network.heal()

    async def _slow_disk(self) -> None:
        self._host.device.sync_delay_s = (0.05, self._rng.choice((0.1, 1.0)))
        await asyncio.sleep(self._rng.uniform(0.5, 3.0))
        self._host.device.sync_delay_s = (0.000_2, 0.005)

    async def _full_disk(self) -> None:
        device = self._host.device
        device.capacity_bytes = device.used_bytes + self._rng.choice((0, 4096, 50_000))
        await asyncio.sleep(self._rng.uniform(0.5, 5.0))
        device.capacity_bytes = None

    async def _failing_log_dir(self) -> None:
        """The second log dir goes offline, if there is one, until the node starts again on a disk that works."""
        if self._host.properties.get("log.dirs") == DATA:
            return
        self._host.device.fail("write", f"{SECOND}/", errno.EIO, count=3)
        await asyncio.sleep(self._rng.uniform(0.5, 3.0))
        self._host.device.faults.clear()
        await self._rng.choice((self._kill, self._clean_restart))()

    async def _clock_jump(self) -> None:
        skew_ms = self._sim.wall_clock_skew_ms + self._rng.choice(
            (-DAY_MS, -3_600_000, -1_000, 1_000, 3_600_000, DAY_MS)
        )
        # Committed offsets live for a week in a group without members: no two moments of a run lie as far apart.
        self._sim.wall_clock_skew_ms = max(-3 * DAY_MS, min(3 * DAY_MS, skew_ms))


def draw(sim: Sim, host: Host, only: str | None = None) -> list[Workload]:
    """The workloads of this world (or the one with that name), some with limits so small that segments roll by the
    second."""
    rng = sim.rng
    small = {
        "internal.segment.bytes": str(rng.choice((8_000, 20_000, 60_000))),
        "index.interval.bytes": str(rng.choice((100, 1_000, 4_096))),
    }
    tiny = dict(small) if rng.random() < 0.8 else {}

    def part(name: str) -> random.Random:
        return random.Random(f"{name} {sim.seed}")

    always = {"flush.messages": "1"}
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "3000",
        "max.compaction.lag.ms": "5000",
        "delete.retention.ms": "1000",
    }
    retained = {"retention.bytes": "20000", "file.delete.delay.ms": "1000"}
    menu: list[Workload] = [
        Counter(sim, host, part("once"), "once", {**tiny, **always}, is_idempotent=True, is_durable=True),
        Counter(sim, host, part("plain"), "plain", tiny, is_idempotent=False, is_durable=False, acks=1),
        Counter(sim, host, part("idempotent"), "idempotent", tiny, is_idempotent=True, is_durable=False),
        Counter(
            sim,
            host,
            part("compacted"),
            "compacted",
            {**tiny, **compacted, **always},
            is_idempotent=True,
            is_durable=True,
            key_count=8,
        ),
        Counter(
            sim,
            host,
            part("retained"),
            "retained",
            {**small, **retained},
            is_idempotent=False,
            is_durable=False,
            starts_move=True,
        ),
        Counter(
            sim,
            host,
            part("deleted"),
            "deleted",
            small,
            is_idempotent=True,
            is_durable=False,
            deletes_records=True,
        ),
        Pipelined(sim, host, part("pipelined"), "pipelined", tiny),
        Admin(sim, host, part("admin")),
        Groups(sim, host, part("groups"), tiny),
        Ring(sim, host, part("ring"), tiny),
        Shares(sim, part("shares")),
    ]
    if only is not None:
        return [workload for workload in menu if workload.name == only]
    chosen = [workload for workload in menu if rng.random() < 0.6] or menu[:1]
    readers: list[Workload] = [
        Reader(sim, host, workload.name)
        for workload in chosen
        if isinstance(workload, Counter) and workload.name in ("once", "plain", "idempotent") and rng.random() < 0.7
    ]
    return chosen + readers


def new_sim(seed: int) -> Sim:
    rng = random.Random(f"properties {seed}")
    properties = {
        **group_workload.PROPERTIES,
        **streams_member.drawn_properties(random.Random(f"streams {seed}")),
        **transaction_workload.PROPERTIES,
        **share_workload.properties(seed, 1),
        "offsets.retention.check.interval.ms": str(rng.choice((2_000, 600_000))),
        "log.dirs": DATA if rng.random() < 0.6 else f"{DATA},{SECOND}",
        "log.retention.check.interval.ms": str(rng.choice((1_000, 5_000))),
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((500, 5_000))),
        "log.flush.start.offset.checkpoint.interval.ms": str(rng.choice((500, 5_000))),
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((500, 5_000))),
        "log.cleaner.backoff.ms": str(rng.choice((500, 5_000))),
        "metadata.log.max.record.bytes.between.snapshots": str(rng.choice((300, 2_000, 20_000))),
    }
    weather = Weather(
        delay_s=(0.000_1, rng.choice((0.000_5, 0.005, 0.05))),
        partial_probability=rng.choice((0.0, 0.1, 0.5)),
        buffer_bytes=rng.choice((3_000, 20_000, 200_000)),
    )
    return Sim(seed, properties=properties, weather=weather)


async def live(sim: Sim, host: Host, *, duration_s: float, only: str | None = None) -> None:
    loop = sim.loop
    workloads = draw(sim, host, only)
    disturbances = Disturbances(sim, host, random.Random(f"disturbances {sim.seed}"))
    await host.start()
    for workload in workloads:
        await workload.set_up()

    async def turn(workload: Workload) -> None:
        while True:
            await workload.step()
            await asyncio.sleep(PAUSE_S)

    running = [loop.create_task(turn(workload), name=workload.name) for workload in workloads]
    disturbing = loop.create_task(disturbances.run(), name="disturbances")
    done, _ = await asyncio.wait([*running, disturbing], timeout=duration_s, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
    loop.check()
    disturbances.stop()
    await disturbing
    await disturbances.end()
    await asyncio.sleep(SETTLING_S)
    loop.trace.note("world", "liveness")
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    for task in running:
        if not task.cancelled():
            task.result()
    async with asyncio.timeout(LIVENESS_S):
        await sim.all_answered()
        for workload in workloads:
            await workload.settle()
    for _ in range(2):
        for workload in workloads:
            await workload.verify()
        await host.stop()
        sim.check_files(host)
        await host.start()
        await sim.all_answered()
    for workload in workloads:
        await workload.verify()


def run_seed(seed: int, *, duration_s: float = 30.0, only: str | None = None) -> Verdict:
    """`only` names a world (`node`, or one of `replica_world.WORLDS`) or a workload of one node; without, the seed
    draws between one node and several."""
    if only is None:
        only = NODE if random.Random(f"kind {seed}").random() < NODE_SHARE else replica_world.CLUSTER
    sim: Sim
    if only in replica_world.WORLDS:
        sim = cluster = replica_world.new_cluster(seed, only)
        life = replica_world.live(cluster, duration_s=duration_s, only=only)
    else:
        sim = new_sim(seed)
        life = live(sim, sim.host(), duration_s=duration_s, only=None if only == NODE else only)
    failure: str | None = None
    caught: BaseException | None = None
    logger, recorder = logging.getLogger("ottla"), Recorder(sim.loop.trace)
    level, is_propagating = logger.level, logger.propagate
    logger.addHandler(recorder)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        sim.run(life, within_s=duration_s + 1_000)
        sim.finish()
    except Exception as error:
        failure, caught = f"{type(error).__name__}: {error}", error
    finally:
        sim.abandon()
        logger.removeHandler(recorder)
        logger.setLevel(level)
        logger.propagate = is_propagating
    trace = sim.loop.trace
    return Verdict(
        seed, failure, trace.fingerprint, trace.count, sim.loop.time() - 1_000, list(trace.lines), error=caught
    )
