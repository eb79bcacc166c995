"""Rooms for tests: the real ones, on a ground whose time the test sets, with logs in a temporary folder.

    ground = Ground(path)
    replicas = make_replicas(ground)
    add_topic(replicas, "t", partition_count=2)
    answer = call(list_offsets, request, caller, ground, replicas)

No sockets: `NoPeers` refuses to be used, `AskedController` keeps what it is asked and answers what the test gives.

Where a room waits, `run_timed` runs the test on the simulator's loop, whose time moves by itself; `TimedGround` goes by
that time. `make_metadata` is the real metadata room, of a quorum of one, which leads after `lead`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from ottla.broker import ground as broker_ground
from ottla.broker.caller import Caller, Client
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.metadata.feed import Follower
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.peers.peers import Peers
from ottla.broker.peers.presence import Presence
from ottla.broker.replicas.partitions import Partition
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api
from ottla.cluster import PartitionImage, TopicImage
from ottla.config import BrokerConfig, TopicConfig
from ottla.net import Deadlines
from ottla.sim.loop import Loop
from ottla.storage import Log, Logs
from ottla.wire import Message

Result = TypeVar("Result")

CLOCK = 1_700_000_000_000
CLIENT = Client("10.0.0.9", 5555, "PLAINTEXT", "broker")


class Ground(broker_ground.Ground):
    """Node 1. `ms` is its time; its loop is the one that runs."""

    def __init__(self, path: Path | str = "/nowhere", **settings: str) -> None:
        config = BrokerConfig.parse(
            {
                "node.id": "1",
                "process.roles": "broker,controller",
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(path),
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        super().__init__(config, clock=lambda: CLOCK + self.ms, rng=Random(1))
        self.path = path
        self.ms = 0
        self.timer = lambda: 0.0
        self.bugs: list[BaseException] = []
        self.on_bug = self.bugs.append

    def __getattr__(self, name: str) -> Any:
        if name == "loop":
            return asyncio.get_running_loop()
        if name == "deadlines":
            return Deadlines(asyncio.get_running_loop())
        raise AttributeError(name)

    def now(self) -> int:
        return self.ms

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Background work that has not ended."""
        return list(self._tasks)


class TimedGround(Ground):
    """Its time is that of the loop."""

    def now(self) -> int:
        return broker_ground.Ground.now(self)


def run_timed(scenario: Coroutine[Any, Any, Result]) -> Result:
    """Run a scenario in virtual time. An exception that nothing handles fails it, and so does a wait without end."""
    loop = Loop(seed=1)
    result = loop.run(scenario)
    loop.finish()
    return result


class NoPeers(Peers):
    """There are no other nodes."""

    def __init__(self) -> None:
        pass


class NoMetadata(Metadata):
    """No metadata log, no quorum: for handlers that need them in other cases than the tested ones."""

    def __init__(self) -> None:
        pass


class AskedController:
    """The active controller as rooms ask it: keeps requests, gives the next of `answers`."""

    def __init__(self, *answers: Any) -> None:
        self.broker_epoch = 1
        self.asked: list[Message] = []
        self.answers = list(answers)

    async def ask(self, request: Message, *, timeout_ms: int = 0) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def make_logs(ground: broker_ground.Ground) -> Logs:
    config = ground.config
    return Logs(ground.disk, config.log_directories, config, ground.clock, now=ground.now, rng=ground.rng)


def make_replicas(ground: Ground, controller: AskedController | None = None) -> Replicas:
    peers = NoPeers()
    return Replicas(ground, peers, Presence(ground, peers), make_logs(ground), controller or AskedController())


class LocalBroker:
    """This node's broker, as its lifecycle knows it."""

    host_name = "localhost"
    leads_anything = False

    def __init__(self, logs: Logs) -> None:
        self.logs = logs

    def port(self, listener: str) -> int:
        return 9092


class NoApis:
    """The controller's own APIs are not called."""

    async def answer(self, request: Message, client_id: str) -> Any:
        raise AssertionError(f"{type(request).__name__} is not served")


def make_metadata(ground: Ground) -> Metadata:
    """The metadata room of a quorum of one, with its log in the ground's folder. It needs a running loop."""
    metadata_log = MetadataLog(ground.disk, ground.config, clock=ground.clock, rng=ground.rng)
    ground.image = metadata_log.load()
    return Metadata(ground, NoPeers(), metadata_log, LocalBroker(make_logs(ground)), NoApis())


async def lead(metadata: Metadata, followers: Sequence[Follower] = ()) -> None:
    """Have this node lead the quorum and be the active controller; these follow what is committed."""
    metadata.quorum.start()
    await metadata.caught_up()
    metadata.feed.reconcile()
    metadata.feed.go_live(followers)


def make_groups(ground: Ground, replicas: Replicas, controller: AskedController | None = None) -> GroupCoordinator:
    return GroupCoordinator(ground, replicas, controller or AskedController())


def make_transactions(
    ground: Ground, replicas: Replicas, groups: GroupCoordinator, producer_ids: ProducerIds | None = None
) -> TransactionCoordinator:
    controller = AskedController()
    ids = producer_ids if producer_ids is not None else ProducerIds(ground, controller)
    return TransactionCoordinator(ground, replicas, controller, NoPeers(), groups, ids)


def led_here(leader_epoch: int = 0) -> PartitionImage:
    """A partition whose only replica is node 1."""
    return PartitionImage((1,), (1,), (), (), 1, leader_epoch, 0, (bytes(16),))


def add_topic(
    replicas: Replicas,
    name: str,
    topic_id: bytes,
    partition_count: int = 1,
    config: TopicConfig | None = None,
    leader_epoch: int = 0,
) -> None:
    """A topic in the image, its partitions led here, alone, with logs in the folder."""
    ground = replicas.ground
    assert isinstance(ground, Ground)
    topic = TopicImage(name, topic_id, dict.fromkeys(range(partition_count), led_here(leader_epoch)))
    ground.image.topics_by_name[name] = ground.image.topics_by_id[topic_id] = topic
    for index in range(partition_count):
        folder = f"{ground.path}/{name}-{index}"
        config = config or TopicConfig()
        log = Log.create(ground.disk, folder, name, index, config, topic_id=topic_id, timestamp=CLOCK)
        replicas.partitions.add(Partition(name, topic_id, index, log, leader_epoch))


def call(handler: Callable[..., Any], request: Message, caller: Caller, *rooms: Any) -> Any:
    """What a handler answers that gets those of the rooms that its signature names."""
    by_type = {kind: room for room in rooms for kind in type(room).__mro__}
    return handler(request, *(by_type[room] for room in Api(key=0, handler=handler, needs=()).rooms), caller)
