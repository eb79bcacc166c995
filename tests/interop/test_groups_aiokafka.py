"""aiokafka's consumers in groups: each of its assignors, static members, commits, and its admin client."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.interop.servers import Server
from tests.interop.test_aiokafka import admin, create, producer, run

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")
aiokafka_assignors = pytest.importorskip(
    "aiokafka.coordinator.assignors.roundrobin", reason="aiokafka is not installed"
)

pytestmark = pytest.mark.filterwarnings("ignore")  # the client's own deprecations


def assignors() -> list[Any]:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    return [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]


class Member:
    """One consumer: it commits what it read before it reads on."""

    def __init__(self, server: Server, group: str, topic: str, seen: Counter[tuple[int, int]], **settings: Any) -> None:
        quick = {"session_timeout_ms": 30_000, "heartbeat_interval_ms": 200, "metadata_max_age_ms": 1000}
        fixed = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        self.is_committing = False
        self._topic = topic
        self._seen = seen
        self._settings = {"bootstrap_servers": server.bootstrap, "group_id": group, **fixed, **quick, **settings}

    async def start(self) -> None:
        self.consumer = aiokafka.AIOKafkaConsumer(self._topic, **self._settings)
        self._is_stopping = False
        await self.consumer.start()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while not self._is_stopping:
            batches = await self.consumer.getmany(timeout_ms=50)
            self.is_committing = bool(batches)
            for partition, records in batches.items():
                for record in records:
                    self._seen[partition.partition, record.offset] += 1
            if batches:
                await self.consumer.commit()
            self.is_committing = False

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(each.partition for each in self.consumer.assignment())

    async def leave(self) -> None:
        self._is_stopping = True
        await self._task
        await self.consumer.stop()


async def shares_are(members: list[Member], *sizes: int) -> None:
    for _ in range(2_400):
        owned = [member.owned for member in members]
        if sorted(map(len, owned)) == sorted(sizes) and len(frozenset().union(*owned)) == sum(sizes):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"shares are {owned}, not {sizes}")


async def write(server: Server, topic: str, each: int) -> None:
    async with producer(server) as client:
        for partition in range(6):
            for _ in range(each):
                await client.send_and_wait(topic, b"x", partition=partition)


async def has_read(members: list[Member], seen: Counter[tuple[int, int]], each: int) -> None:
    for _ in range(2_400):
        if len(seen) >= 6 * each and not any(member.is_committing for member in members):
            break
        await asyncio.sleep(0.05)
    assert seen == Counter({(partition, offset): 1 for partition in range(6) for offset in range(each)})


@pytest.mark.parametrize("assignor", assignors(), ids=lambda assignor: assignor.__name__)
def test_members_share_the_partitions_and_read_each_record_once(
    group_broker: Server, topic: str, assignor: Any
) -> None:
    async def work() -> None:
        await create(group_broker, topic, 6)
        seen: Counter[tuple[int, int]] = Counter()
        group = f"aiokafka-{topic}"
        settings = {"partition_assignment_strategy": (assignor,)}
        members = [Member(group_broker, group, topic, seen, **settings) for _ in range(3)]
        for member in members:
            await member.start()
        await shares_are(members, 2, 2, 2)
        await write(group_broker, topic, 10)
        await has_read(members, seen, 10)
        await members.pop().leave()
        await shares_are(members, 3, 3)
        await write(group_broker, topic, 10)
        await has_read(members, seen, 20)
        for member in members:
            await member.leave()
        async with admin(group_broker) as client:
            offsets = await client.list_consumer_group_offsets(group)
            assert {each.partition: found.offset for each, found in offsets.items()} == dict.fromkeys(range(6), 20)
            assert (group, "consumer") in [tuple(each)[:2] for each in await client.list_consumer_groups()]
            (described,) = await client.describe_consumer_groups([group])
            assert "Empty" in str(described.to_object())

    run(work())


def test_a_static_member_restarts_without_a_rebalance(group_broker: Server, topic: str) -> None:
    async def work() -> None:
        await create(group_broker, topic, 6)
        seen: Counter[tuple[int, int]] = Counter()
        names = ("one", "two")
        members = [Member(group_broker, f"aiokafka-{topic}", topic, seen, group_instance_id=name) for name in names]
        for member in members:
            await member.start()
        await shares_are(members, 3, 3)
        generation = members[0].consumer._coordinator.generation
        had = members[1].owned
        await members[1].leave()
        await members[1].start()
        await shares_are(members, 3, 3)
        assert members[1].owned == had
        assert members[0].consumer._coordinator.generation == generation
        await write(group_broker, topic, 5)
        await has_read(members, seen, 5)
        for member in members:
            await member.leave()

    run(work())
