"""Answers about leaders that wait for a look at the other brokers, and for what becomes of those that may be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla.broker.apis.find_coordinator import find_coordinator
from ottla.broker.apis.metadata import metadata
from ottla.broker.caller import Caller, Client
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.peers.peers import Peers
from ottla.broker.peers.presence import Presence
from ottla.broker.peers.suspicions import GONE_MS, LOOK_MS, Look
from ottla.cluster import BrokerImage, Endpoint, ImageChanges
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.broker.rooms import AskedController, TimedGround, call, make_metadata, make_replicas, run_timed

LISTENER = "PLAINTEXT"
UNKNOWN_KEY_TYPE = 7


class LookedAt(Peers):
    """Other brokers, which all answer alike; how often one was looked at."""

    def __init__(self) -> None:
        self.look = Look.ANSWERED
        self.looks = 0
        self.hung_up: list[tuple[str, int]] = []

    async def look_at(self, host: str, port: int, timeout_ms: int, *, is_foreign_tls: bool | None = None) -> Look:
        assert (host, port) == ("host", 9092)
        self.looks += 1
        await asyncio.sleep(0)
        return self.look

    def hang_up(self, host: str, port: int) -> None:
        self.hung_up.append((host, port))


class World:
    """Node 1, and broker 2 somewhere else."""

    def __init__(self, folder: Path) -> None:
        self.ground = TimedGround(folder, auto_create_topics_enable="false")
        self.peers = LookedAt()
        self.presence = Presence(self.ground, self.peers)
        replicas = make_replicas(self.ground)
        coordinators = Coordinators(self.ground, replicas, self.peers, AskedController())
        self._rooms = (self.ground, self.presence, make_metadata(self.ground), replicas, coordinators)
        self.register(1)
        self.register(2)

    def register(self, id: int, is_fenced: bool = False) -> None:
        endpoints = {LISTENER: Endpoint(LISTENER, "host", 9092, 0)}
        broker = BrokerImage(id, id, bytes(16), is_fenced=is_fenced, endpoints=endpoints)
        self.ground.image.brokers[id] = broker

    def changed(self) -> None:
        """Records that concern broker 2 took effect."""
        self.presence.image_changed(ImageChanges(brokers_changed={2: None}))

    def ask_for_a_coordinator(self) -> Any:
        """What is answered to FindCoordinator, of a kind without a coordinator, or an awaitable for it."""
        caller = Caller("c", Client("127.0.0.1", 1, LISTENER, "broker"), 10, 6)
        request = FindCoordinatorRequest(key_type=UNKNOWN_KEY_TYPE, coordinator_keys=["g"])
        return call(find_coordinator, request, caller, *self._rooms)

    def ask(self) -> Any:
        """What is answered to Metadata, or an awaitable for it."""
        caller = Caller("c", Client("127.0.0.1", 1, LISTENER, "broker"), 3, 12)
        return call(metadata, MetadataRequest(topics=[]), caller, *self._rooms)


def listed(response: MetadataResponse) -> list[int]:
    return [broker.node_id for broker in response.brokers]


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def answered_after_the_fence(world: World, asking: Awaitable[Any]) -> Any:
    """Who asks waits, whatever else changes, until broker 2 is fenced."""
    waiting = asyncio.ensure_future(asking)
    await some_turns()
    world.changed()
    await some_turns()
    assert not waiting.done()
    world.register(2, is_fenced=True)
    world.changed()
    return await waiting


def test_metadata_waits_until_the_controller_has_decided(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.peers.look = Look.REFUSED
        assert listed(await answered_after_the_fence(world, world.ask())) == [1]

    run_timed(scenario())


def test_find_coordinator_waits_for_it_as_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.peers.look = Look.REFUSED
        answer = await answered_after_the_fence(world, world.ask_for_a_coordinator())
        assert [one.key for one in answer.coordinators] == ["g"]
        assert [one.key for one in world.ask_for_a_coordinator().coordinators] == ["g"]

    run_timed(scenario())


def test_metadata_waits_for_a_broker_whose_connection_broke(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.peers.look = Look.SILENT
        world.presence.connection_broke(2)
        assert listed(await answered_after_the_fence(world, world.ask())) == [1]

    run_timed(scenario())


def test_a_connection_that_broke_alone_makes_no_request_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.presence.connection_broke(2)
        assert listed(await world.ask()) == [1, 2]
        assert world.peers.looks == 1

    run_timed(scenario())


def test_no_request_waits_for_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.peers.look = Look.REFUSED
        asked_at = world.ground.now()
        assert listed(await world.ask()) == [1, 2]
        assert world.ground.now() - asked_at == GONE_MS

    run_timed(scenario())


def test_one_look_answers_all_requests_of_the_same_moment(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        for answer in await asyncio.gather(world.ask(), world.ask()):
            assert listed(answer) == [1, 2]
        assert world.peers.looks == 1
        await asyncio.sleep((LOOK_MS - 1) / 1000)
        assert listed(world.ask()) == [1, 2]
        await asyncio.sleep(0.001)
        assert listed(await world.ask()) == [1, 2]
        assert world.peers.looks == 2

    run_timed(scenario())


def test_a_node_alone_answers_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        del world.ground.image.brokers[2]
        assert listed(world.ask()) == [1]

    run_timed(scenario())


def test_connections_to_a_broker_end_when_it_is_fenced_or_is_no_more(tmp_path: Path) -> None:
    """What was sent to one without power would otherwise wait until its time is up."""

    async def scenario() -> None:
        world = World(tmp_path)
        brokers = world.ground.image.brokers
        before = brokers[2]

        def changes(now: BrokerImage | None) -> int:
            """How often this node hangs up when broker 2 becomes what is given."""
            del world.peers.hung_up[:]
            brokers.pop(2)
            if now is not None:
                brokers[2] = now
            world.presence.image_changed(ImageChanges(brokers_changed={2: before}))
            assert set(world.peers.hung_up) <= {("host", 9092)}
            brokers[2] = before
            return len(world.peers.hung_up)

        assert changes(replace(before, is_in_controlled_shutdown=True)) == 0
        assert changes(replace(before, is_fenced=True)) == 1
        assert changes(replace(before, epoch=before.epoch + 1)) == 1, "another process"
        assert changes(None) == 1
        before = replace(before, is_fenced=True)
        assert changes(replace(before, is_fenced=False)) == 0, "what was fenced already"

    run_timed(scenario())
