"""What goes wrong in a cluster.

The plan for power: it fails on one node at a time, only while all replicas of everything are in sync, and nothing else
happens until they are again. So an acknowledged record is always in the page cache of another node, and every record
that is lost is a bug. (Kafka does not flush before it acknowledges: a leader that was alone when its power failed would
rightly lose records.) The same holds for bits that flip. Everything else may happen to any node at any time.
"""

from __future__ import annotations

import asyncio
import errno
import random

from ottla.sim.bit_rot import Rot
from ottla.sim.disk import Crashed
from ottla.sim.replicas import Cluster

CALM_SYNC_S = (0.000_2, 0.005)
SECOND = "/second"
MAX_SKEW_MS = 1_800_000


class Disturbances:
    """What goes wrong, drawn anew every few seconds from a menu drawn with the world."""

    def __init__(self, sim: Cluster) -> None:
        self._sim = sim
        self._rng = rng = random.Random(f"disturbances {sim.seed}")
        everything = (
            self._kill,
            self._kill_two,
            self._kill_leaders,
            self._kill_a_slow_leader,
            self._kill_all,
            self._power_loss,
            self._crash_at_a_write,
            self._rot,
            self._clean_restart,
            self._rolling_restart,
            self._reset_connections,
            self._cut_off,
            self._cut_a_pair,
            self._split,
            self._slow_links,
            self._pause,
            self._slow_disk,
            self._full_disk,
            self._failing_log_dir,
            self._clock_jump,
        )
        self._menu = [disturb for disturb in everything if rng.random() < 0.4] or [self._kill]
        self._pause_s = rng.choice((0.3, 1.0, 4.0))
        self._stream_count = rng.choice((1, 2))
        """How many things may be wrong at once."""
        self._ongoing = 0
        self._is_power_out = self._is_over = False
        self._crashing: dict[str, None] = {}
        """Nodes that are to stop, or have stopped, in the middle of a write."""

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
            host.device.capacity_bytes = None
            host.device.faults.clear()
        await self._sim.healed()

    @property
    def _names(self) -> list[str]:
        return self._sim.shape.names

    def _any(self) -> str:
        return self._rng.choice(self._names)

    async def _for_a_while(self, *seconds: float) -> None:
        await asyncio.sleep(self._rng.choice(seconds))

    def _die(self, name: str) -> None:
        if self._sim.host(name).is_running:
            self._sim.kill(name)

    def _rise(self, name: str) -> None:
        if not self._sim.host(name).is_running and name not in self._crashing:
            self._sim.begin(name)

    async def _kill(self) -> None:
        name = self._any()
        self._die(name)
        await self._for_a_while(0.01, 0.5, 3.0, 15.0)
        self._rise(name)

    async def _kill_two(self) -> None:
        first, second = self._rng.sample(self._names, 2)
        self._die(first)
        await self._for_a_while(0.0, 0.3, 5.0)
        self._die(second)
        await self._for_a_while(0.1, 5.0)
        self._rise(self._rng.choice((first, second)))
        await self._for_a_while(0.1, 5.0)
        self._rise(first)
        self._rise(second)

    async def _kill_leaders(self) -> None:
        """The active controller, and the leader of a partition."""
        active = [node.ground.config.node_id for node in self._sim.live() if node.metadata.controllership.is_active]
        leaders = self._leaders()
        leader = [self._rng.choice(leaders)] if leaders else []
        for id in dict.fromkeys([*active[:1], *leader]):
            self._die(self._names[id - 1])
        await self._for_a_while(0.1, 3.0)
        for name in self._names:
            self._rise(name)

    def _leaders(self) -> list[int]:
        """The broker that is believed to lead a partition."""
        leaders = {
            partition.leader: None
            for node in self._sim.live()
            for topic in node.ground.image.topics_by_name.values()
            for partition in topic.partitions.values()
            if partition.leader > 0
        }
        return list(leaders)

    async def _kill_a_slow_leader(self) -> None:
        """The leader dies, or loses its place, with records that only some replicas have."""
        leaders = self._leaders()
        if not leaders:
            return
        name = self._names[self._rng.choice(leaders) - 1]
        others = [other for other in self._names if other != name]
        slow = others if self._rng.random() < 0.5 else [self._rng.choice(others)]
        for other in slow:
            self._sim.network.slow(name, other, self._rng.choice((0.2, 1.0)))
        await self._for_a_while(0.3, 1.0, 2.0)
        if self._rng.random() < 0.7:
            self._die(name)
        else:
            self._sim.cut_off(name)
        await self._for_a_while(0.5, 3.0, 12.0)
        self._sim.network.heal()
        self._rise(name)

    async def _kill_all(self) -> None:
        names = self._rng.sample(self._names, len(self._names))
        for name in names:
            self._die(name)
        await self._for_a_while(0.1, 3.0)
        for name in self._rng.sample(names, len(names)):
            self._rise(name)
            await self._for_a_while(0.0, 0.0, 1.0, 5.0)

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

    async def _crash_at_a_write(self) -> None:
        """A node stops in the middle of a write, or between a write and the rename that was to follow it."""
        name = self._any()
        host = self._sim.host(name)
        if not host.is_serving or self._sim.is_paused(name) or name in self._crashing:
            return
        may_lose_power = self._ongoing == 1 and self._rng.random() < 0.5 and not self._sim.lag(is_moving=True)
        self._is_power_out = may_lose_power
        self._crashing[name] = None
        try:
            async with asyncio.timeout(5):
                await host.crash_at(self._rng.randrange(100))
            if may_lose_power and not self._sim.lag(is_moving=True, without=name):
                self._sim.power_loss(name)
            else:
                self._sim.kill(name)
                may_lose_power = self._is_power_out = False
        except TimeoutError:
            host.device.cancel_crash()
            self._is_power_out = False
            return
        finally:
            del self._crashing[name]
        await self._for_a_while(0.01, 0.5, 3.0)
        self._rise(name)
        if may_lose_power:
            await self._sim.settled(is_moving=True)
            self._is_power_out = False

    async def _rot(self) -> None:
        """A bit flips in what one replica holds of a partition and all of them have; it, or another one, may then start
        again. The operator finds out, and has the replica copied anew. Nothing else happens meanwhile: two copies of
        three may be bad for a while, and the last one must be spared."""
        if self._ongoing > 1 or self._sim.lag(is_moving=True):
            return
        rot = Rot.begin(self._sim, self._rng)
        if rot is None:
            return
        self._is_power_out = True
        await self._for_a_while(0.0, 0.3)
        what = self._rng.randrange(4)
        if what == 1:
            self._die(rot.name)
            self._rise(rot.name)
        elif what == 2:
            await self._restart(rot.name)
        elif what == 3:
            await rot.wipe(rot.other)
        await self._for_a_while(0.3, 3.0)
        await rot.repair()
        await self._sim.settled(is_moving=True)
        self._is_power_out = False

    async def _clean_restart(self) -> None:
        await self._restart(self._any())

    async def _restart(self, name: str) -> None:
        host = self._sim.host(name)
        if host.is_serving and not self._sim.is_paused(name):
            stopping = self._sim.loop.create_task(host.stop())
            await asyncio.wait([stopping])
            if not stopping.cancelled() and not isinstance(stopping.exception(), Crashed):
                stopping.result()
            await self._for_a_while(0.01, 3.0)
            self._rise(name)

    async def _rolling_restart(self) -> None:
        for name in self._names:
            await self._restart(name)
            await self._for_a_while(0.1, 1.0)

    async def _reset_connections(self) -> None:
        everyone = [*self._names, *self._sim.client_names()]
        for name in self._names:
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
        first, second = self._rng.sample(self._names, 2)
        self._sim.network.cut(first, second, both_ways=self._rng.random() < 0.7)
        await self._for_a_while(0.1, 5.0, 20.0)
        self._sim.network.heal()

    async def _split(self) -> None:
        """Two halves that do not hear of each other; clients hear of both, or each of one of them."""
        names = self._rng.sample(self._names, len(self._names))
        half = self._rng.randint(1, len(names) - 1)
        cuts_clients = self._rng.random() < 0.5
        for name in names[:half]:
            for other in names[half:]:
                self._sim.network.cut(name, other)
        for client in self._sim.client_names() if cuts_clients else []:
            for name in self._rng.choice((names[:half], names[half:])):
                self._sim.network.cut(client, name)
        await self._for_a_while(0.5, 5.0, 20.0)
        self._sim.network.heal()

    async def _slow_links(self) -> None:
        """Everything takes its time from and to one node, or from one to another."""
        name, other = self._rng.sample(self._names, 2)
        delay_s = self._rng.choice((0.05, 0.3, 1.0))
        others = [other] if self._rng.random() < 0.4 else [*self._names, *self._sim.client_names()]
        for one in others:
            self._sim.network.slow(name, one, delay_s)
        await self._for_a_while(1.0, 5.0)
        for one in others:
            self._sim.network.slow(name, one, 0.0)

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

    async def _full_disk(self) -> None:
        """A node whose metadata log finds no room ends, as Kafka's does, and is started when there is room again."""
        name = self._any()
        device = self._sim.host(name).device
        device.capacity_bytes = device.used_bytes + self._rng.choice((0, 4096, 50_000))
        await self._for_a_while(0.5, 5.0)
        device.capacity_bytes = None
        self._rise(name)

    async def _failing_log_dir(self) -> None:
        """The second log dir goes offline, if there is one, until the node starts again on a disk that works."""
        name = self._rng.choice(self._sim.names)
        host = self._sim.host(name)
        if SECOND not in host.config().log_directories:
            return
        host.device.fail("write", f"{SECOND}/", errno.EIO, count=3)
        await self._for_a_while(0.5, 3.0, 10.0)
        host.device.faults.clear()
        if self._rng.random() < 0.5:
            self._die(name)
        else:
            await self._restart(name)
        self._rise(name)

    async def _clock_jump(self) -> None:
        """A machine's wall clock is set; not so far that records and producers of others look a day old."""
        host = self._sim.host(self._any())
        skew_ms = host.wall_clock_skew_ms + self._rng.choice((-600_000, -60_000, -1_000, 1_000, 60_000, 600_000))
        host.wall_clock_skew_ms = max(-MAX_SKEW_MS, min(MAX_SKEW_MS, skew_ms))
        self._sim.clock_jump_count += 1
        self._sim.loop.trace.note(host.name, f"clock {host.wall_clock_skew_ms}")
