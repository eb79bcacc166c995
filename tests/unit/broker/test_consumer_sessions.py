"""A consumer's fetch session looks only at partitions that may have news, and misses none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.apis.fetch import fetch
from ottla.broker.caller import Caller
from ottla.broker.replicas.replicas import FETCH_SESSION_EVICTION_MS
from ottla.replication.fetch_sessions import FetchSession
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.unit.broker.rooms import CLIENT, NoMetadata
from tests.unit.broker.test_produce_and_fetch import ID, World, batch, values

PARTITIONS = 50


class Consumer:
    """One at the end of every partition, in a session that has been told everything."""

    def __init__(self, world: World) -> None:
        self.world = world
        first = world.fetch(*((index, 0) for index in range(PARTITIONS)), session_epoch=0)
        self.id, self.epoch = first.session_id, 1
        assert self.fetch().responses == []

    def fetch(self, *wanted: tuple[int, int], **settings: Any) -> Any:
        answer = self.world.fetch(*wanted, session_id=self.id, session_epoch=self.epoch, **settings)
        self.epoch += 1
        return answer

    @property
    def session(self) -> FetchSession:
        return self.world.fetch_sessions._sessions[self.id]

    @property
    def ready(self) -> list[int]:
        return [wanted.index for wanted in self.session.ready]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, partitions=PARTITIONS)


@pytest.fixture
def consumer(world: World) -> Consumer:
    return Consumer(world)


def waiters(world: World) -> int:
    return sum(len(partition.delayed_fetches) for partition in world.partitions)


def test_only_what_grew_is_looked_at(world: World, consumer: Consumer) -> None:
    assert consumer.ready == []
    world.produce((7, batch(b"a")), (3, batch(b"b")))
    assert consumer.ready == [7, 3]
    assert values(consumer.fetch()) == {7: [b"a"], 3: [b"b"]}
    assert values(consumer.fetch((7, 1))) == {3: [b"b"]}, "what was not taken comes again"
    assert values(consumer.fetch((3, 1))) == {}
    assert consumer.ready == []
    assert waiters(world) == PARTITIONS


def test_a_fetch_that_waits_is_woken_by_what_had_been_set_aside(world: World, consumer: Consumer) -> None:
    async def scenario() -> None:
        size = len(batch(b"a"))
        waiting = consumer.fetch(max_wait_ms=60_000, min_bytes=3 * size)
        for index in (4, 4, 5):
            assert not waiting.done()
            world.produce((index, batch(b"a")))
        assert values(await waiting) == {4: [b"a", b"a"], 5: [b"a"]}
        assert consumer.session.parked_consumer_fetch is None

    asyncio.run(scenario())


def test_a_second_fetch_ends_the_first(world: World, consumer: Consumer) -> None:
    async def scenario() -> None:
        first = consumer.fetch(max_wait_ms=60_000)
        second = consumer.fetch(max_wait_ms=60_000)
        assert (await asyncio.wait_for(first, 60)).responses == []
        world.produce((9, batch(b"a")))
        assert values(await second) == {9: [b"a"]}

    asyncio.run(scenario())


def test_a_session_that_ends_takes_its_fetch_along_and_leaves_nothing_behind(world: World, consumer: Consumer) -> None:
    async def scenario() -> None:
        waiting = consumer.fetch(max_wait_ms=3_600_000)
        world.fetch(session_id=consumer.id, session_epoch=-1)
        assert (await asyncio.wait_for(waiting, 60)).responses == []
        assert waiters(world) == 0

    asyncio.run(scenario())


def test_a_fetch_that_is_gone_does_not_take_the_news_with_it(world: World, consumer: Consumer) -> None:
    async def scenario() -> None:
        waiting = consumer.fetch(max_wait_ms=60_000, min_bytes=10_000)
        world.produce((9, batch(b"a")))
        waiting.cancel()
        await asyncio.sleep(0)
        assert consumer.session.parked_consumer_fetch is None
        assert values(consumer.fetch()) == {9: [b"a"]}

    asyncio.run(scenario())


def test_a_byte_limit_starves_no_partition(world: World, consumer: Consumer) -> None:
    size = len(batch(b"a"))
    for index in range(5):
        world.produce((index, batch(b"a")))
    seen: list[int] = []
    for _ in range(5):
        seen += [index for index, found in values(consumer.fetch(max_bytes=size)).items() if found]
    assert seen == [0, 1, 2, 3, 4]


def test_a_fetch_with_an_old_leader_epoch_is_refused(world: World) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100, current_leader_epoch=3)
    topics = [FetchTopic(topic_id=ID, partitions=[wanted])]
    caller = Caller("app", CLIENT, 1, 15)
    request = FetchRequest(session_epoch=0, max_wait_ms=0, topics=topics)
    opened: Any = fetch(request, world.ground, NoMetadata(), world.replicas, world.quotas, caller)
    assert world.fetch(session_id=opened.session_id, session_epoch=1, version=15).responses == []
    world.partitions.by_name["t"][0].lead(None, 4, 1)
    for epoch in (2, 3):
        (topic,) = world.fetch(session_id=opened.session_id, session_epoch=epoch, version=15).responses
        assert topic.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_deleted_topic_is_told_of(world: World, consumer: Consumer) -> None:
    world.partitions.remove("t")
    (topic,) = consumer.fetch().responses
    assert len(topic.partitions) == PARTITIONS
    assert {row.error_code for row in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}


def test_where_the_log_starts_now_is_told(world: World, consumer: Consumer) -> None:
    world.produce((6, batch(b"a")))
    consumer.fetch()
    assert consumer.fetch((6, 1)).responses == [] and consumer.ready == []
    partition = world.partitions.by_name["t"][6]
    partition.log.delete_records(1)
    partition.tell_of_start()
    (topic,) = consumer.fetch().responses
    assert [(row.partition_index, row.log_start_offset) for row in topic.partitions] == [(6, 1)]
    partition.tell_of_start()
    assert consumer.fetch().responses == [] and consumer.ready == []


def evict(world: World, consumer: Consumer) -> None:
    world.ground.ms = 2 * FETCH_SESSION_EVICTION_MS
    for _ in range(10):
        world.fetch((0, 0), session_epoch=0)
    assert consumer.id not in world.fetch_sessions._sessions


@pytest.mark.parametrize(
    "end",
    [
        lambda world, consumer: world.fetch(session_id=consumer.id, session_epoch=-1),
        lambda world, consumer: world.fetch_sessions.close(consumer.session),
        evict,
    ],
    ids=["closed by the consumer", "closed by the broker", "evicted"],
)
def test_a_session_that_is_over_waits_for_nothing(
    world: World, consumer: Consumer, end: Callable[[World, Consumer], None]
) -> None:
    assert waiters(world) == PARTITIONS
    end(world, consumer)
    assert waiters(world) == 0


def test_an_unused_session_costs_one_look(world: World, consumer: Consumer) -> None:
    world.produce((1, batch(b"a")))
    assert not world.partitions.by_name["t"][1].delayed_fetches


def test_what_is_forgotten_is_not_told(world: World, consumer: Consumer) -> None:
    consumer.fetch(forgotten_topics_data=[ForgottenTopic(topic_id=ID, partitions=[1, 2])])
    world.produce((1, batch(b"a")), (3, batch(b"b")))
    assert values(consumer.fetch()) == {3: [b"b"]}
    assert not world.partitions.by_name["t"][2].delayed_fetches


@pytest.mark.parametrize(("rack", "expected"), [("", 0), ("r1", PARTITIONS)])
def test_a_fetch_with_a_rack_looks_at_every_partition(
    world: World, consumer: Consumer, rack: str, expected: int
) -> None:
    """Which replica is nearest may change without news of the partition."""
    request = FetchRequest(session_id=consumer.id, session_epoch=consumer.epoch, rack_id=rack)
    assert len(world.fetch_sessions.open(request, uses_topic_ids=True, now=0).partitions) == expected
