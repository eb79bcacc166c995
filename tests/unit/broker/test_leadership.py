"""Whether a node still leads is known when everybody who could lead instead has asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from ottla.broker import leadership
from ottla.broker.replicas.leadership import Leadership
from ottla.replication.fetch_sessions import FetchPartition, FetchSession, FetchSessions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition as Wanted
from ottla.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic

ID = b"\x01" * 16


class Waiting:
    """A fetch that waits for news, until there are some."""

    def __init__(self, session: FetchSession) -> None:
        self._session = session

    def grew(self, wanted: FetchPartition) -> None:
        self._session.waiting = None

    def moved(self) -> None:
        self._session.waiting = None

    def close(self) -> None:
        self._session.waiting = None


class World:
    """Node 1 leads a partition that nodes 2 and 3 follow; its own node, partition and leader at once."""

    max_incremental_fetch_session_cache_slots = 1_000

    def __init__(self) -> None:
        self.sessions = FetchSessions(max_slots=10, eviction_ms=1_000, rng=Random(1))
        self.fetches: dict[int, FetchPartition] = {}
        self.is_alone = False
        self.is_leader = self.has_enough = True
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.config = self.leader = self
        self.leadership = Leadership(self)  # type: ignore[arg-type]
        for replica_id in (2, 3):
            self.begin(replica_id)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    def check_leader(self) -> None:
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def has_enough_in_sync(self) -> bool:
        return self.has_enough

    def electable(self) -> tuple[int, ...]:
        return self.isr[1:]

    def begin(self, replica_id: int) -> None:
        topic = FetchTopic(topic_id=ID, partitions=[Wanted(partition=0)])
        request = FetchRequest(session_epoch=0, topics=[topic])
        context = self.sessions.open(request, uses_topic_ids=True, now=0, replica_id=replica_id)
        (self.fetches[replica_id],) = context.partitions

    def session(self, replica_id: int) -> FetchSession:
        session = self.fetches[replica_id].session
        assert session is not None
        return session

    def wait(self, replica_id: int) -> None:
        """The follower's fetch waits for news."""
        session = self.session(replica_id)
        session.waiting = Waiting(session)

    def fetch(self, replica_id: int, *, forgets: bool = False) -> None:
        """The follower's next fetch comes."""
        session = self.session(replica_id)
        forgotten = [ForgottenTopic(topic_id=ID, partitions=[0])] if forgets else []
        request = FetchRequest(session_id=session.id, session_epoch=session.epoch, forgotten_topics_data=forgotten)
        self.sessions.open(request, uses_topic_ids=True, now=1, replica_id=replica_id)

    def ask(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.leadership.confirm(self))  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


async def some_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def refused(asked: asyncio.Task[None]) -> bool:
    with pytest.raises(KafkaError) as raised:
        await asked
    return raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_that_waits_is_answered_and_the_next_one_counts(world: World) -> None:
    async def scenario() -> None:
        world.wait(2)
        world.wait(3)
        asked = world.ask()
        await some_turns()
        assert world.session(2).waiting is None and world.session(3).waiting is None
        world.fetch(2)
        await some_turns()
        assert not asked.done()
        world.fetch(3)
        await asked
        assert not world.session(2).watchers and not world.session(3).watchers

    asyncio.run(scenario())


def test_a_fetch_that_was_on_its_way_does_not_count(world: World) -> None:
    async def scenario() -> None:
        world.isr = (1, 2)
        asked = world.ask()
        await some_turns()
        world.fetch(2)
        world.wait(2)
        await some_turns()
        assert not asked.done() and world.session(2).waiting is None, "it is answered at once"
        world.fetch(2)
        await asked

    asyncio.run(scenario())


def test_who_asks_later_waits_for_later_fetches_and_shares_them(world: World) -> None:
    async def scenario() -> None:
        world.isr = (1, 2)
        world.wait(2)
        first = world.ask()
        await some_turns()
        later = [world.ask(), world.ask()]
        await some_turns()
        world.fetch(2)
        await first
        await some_turns()
        assert len(world.session(2).watchers) == 1
        assert not any(asked.done() for asked in later)
        world.fetch(2)
        world.fetch(2)
        await asyncio.gather(*later)

    asyncio.run(scenario())


def test_a_follower_that_has_another_leader_confirms_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "CONFIRMED_WITHIN_MS", 20)

    async def scenario() -> None:
        world.isr = (1, 2)
        world.wait(2)
        asked = world.ask()
        await some_turns()
        world.fetch(2, forgets=True)
        assert await refused(asked)
        assert await refused(world.ask())

    asyncio.run(scenario())


def test_when_another_is_known_to_lead_nobody_waits(world: World) -> None:
    async def scenario() -> None:
        asked = world.ask()
        await some_turns()
        later = world.ask()
        await some_turns()
        world.is_leader = False
        world.leadership.lost(world)  # type: ignore[arg-type]
        assert await refused(asked) and await refused(later)

    asyncio.run(scenario())


def test_without_enough_in_sync_somebody_else_may_lead(world: World) -> None:
    async def scenario() -> None:
        world.isr, world.has_enough = (1,), False
        assert await refused(world.ask())
        world.has_enough = True
        await world.ask()

    asyncio.run(scenario())


def test_who_leads_alone_by_now_asks_nobody(world: World) -> None:
    async def scenario() -> None:
        asked = world.ask()
        world.leader = None  # type: ignore[assignment]
        await asked

    asyncio.run(scenario())


def test_who_leads_alone_asks_nobody(world: World) -> None:
    async def scenario() -> None:
        world.is_alone = True
        await world.ask()
        world.is_alone = False
        world.max_incremental_fetch_session_cache_slots = 0
        await world.ask()

    asyncio.run(scenario())
