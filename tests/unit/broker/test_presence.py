"""Answers about leaders that wait for a look at the other brokers, and for what becomes of those that may be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from ottla.broker.apis.find_coordinator import find_coordinator
from ottla.broker.apis.metadata import metadata
from ottla.broker.peers.presence import Presence
from ottla.broker.peers.suspicions import GONE_MS, LOOK_MS, Look
from ottla.broker.serving.api import Caller, Peer
from ottla.cluster import BrokerImage, ClusterImage
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse


class World:
    """Node 1, as far as its presence and Metadata look at it, and its clock. Broker 2 is somewhere else."""

    cluster_id = "c"
    config = SimpleNamespace(node_id=1, auto_create_topics_enable=False)
    is_stopping = False

    def __init__(self) -> None:
        self.time = 0
        self.coordinators: dict[int, Any] = {}
        self.timers: list[Callable[[], None]] = []
        self.image = ClusterImage()
        self.register(1)
        self.register(2)
        self.look = Look.ANSWERED
        self.looks = 0
        self.peers = SimpleNamespace(look_at=self._look_at)
        self.loop: Any = SimpleNamespace(
            create_future=lambda: asyncio.get_running_loop().create_future(), call_later=self._call_later
        )
        self.presence = Presence(self)  # type: ignore[arg-type]

    def _call_later(self, _: float, act: Callable[..., None], *given: object) -> Any:
        self.timers.append(lambda: act(*given))
        return SimpleNamespace(cancel=lambda: None)

    async def _look_at(self, host: str, port: int, timeout_ms: int) -> Look:
        assert (host, port) == ("host", 9092)
        self.looks += 1
        await asyncio.sleep(0)
        return self.look

    def now(self) -> int:
        return self.time

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.ensure_future(work)

    def broker_address(self, broker_id: int) -> tuple[str, int]:
        return "host", 9092

    def register(self, id: int, is_fenced: bool = False) -> None:
        self.image.brokers[id] = BrokerImage(id, id, bytes(16), is_fenced=is_fenced)

    def brokers(self, listener: str) -> list[tuple[int, str, int, str | None]]:
        return [(one.id, "host", 9092, None) for one in self.image.brokers.values() if not one.is_fenced]

    def ask_for_a_coordinator(self) -> Any:
        """What is answered to FindCoordinator, of a kind that nobody coordinates here, or an awaitable for it."""
        caller = Caller("c", Peer("127.0.0.1", 1, "", "broker"), 10, 6)
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        return find_coordinator(request, self, caller)  # type: ignore[arg-type]

    def ask(self) -> Any:
        """What is answered to Metadata, or an awaitable for it."""
        caller = Caller("c", Peer("127.0.0.1", 1, "", "broker"), 3, 12)
        return metadata(MetadataRequest(topics=[]), self, caller)  # type: ignore[arg-type]


def listed(response: MetadataResponse) -> list[int]:
    return [broker.node_id for broker in response.brokers]


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def answered_after_the_fence(world: World, asking: Awaitable[Any]) -> Any:
    """Who asks waits, whatever else changes, until broker 2 is fenced."""
    waiting = asyncio.ensure_future(asking)
    await some_turns()
    world.presence.metadata_changed()
    await some_turns()
    assert not waiting.done()
    world.register(2, is_fenced=True)
    world.presence.metadata_changed()
    return await waiting


def test_metadata_waits_until_the_controller_has_decided() -> None:
    async def scenario() -> None:
        world = World()
        world.look = Look.REFUSED
        assert listed(await answered_after_the_fence(world, world.ask())) == [1]

    asyncio.run(scenario())


def test_find_coordinator_waits_for_it_as_well() -> None:
    async def scenario() -> None:
        world = World()
        world.look = Look.REFUSED
        answer = await answered_after_the_fence(world, world.ask_for_a_coordinator())
        assert [one.key for one in answer.coordinators] == ["g"]
        assert [one.key for one in world.ask_for_a_coordinator().coordinators] == ["g"]

    asyncio.run(scenario())


def test_metadata_waits_for_a_broker_whose_connection_broke() -> None:
    async def scenario() -> None:
        world = World()
        world.look = Look.SILENT
        world.presence.connection_broke(2)
        assert listed(await answered_after_the_fence(world, world.ask())) == [1]

    asyncio.run(scenario())


def test_a_connection_that_broke_alone_makes_nobody_wait() -> None:
    async def scenario() -> None:
        world = World()
        world.presence.connection_broke(2)
        assert listed(await world.ask()) == [1, 2]
        assert world.looks == 1

    asyncio.run(scenario())


def test_nobody_waits_for_ever() -> None:
    async def scenario() -> None:
        world = World()
        world.look = Look.REFUSED
        waiting = asyncio.ensure_future(world.ask())
        await some_turns()
        world.time = GONE_MS
        world.timers[-1]()
        assert listed(await waiting) == [1, 2]

    asyncio.run(scenario())


def test_one_look_serves_all_who_ask_within_a_moment() -> None:
    async def scenario() -> None:
        world = World()
        for answer in await asyncio.gather(world.ask(), world.ask()):
            assert listed(answer) == [1, 2]
        assert world.looks == 1
        world.time = LOOK_MS - 1
        assert listed(world.ask()) == [1, 2]
        world.time = LOOK_MS
        assert listed(await world.ask()) == [1, 2]
        assert world.looks == 2

    asyncio.run(scenario())


def test_a_node_alone_answers_at_once() -> None:
    world = World()
    del world.image.brokers[2]
    assert listed(world.ask()) == [1]
