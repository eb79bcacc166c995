"""Answers about leaders that are held back while a broker may be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.api import Caller, Peer
from ottla.broker.apis.metadata import metadata
from ottla.broker.suspicions import HOLD_MS, REST_MS, Suspicions
from ottla.cluster import BrokerImage, ClusterImage
from ottla.wire.messages.metadata import MetadataRequest


class World:
    """The part of a node that suspicions use, and its clock."""

    def __init__(self) -> None:
        self.time = 0
        self.timers: list[Callable[[], None]] = []
        self.image = ClusterImage()
        self.register(2, epoch=20)
        self.loop: Any = SimpleNamespace(
            create_future=lambda: asyncio.get_running_loop().create_future(),
            call_later=lambda _, act, *given: self.timers.append(lambda: act(*given)),
        )
        self.suspicions = Suspicions(self)  # type: ignore[arg-type]

    def now(self) -> int:
        return self.time

    def register(self, id: int, epoch: int, is_fenced: bool = False) -> None:
        self.image.brokers[id] = BrokerImage(id, epoch, bytes(16), is_fenced=is_fenced)

    # What Metadata uses

    cluster_id = "c"
    controllership = SimpleNamespace()
    config = SimpleNamespace(node_id=1, auto_create_topics_enable=False)

    def brokers(self, listener: str) -> list[tuple[int, str, int, str | None]]:
        return [(one.id, "host", 9092, None) for one in self.image.brokers.values() if not one.is_fenced]


def test_metadata_waits_until_the_controller_has_decided() -> None:
    async def scenario() -> None:
        world = World()
        world.register(3, epoch=30)
        world.suspicions.connection_broke(2)
        caller = Caller("c", Peer("127.0.0.1", 1, "", "broker"), 3, 12)
        answer: Any = metadata(MetadataRequest(topics=[]), world, caller)  # type: ignore[arg-type]
        waiting = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        world.suspicions.metadata_changed()
        await asyncio.sleep(0)
        assert not waiting.done()
        world.register(2, epoch=20, is_fenced=True)
        world.suspicions.metadata_changed()
        assert [broker.node_id for broker in (await waiting).brokers] == [3]

    asyncio.run(scenario())


def test_nobody_waits_longer_than_a_moment() -> None:
    async def scenario() -> None:
        world = World()
        world.suspicions.connection_broke(2)
        assert world.suspicions.are_open
        world.time = HOLD_MS
        world.timers[0]()
        await world.suspicions.settled()
        assert not world.suspicions.are_open

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("id", "epoch", "is_fenced", "time", "is_suspected"),
    [
        (2, 20, False, REST_MS - 1, False),  # cut off, not gone: no second wait
        (2, 20, False, REST_MS, True),
        (2, 21, False, HOLD_MS, True),  # another process
        (2, 20, True, REST_MS, False),
        (9, 1, False, 0, True),
    ],
)
def test_a_broker_is_not_suspected_again_and_again(
    id: int, epoch: int, is_fenced: bool, time: int, is_suspected: bool
) -> None:
    async def scenario() -> None:
        world = World()
        world.suspicions.connection_broke(2)
        world.timers[0]()
        world.time = time
        world.register(id, epoch, is_fenced)
        world.suspicions.connection_broke(id)
        world.suspicions.connection_broke(7)  # nobody knows it
        assert world.suspicions.are_open == is_suspected

    asyncio.run(scenario())
