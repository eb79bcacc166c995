"""Several nodes in one world: a quorum, replicated partitions, and clients that find their leaders.

    sim = Cluster(1)                        # three nodes, which elect a controller and register
    sim.create_topic("topic")               # on all of them; min.insync.replicas is 2
    sim.produce("topic", 10)                # acks=all, again until it is answered
    sim.kill(sim.leader("topic"))
    sim.heal()                              # everything runs and reaches everything
    sim.settle()                            # until all replicas are in sync
    sim.check("topic")                      # what was acknowledged is there, and in every replica alike

`Witness` looks at what the nodes believe, all the time. A `Shape` names the brokers and controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ottla import records
from ottla.broker import Node
from ottla.broker.coordinators.runtime import partition_for
from ottla.cluster import PartitionImage
from ottla.sim.checkers import Content, check
from ottla.sim.client import Client, NoAnswer, batch_of
from ottla.sim.cluster import PORT, Host, Sim
from ottla.sim.cluster_client import ClusterClient
from ottla.sim.disk import Crashed
from ottla.sim.network import Weather
from ottla.sim.router import PASSING, Router
from ottla.sim.shape import CLUSTER_ID, Shape
from ottla.sim.witness import Witness, check_images
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC

RETRY_S = 0.1
LOOK_S = 0.02
SETTLING_S = 120.0
"""Within which a cluster that is whole again must be in sync and writable."""


class Cluster(Sim):
    """Several nodes, and what clients know of them."""

    cluster_id = CLUSTER_ID

    def __init__(
        self,
        seed: int = 0,
        *,
        shape: Shape | None = None,
        properties: Mapping[str, str] | None = None,
        weather: Weather | None = None,
        is_started: bool = True,
    ) -> None:
        self.shape = shape or Shape()
        names = self.shape.brokers
        replication_factor = min(3, len(names))
        shared = {
            "default.replication.factor": str(replication_factor),
            "min.insync.replicas": str(replication_factor // 2 + 1),
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": str(replication_factor),
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": str(replication_factor),
            "transaction.state.log.min.isr": str(replication_factor // 2 + 1),
        }
        super().__init__(seed, properties={**shared, **(properties or {})}, weather=weather)
        self.names = names
        self.replication_factor = replication_factor
        self.witness = Witness()
        self._routers: dict[str, Router] = {}
        self.rotten: dict[tuple[str, int], str] = {}
        """Partitions of which one node has a bad copy now."""
        self._newest: dict[tuple[str, int], int] = {}
        """The leader epochs that clients have heard of."""
        for name in self.shape.names:
            host = self.host(name)
            if self.shape.has_dynamic_voters:
                self.shape.format(host.device, name, self.clock())
        self.watching = self.loop.create_task(self._watch(), name="witness")
        if is_started:
            self.run(self.start_all())

    def properties_of(self, name: str) -> dict[str, str]:
        return {**self.properties, **self.shape.properties(name)}

    async def _watch(self) -> None:
        while True:
            for host in self.hosts.values():
                self.witness.look(host)
            await asyncio.sleep(LOOK_S)

    def finish(self) -> None:
        self.network.heal()
        if self.watching.done():
            self.watching.result()
        self.watching.cancel()
        for router in self._routers.values():
            router.close()
        super().finish()

    def power_lost(self) -> None:
        """Other nodes have the acknowledged records."""

    def node_made(self, host: Host, node: Node) -> None:
        def failed() -> None:
            """It cannot go on, and ends: right when its disk is full or broken, else a bug."""
            if host.device.is_sound:
                self.loop.call_exception_handler({"message": f"{host.name}: {node.failure}"})
            self.loop.call_soon(self._end, host, context=self.loop.neutral)

        node.on_failure = failed

    @staticmethod
    def _end(host: Host) -> None:
        if host.is_running:
            host.kill()

    # Nodes

    async def start_all(self) -> None:
        """Start all nodes that do not run, and wait until every node serves."""
        for host in self.hosts.values():
            if not host.is_running:
                self.begin(host.name)
        await asyncio.gather(*(host.serving() for host in self.hosts.values()))

    def begin(self, name: str) -> None:
        """Start a node without waiting: alone it cannot serve."""

        host = self.host(name)

        def started(result: asyncio.Future[None]) -> None:
            error = result.exception()
            if error is None or isinstance(error, Crashed):
                return
            if host.device.is_sound:
                self.loop.call_exception_handler({"message": f"{name} did not start", "exception": error})
            self._end(host)

        host.begin().add_done_callback(started)

    def live(self) -> list[Node]:
        return [host.node for host in self.hosts.values() if host.is_running and host.node is not None]

    def image(self, topic: str, partition: int = 0) -> PartitionImage | None:
        """The newest metadata of a partition in any running node."""
        found = [node.ground.image.partition(topic, partition) for node in self.live()]
        return max((one for one in found if one is not None), key=lambda one: one.partition_epoch, default=None)

    def leader(self, topic: str, partition: int = 0) -> str:
        """The host that leads a partition by the newest metadata."""
        image = self.image(topic, partition)
        assert image is not None and image.leader > 0, f"{topic}-{partition} has no leader"
        return self.names[image.leader - 1]

    def followers(self, topic: str, partition: int = 0) -> list[str]:
        return [name for name in self.names if name != self.leader(topic, partition)]

    def controller(self) -> str:
        """The host of the active controller (of the newest epoch)."""
        leaders = {
            node.metadata.quorum.epoch: node.ground.config.node_id
            for node in self.live()
            if node.metadata.controllership.is_active
        }
        return self.shape.names[leaders[max(leaders)] - 1]

    def cut_off(self, name: str, *, both_ways: bool = True) -> None:
        """Cut this node off from other nodes; clients still reach it."""
        for other in self.shape.names:
            if other != name:
                self.network.cut(name, other, both_ways=both_ways)

    def pause(self, name: str) -> None:
        process = self.host(name).process
        assert process is not None
        self.loop.trace.note(name, "pause")
        self.loop.pause(process)

    def is_paused(self, name: str) -> bool:
        process = self.host(name).process
        return process is not None and self.loop.is_paused(process)

    def resume(self, name: str) -> None:
        process = self.host(name).process
        if process is not None:
            self.loop.trace.note(name, "resume")
            self.loop.resume(process)

    async def healed(self) -> None:
        self.network.heal()
        for name in self.shape.names:
            self.resume(name)
        await self.start_all()

    def heal(self) -> None:
        """Everything runs, and reaches everything."""
        self.run(self.healed())

    @property
    def incarnation(self) -> int:
        """How often a node was started."""
        return sum(host.incarnation for host in self.hosts.values())

    # Waiting

    async def until(self, is_so: Callable[[], bool], what: str, *, within_s: float = SETTLING_S) -> None:
        end = self.loop.time() + within_s
        while not is_so():
            check(self.loop.time() < end, "liveness", f"not within {within_s:g} s: {what}")
            await asyncio.sleep(LOOK_S)

    def wait_for(self, is_so: Callable[[], bool], what: str, *, within_s: float = SETTLING_S) -> None:
        self.run(self.until(is_so, what, within_s=within_s))

    def wait_for_leader(self, topic: str, partition: int = 0, *, other_than: str) -> str:
        """The new leader of a partition, once there is one."""

        def has_other_leader() -> bool:
            image = self.image(topic, partition)
            return image is not None and image.leader > 0 and self.names[image.leader - 1] != other_than

        self.wait_for(has_other_leader, f"a leader of {topic}-{partition} other than {other_than}")
        return self.leader(topic, partition)

    def lag(self, *, is_moving: bool = False, without: str = "") -> str:
        """What is missing until every partition has a leader and all its replicas, and all nodes agree on it. While
        clients write (`is_moving`) the ISR names the replicas in sync, otherwise the ends of the logs. `without` names
        a node that stopped just now, which no other node can know yet."""
        nodes = [node for node in self.live() if self.shape.names[node.ground.config.node_id - 1] != without]
        if len(nodes) < len(self.hosts) - bool(without):
            return f"{len(nodes)} nodes run"
        for node in nodes:
            id = node.ground.config.node_id
            if node.ground.config.is_broker and node.metadata.lifecycle.is_fenced:
                return f"{id} is fenced"
            # The image's offset does not include changes of voters.
            known, expected = self._metadata_known_to(node), self._metadata_known_to(nodes[0])
            if known != expected:
                return (
                    f"{id} has metadata (committed, applied) up to {known}, {nodes[0].ground.config.node_id} {expected}"
                )
            for topic in node.ground.image.topics_by_name.values():
                for index, partition in topic.partitions.items():
                    if missing := self._lag_of(id, topic.name, index, partition, is_moving=is_moving):
                        return missing
        return ""

    @staticmethod
    def _metadata_known_to(node: Node) -> tuple[int, int]:
        return node.metadata.quorum.high_watermark, node.ground.image_offset

    def _lag_of(self, id: int, topic: str, index: int, partition: PartitionImage, *, is_moving: bool) -> str:
        if (
            partition.leader < 0
            or sorted(partition.isr) != sorted(partition.replicas)
            or partition.adding
            or partition.removing
        ):
            return f"{id} knows {topic}-{index} as {partition}"
        if is_moving or id not in partition.replicas:
            return ""
        led, here = self._hosted(partition.leader, topic, index), self._hosted(id, topic, index)
        if here is None or led is None or here[0] != led[0] or min(here) < led[0]:
            return f"{topic}-{index} on {id} ends (high watermark) at {here}, its leader's at {led}"
        return ""

    def _hosted(self, node_id: int, topic: str, index: int) -> tuple[int, int] | None:
        node = self.hosts[self.names[node_id - 1]].node
        found = node.replicas.partitions.get(topic, index) if node is not None else None
        return None if found is None else (found.log.log_end_offset, found.log.high_watermark)

    async def settled(self, *, is_moving: bool = False) -> None:
        end = self.loop.time() + SETTLING_S
        while lag := self.lag(is_moving=is_moving):
            check(self.loop.time() < end, "liveness", f"not in sync within {SETTLING_S:g} s: {lag}")
            await asyncio.sleep(LOOK_S)

    def settle(self) -> None:
        """Until all replicas have everything."""
        self.run(self.settled())
        self.check_metadata()

    # Clients

    def is_passing(self, error: KafkaError, topic: str, partition: int) -> bool:
        """Whether an answer (or the client's error for it) is normal while nodes fail."""
        if error.code is ErrorCode.CORRUPT_MESSAGE and (topic, partition) in self.rotten:
            return True
        return error.code in PASSING

    def router(self, name: str = "client") -> Router:
        if name not in self._routers:
            clients = [Client(self.network, name, (broker, PORT)) for broker in self.names]
            self._routers[name] = Router(clients, self._newest)
        return self._routers[name]

    def client(self, name: str = "client", broker: str = "") -> Client:
        """A client as workloads of one node have it, which finds the broker for each request by itself."""
        if name not in self._clients:
            self._clients[name] = ClusterClient(
                self.network, name, [(node, PORT) for node in self.names], self._newest, self.replication_factor
            )
        return self._clients[name]

    def reconnect(self) -> None:
        """At rest no node has a connection to a node that is gone."""
        for router in self._routers.values():
            router.close()
        for client in self._clients.values():
            client.close()

    def client_names(self) -> list[str]:
        return [*self._routers, *super().client_names()]

    def create_topic(self, topic: str, partitions: int = 1, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        router = self.router()
        self.run(router.any_broker().create_topic(topic, partitions, named, replicas=self.replication_factor))
        self.settle()

    async def until_created(self, topic: str) -> None:
        """Create a topic, again until it is there."""
        router = self.router()
        while True:
            try:
                await router.any_broker().create_topic(topic, 1, {}, replicas=2)
            except (NoAnswer, KafkaError) as error:
                if isinstance(error, KafkaError):
                    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                        return
                    if error.code not in PASSING:
                        raise
                await asyncio.sleep(RETRY_S)
            else:
                return

    def produce(self, topic: str, count: int = 1, *, via: str | None = None, acks: int = -1, **_: Any) -> int:
        """Records with new values, in one batch, sent until they are acknowledged; returns their base
        offset. `via` one node: sent once, to it, whatever it answers."""
        return self.run(self.produced(topic, count, via=via, acks=acks))

    async def produced(self, topic: str, count: int, *, via: str | None = None, acks: int = -1) -> int:
        history = self.history(topic)
        values = [self.new_value() for _ in range(count)]
        contents: list[Content] = [(None, value) for value in values]
        history.doubt(contents)
        batch = batch_of(values, self.clock())
        router = self.router()
        while True:
            try:
                if via is not None:
                    return await router.of(via).produce(topic, 0, batch, acks=acks)
                offset = await router.produce(topic, 0, batch, acks=acks)
            except (NoAnswer, KafkaError) as error:
                if via is not None or (isinstance(error, KafkaError) and error.code not in PASSING):
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                if acks == -1:
                    history.acknowledge(offset, contents)
                return offset

    async def write(self, topic: str, count: int, *, acks: int) -> None:
        """Records that no check counts on."""
        await self.router().produce(
            topic, 0, batch_of([self.new_value() for _ in range(count)], self.clock()), acks=acks
        )

    # What must hold

    def log(self, name: str, topic: str, partition: int = 0) -> list[tuple[int, int, bytes]]:
        """The content of one replica's files: offset, leader epoch and bytes of every batch."""
        device = self.host(name).device
        found = []
        for log_dir in self.host(name).config().log_directories:
            for path in device.files(f"{log_dir}/{topic}-{partition}"):
                if path.endswith(".log"):
                    data = device.content(path)
                    for position, header in records.split(data):
                        batch = data[position : position + header.size]
                        found.append((header.base_offset, header.leader_epoch, batch))
        return found

    def check_replicas(self, topic: str, partition: int = 0) -> None:
        """In sync, every replica is the same, byte for byte, and no other node has one."""
        image = self.image(topic, partition)
        assert image is not None
        leader = self.leader(topic, partition)
        expected = self.log(leader, topic, partition)
        for name in self.names:
            where = f"{topic}-{partition} on {name}"
            if self.shape.id_of(name) in image.replicas:
                check(
                    self.log(name, topic, partition) == expected, "replicas", f"{where} is not what it is on {leader}"
                )
                self._check_epochs(name, topic, partition)
            else:
                check(not self.log(name, topic, partition), "replicas", f"{where}: it has a log, but is no replica")

    def _check_epochs(self, name: str, topic: str, partition: int) -> None:
        """A replica has the start offset of each leader epoch in its log."""
        begun: dict[int, int] = {}
        for offset, leader_epoch, _ in self.log(name, topic, partition):
            begun.setdefault(leader_epoch, offset)
        node = self.host(name).node
        hosted = None if node is None else node.replicas.partitions.get(topic, partition)
        assert hosted is not None
        known = {epoch: offset for epoch, offset in hosted.log.epochs.entries if epoch in begun}
        check(known == begun, "epochs", f"{topic}-{partition} on {name}: {known}, but the log says {begun}")

    def check_metadata(self) -> None:
        """All nodes know the same."""
        check_images(self.live())

    def coordinator(self, group_id: str) -> tuple[int, int]:
        """The coordinator of a group by the newest metadata, and its epoch; (-1, -1) for none."""
        found = self._coordinating(group_id)
        return (-1, -1) if found is None else (found.leader, found.leader_epoch)

    def loads(self, group_id: str) -> int | None:
        found = self._coordinating(group_id)
        node = None if found is None else self.host(self.names[found.leader - 1]).node
        return None if node is None or node.coordinators.groups.is_loading else node.coordinators.groups.load_count

    def _coordinating(self, group_id: str) -> PartitionImage | None:
        count = int(self.properties["offsets.topic.num.partitions"])
        image = self.image(GROUP_METADATA_TOPIC, partition_for(group_id, count))
        return image if image is not None and image.leader > 0 else None

    async def verified(self, topic: str, partition: int = 0) -> list[tuple[int, Content]]:
        """Read everything and compare it with the history."""
        router, history = self.router(), self.history(topic, partition)
        end = self.loop.time() + SETTLING_S
        while True:
            try:
                start, end_offset, found = await router.read_all(topic, partition)
            except (NoAnswer, KafkaError) as error:
                if isinstance(error, KafkaError) and error.code not in PASSING:
                    raise
                check(self.loop.time() < end, "liveness", f"{topic} is not readable: {error}")
                await asyncio.sleep(RETRY_S)
            else:
                rows: list[tuple[int, Content]] = [(one.offset, (one.key, one.value)) for one in found]
                history.check_log(rows, start, end_offset)
                history.see_high_watermark(end_offset)
                return rows

    def check(self, topic: str, partition: int = 0, **_: Any) -> None:
        self.run(self.verified(topic, partition))
        self.check_replicas(topic, partition)
