"""A world with nodes and clients in it: the shipped `broker.Node` on a simulated host.

Scenarios use `Sim` as plain calls (`sim.produce(...)`, `sim.kill()`), each of which runs the loop until it is done.
Workloads use the coroutines behind them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla import records
from ottla.broker import Node
from ottla.config import BrokerConfig
from ottla.sim.checkers import History, check, check_batches, check_indexes
from ottla.sim.client import Client, NoAnswer, batch_of
from ottla.sim.disk import Crashed, Device
from ottla.sim.loop import Loop, Process
from ottla.sim.network import Network, Weather
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from ottla.sim.programs import Program

T = TypeVar("T")

START_TIMESTAMP = 1_700_000_000_000
PORT = 9092
CONTROLLER_PORT = 9093
DATA = "/data"
LOG_STARTS = "log-start-offset-checkpoint"


class Host:
    """A machine with a disk and at most one running node."""

    def __init__(self, sim: Sim, name: str, node_id: int, properties: Mapping[str, str]) -> None:
        self.sim = sim
        self.name = name
        self.node_id = node_id
        self.properties = dict(properties)
        self.wall_clock_skew_ms = 0
        """How far this machine's clock is from that of the others."""
        self.device = Device(
            random.Random(f"disk {sim.seed} {name}"),
            clock=self.clock,
            note=lambda what: sim.loop.trace.note(name, what),
        )
        self.device.on_crash = self._crashed
        self.incarnation = 0
        self.power_loss_count = 0
        self.process: Process | None = None
        self.node: Node | None = None
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._started: asyncio.Future[None] | None = None
        self._crashes: asyncio.Future[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_alive

    @property
    def is_serving(self) -> bool:
        """Whether it runs, its start is done and its stop has not begun."""
        return self.is_running and self._started is not None and self._started.done() and not self._stop.is_set()

    def clock(self) -> int:
        return self.sim.clock() + self.wall_clock_skew_ms

    def config(self) -> BrokerConfig:
        return BrokerConfig.parse(
            {
                "node.id": str(self.node_id),
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://{self.name}:{PORT},CONTROLLER://{self.name}:{CONTROLLER_PORT}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"{self.node_id}@{self.name}:{CONTROLLER_PORT}",
                "log.dirs": DATA,
                **self.properties,
            }
        )

    async def start(self) -> None:
        """Run a node on whatever the disk holds; returns when it answers. `Crashed` if the disk stops it before."""
        await self.begin()

    def begin(self) -> asyncio.Future[None]:
        """Run a node; the result comes when it answers."""
        assert not self.is_running, f"{self.name} runs already"
        self.sim.network.power_on(self.name)
        self.incarnation += 1
        self.process = Process(f"{self.name}.{self.incarnation}")
        self._stop = asyncio.Event()
        self._started = self.sim.loop.create_future()
        self.sim.loop.trace.note(self.name, "start")
        self._running = self.sim.loop.spawn(self.process, self._run(self._started))
        return self._started

    async def serving(self) -> None:
        """Until the node that was begun last answers."""
        assert self._started is not None
        await asyncio.shield(self._started)

    async def _run(self, started: asyncio.Future[None]) -> None:
        loop = self.sim.loop
        try:
            node = Node(
                self.config(),
                disk=self.device.mount(),
                clock=self.clock,
                rng=random.Random(f"node {self.sim.seed} {self.name} {self.incarnation}"),
                sockets=self.sim.network.host(self.name),
                new_cluster_id=self.sim.cluster_id,
            )
            node.ground.timer = loop.time
            node.ground.on_bug = self._bug
            self.sim.node_made(self, node)
            self.node = node
            await node.start()
        except asyncio.CancelledError:
            started.cancel()
            if self._stop.is_set():
                await node.stop()
            return
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            return
        if not started.done():
            started.set_result(None)
        await self._stop.wait()
        await node.stop()

    async def stop(self) -> None:
        """Clean shutdown; of a node that still starts, as SIGTERM does it."""
        assert self.is_running and self._running is not None and self.process is not None
        self.sim.loop.trace.note(self.name, "stop")
        self._stop.set()
        if self._started is not None and not self._started.done():
            self._running.cancel()
        await self._running
        self.sim.network.kill(self.name)
        self.device.kill()
        self.sim.loop.end(self.process)

    def kill(self) -> None:
        """kill -9: the page cache and the kernel survive."""
        self.sim.loop.trace.note(self.name, "kill")
        self._end()
        self.sim.network.kill(self.name)
        self._after_end()

    def power_loss(self) -> None:
        self.sim.loop.trace.note(self.name, "power loss")
        self._end()
        self.sim.network.power_loss(self.name)
        self._after_end()
        self.device.power_loss()
        self.power_loss_count += 1
        self.sim.power_lost()

    def _end(self) -> None:
        # Dead before its finally blocks run: first the disk, then the sockets, then the tasks.
        if self.process is not None:
            self.process.is_alive = False
        self.device.kill()

    def _after_end(self) -> None:
        if self.process is not None:
            self.sim.loop.end(self.process)
        if self._started is not None and not self._started.done():
            self._started.set_exception(Crashed())
        self.node = None

    def _crashed(self) -> None:
        """The disk reached the operation at which the scenario wants the machine to stop."""
        if self.process is not None:
            self.process.is_alive = False
        if self._started is not None and not self._started.done():
            self._started.set_exception(Crashed())
        if self._crashes is not None and not self._crashes.done():
            self._crashes.set_result(None)

    def crash_at(self, operation: int) -> asyncio.Future[None]:
        """Stop the node at its next but `operation` write; the result comes when that happened."""
        self._crashes = self.sim.loop.create_future()
        self.device.crash_at(operation)
        return self._crashes

    def _bug(self, error: BaseException) -> None:
        if self.is_running:
            self.sim.loop.call_exception_handler({"message": f"a request of {self.name} met a bug", "exception": error})


class Sim:
    """One simulated world: seed, clock, network, hosts, clients, and what the partitions promised."""

    cluster_id: str | None = None
    """The cluster id with which an empty data folder is formatted; None: the node chooses one."""

    def __init__(
        self, seed: int = 0, *, properties: Mapping[str, str] | None = None, weather: Weather | None = None
    ) -> None:
        self.seed = seed
        self.loop = Loop(seed)
        self.rng = random.Random(f"world {seed}")
        self.network = Network(self.loop, random.Random(f"network {seed}"), weather)
        self.wall_clock_skew_ms = 0
        self.clock_jump_count = 0
        self._seen_skew_ms = 0
        self.properties = dict(properties or {})
        self.hosts: dict[str, Host] = {}
        self.histories: dict[tuple[str, int], History] = {}
        self._clients: dict[str, Client] = {}
        self.programs: dict[str, Program] = {}
        """Applications that run Ottla's own clients, by the name of their host."""
        self._value_count = 0
        self._producer_ids: dict[int, None] = {}
        self.names = ["node-1"]
        """The brokers."""
        self.replication_factor = 1
        self.on_end: list[Callable[[], None]] = []
        """The patches that are undone when the world ends."""

    def clock(self) -> int:
        """Wall clock milliseconds, the same for all hosts. Jumps that a node saw are counted."""
        if self.wall_clock_skew_ms != self._seen_skew_ms:
            self._seen_skew_ms = self.wall_clock_skew_ms
            self.clock_jump_count += 1
        return START_TIMESTAMP + self.loop.now() + self.wall_clock_skew_ms

    def run(self, coroutine: Coroutine[Any, Any, T], *, within_s: float = 600.0) -> T:
        return self.loop.run(coroutine, within_s=within_s)

    def sleep(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds), within_s=seconds + 10)

    def finish(self) -> None:
        """End of the scenario: what still lives must stop cleanly, and leave sound files."""
        for program in self.programs.values():
            program.kill()
        for host in self.hosts.values():
            if host.is_running:
                self.run(host.stop())
            self.check_files(host)
        for client in self._clients.values():
            client.close()
        self._put_back()
        self.loop.finish()

    def abandon(self) -> None:
        """Leave nothing behind, also of a world that failed."""
        for program in self.programs.values():
            program.kill()
        self._put_back()
        self.loop.abandon()

    def _put_back(self) -> None:
        while self.on_end:
            self.on_end.pop()()

    # Hosts

    def host(self, name: str = "node-1") -> Host:
        if name not in self.hosts:
            self.hosts[name] = Host(self, name, len(self.hosts) + 1, self.properties_of(name))
        return self.hosts[name]

    def properties_of(self, name: str) -> dict[str, str]:
        return self.properties

    def node(self, name: str = "node-1") -> Host:
        """A host with a running node."""
        host = self.host(name)
        if not host.is_running:
            self.run(host.start())
        return host

    def kill(self, name: str = "node-1") -> None:
        self.host(name).kill()

    def power_loss(self, name: str = "node-1") -> None:
        self.host(name).power_loss()

    def stop(self, name: str = "node-1") -> None:
        self.run(self.host(name).stop())

    def restart(self, name: str = "node-1") -> None:
        if self.host(name).is_running:
            self.stop(name)
        self.run(self.host(name).start())
        self.run(self.all_answered())

    def check_files(self, host: Host) -> None:
        """After a stop: the segments and indexes on the disk agree with each other."""
        device = host.device
        for log_dir in host.config().log_directories:
            if device.find(log_dir) is None:
                continue
            starts: dict[str, int] = {}
            if f"{log_dir}/{LOG_STARTS}" in device.files(log_dir):
                for line in device.content(f"{log_dir}/{LOG_STARTS}").decode().splitlines()[2:]:
                    topic, partition, offset = line.split()
                    starts[f"{topic}-{partition}"] = int(offset)
            for directory in device.mount().names(log_dir):
                if "-" in directory and not directory.endswith(("-delete", "-stray")):
                    check_batches(device, f"{log_dir}/{directory}", starts.get(directory, 0))
                    check_indexes(device, f"{log_dir}/{directory}", starts.get(directory, 0))

    def node_made(self, host: Host, node: Node) -> None:
        """A node is about to start."""

    def coordinator(self, group_id: str) -> tuple[int, int]:
        """The coordinator of a group, and its epoch: here there is only one."""
        return 1, 0

    def loads(self, group_id: str) -> int | None:
        """How many logs the coordinator of a group has read; None while it reads one."""
        node = next(iter(self.hosts.values())).node
        return None if node is None or node.coordinators.groups.is_loading else node.coordinators.groups.load_count

    def power_lost(self) -> None:
        """Records that only one machine had may be lost."""
        for history in self.histories.values():
            history.power_lost()

    # Clients

    def client(self, name: str = "client", broker: str = "node-1") -> Client:
        if name not in self._clients:
            self._clients[name] = Client(self.network, name, (broker, PORT))
        return self._clients[name]

    def forget_client(self, name: str) -> None:
        """The program has ended; its kernel closes its connections."""
        client = self._clients.pop(name, None)
        if client is not None:
            client.close()

    def client_names(self) -> list[str]:
        return [*self._clients, *self.programs]

    def history(self, topic: str, partition: int = 0) -> History:
        return self.histories.setdefault((topic, partition), History(f"{topic}-{partition}"))

    def create_topic(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Configs with underscores for dots."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.run(self.client().create_topic(topic, partitions, named))

    def produce(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int = 0,
        acks: int = -1,
        size: int = 100,
        key: str | None = None,
        is_synced: bool = False,
    ) -> int:
        """Records with new values, in one batch; returns the base offset."""
        return self.run(self.produce_batch(topic, count, partition, acks, size, key, is_synced))

    async def produce_batch(
        self, topic: str, count: int, partition: int, acks: int, size: int, key: str | None, is_synced: bool
    ) -> int:
        history = self.history(topic, partition)
        values = [self.new_value(size) for _ in range(count)]
        keys = [None if key is None else key.encode()] * count
        contents = list(zip(keys, values, strict=True))
        batch = batch_of(values, self.clock(), keys=keys)
        history.doubt(contents)
        offset = await self.client().produce(topic, partition, batch, acks=acks)
        if acks:
            history.acknowledge(offset, contents, is_synced=is_synced)
        return offset

    def new_value(self, size: int = 100) -> bytes:
        self._value_count += 1
        return f"{self._value_count}:".encode().ljust(size, b".")

    def see_producer_id(self, producer_id: int) -> None:
        check(producer_id not in self._producer_ids, "producer", f"producer id {producer_id} was given out twice")
        self._producer_ids[producer_id] = None

    def consume(self, topic: str, partition: int = 0) -> list[records.Record]:
        return self.run(self.client().read_all(topic, partition))

    async def verify(self, client: Client, topic: str, partition: int = 0, *, is_compacted: bool = False) -> None:
        """Read everything and compare it with the history."""
        history = self.history(topic, partition)
        for _ in range(20):
            start = await client.list_offset(topic, partition, EARLIEST_TIMESTAMP)
            end = await client.list_offset(topic, partition, LATEST_TIMESTAMP)
            try:
                rows = await client.read_all(topic, partition)
            except KafkaError as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
            else:
                if await client.list_offset(topic, partition, EARLIEST_TIMESTAMP) == start:
                    break  # else retention moved the start while we read
        found = [(record.offset, (record.key, record.value)) for record in rows]
        if is_compacted:
            history.check_compacted(found)
        else:
            history.check_log(found, start, end)
        history.see_high_watermark(end)

    def check(self, topic: str, partition: int = 0, *, is_compacted: bool = False) -> None:
        self.run(self.verify(self.client(), topic, partition, is_compacted=is_compacted))

    async def all_answered(self) -> None:
        """After a start: every client has a connection that works."""
        for client in list(self._clients.values()):
            await self.until_answered(client)

    async def until_answered(self, client: Client, *, within_s: float = 60.0) -> None:
        """Wait until the node answers Metadata."""
        async with asyncio.timeout(within_s):
            while True:
                try:
                    await client.metadata()
                except (NoAnswer, KafkaError):
                    await asyncio.sleep(0.1)
                else:
                    return
