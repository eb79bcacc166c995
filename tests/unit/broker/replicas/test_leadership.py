"""A node knows that it still leads when every replica that could lead instead has fetched again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from ottla.broker.replicas.leadership import Leadership
from ottla.broker.replicas.partitions import Partition
from ottla.cluster import PartitionImage
from ottla.config import TopicConfig
from ottla.replication.fetch_sessions import FetchPartition, FetchSession, FetchSessions
from ottla.replication.leader import Leader
from ottla.storage import Log
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition as Wanted
from ottla.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from tests.unit.broker.rooms import CLOCK, TimedGround, run_timed

ID = b"\x01" * 16


class DelayedAnswer:
    """A fetch that waits for news, until there are some."""

    def __init__(self, session: FetchSession) -> None:
        self._session = session

    def grew(self, wanted: FetchPartition) -> None:
        self._session.parked_follower_fetch = None

    def moved(self) -> None:
        self._session.parked_follower_fetch = None

    def close(self) -> None:
        self._session.parked_follower_fetch = None


class World:
    """Node 1 leads a partition that nodes 2 and 3 follow."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.sessions = FetchSessions(max_slots=10, eviction_ms=1_000, rng=Random(1))
        ground = TimedGround(folder, **settings)
        log = Log.create(ground.disk, f"{folder}/t-0", "t", 0, TopicConfig(), topic_id=ID, timestamp=CLOCK)
        self.partition = Partition("t", ID, 0, log, 0)
        self.leader = Leader(1, self._image(1, 2, 3), start_offset=0, brokers={}, max_lag_ms=30_000, now=0)
        self.partition.lead(self.leader, 0, 1)
        self.leadership = Leadership(ground)
        for replica_id in (2, 3):
            self.begin(replica_id)

    @staticmethod
    def _image(*isr: int, partition_epoch: int = 0) -> PartitionImage:
        return PartitionImage((1, 2, 3), isr, (), (), 1, 0, partition_epoch, (bytes(16),) * 3)

    @property
    def fetches(self) -> dict[int, FetchPartition]:
        return self.partition.fetches

    def shrink_isr(self, *isr: int) -> None:
        assert self.leader.changed(self._image(*isr, partition_epoch=self.leader.partition_epoch + 1))

    def need_in_sync(self, min_insync_replicas: int) -> None:
        self.partition.log.config = TopicConfig(min_insync_replicas=min_insync_replicas)

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
        session.parked_follower_fetch = DelayedAnswer(session)

    def fetch(self, replica_id: int, *, forgets: bool = False) -> None:
        """The follower's next fetch comes."""
        session = self.session(replica_id)
        forgotten = [ForgottenTopic(topic_id=ID, partitions=[0])] if forgets else []
        request = FetchRequest(session_id=session.id, session_epoch=session.epoch, forgotten_topics_data=forgotten)
        self.sessions.open(request, uses_topic_ids=True, now=1, replica_id=replica_id)

    def ask(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.leadership.confirm(self.partition))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


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
        assert world.session(2).parked_follower_fetch is None and world.session(3).parked_follower_fetch is None
        world.fetch(2)
        await some_turns()
        assert not asked.done()
        world.fetch(3)
        await asked
        assert not world.session(2).watchers and not world.session(3).watchers

    run_timed(scenario())


def test_a_fetch_that_was_on_its_way_does_not_count(world: World) -> None:
    async def scenario() -> None:
        world.shrink_isr(1, 2)
        asked = world.ask()
        await some_turns()
        world.fetch(2)
        world.wait(2)
        await some_turns()
        assert not asked.done() and world.session(2).parked_follower_fetch is None, "it is answered at once"
        world.fetch(2)
        await asked

    run_timed(scenario())


def test_later_requests_wait_for_later_fetches_and_share_them(world: World) -> None:
    async def scenario() -> None:
        world.shrink_isr(1, 2)
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

    run_timed(scenario())


def test_a_follower_that_has_another_leader_confirms_nothing(world: World) -> None:
    async def scenario() -> None:
        world.shrink_isr(1, 2)
        world.wait(2)
        asked = world.ask()
        await some_turns()
        world.fetch(2, forgets=True)
        assert await refused(asked)
        assert await refused(world.ask())

    run_timed(scenario())


def test_when_another_leader_is_known_no_request_waits(world: World) -> None:
    async def scenario() -> None:
        asked = world.ask()
        await some_turns()
        later = world.ask()
        await some_turns()
        world.partition.follow(2, 1)
        world.leadership.lost(world.partition)
        assert await refused(asked) and await refused(later)

    run_timed(scenario())


def test_below_min_insync_replicas_leadership_is_not_confirmed(world: World) -> None:
    async def scenario() -> None:
        world.shrink_isr(1)
        world.need_in_sync(2)
        assert await refused(world.ask())
        world.need_in_sync(1)
        await world.ask()

    run_timed(scenario())


def test_a_leader_whose_followers_left_meanwhile_asks_no_broker(world: World) -> None:
    async def scenario() -> None:
        asked = world.ask()
        await asyncio.sleep(0)
        world.partition.lead(None, 0, 1)
        await asked

    run_timed(scenario())


def test_a_leader_without_followers_asks_no_broker(world: World) -> None:
    async def scenario() -> None:
        world.partition.lead(None, 0, 1)
        await world.ask()

    run_timed(scenario())


def test_without_fetch_sessions_no_broker_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path, max_incremental_fetch_session_cache_slots="0")

    async def scenario() -> None:
        await world.ask()

    run_timed(scenario())
