"""What the leader of the registries commits, without a cluster."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ottla.client import Consumer, OffsetAndMetadata, TopicPartition
from ottla.registry.election import Election
from ottla.registry.state import State
from ottla.registry.topic import ClientSettings, SchemaTopic

URL = "http://127.0.0.1:8081"


class Topic(SchemaTopic):
    """Nothing is written; its end is what a test says."""

    def __init__(self) -> None:
        super().__init__(ClientSettings({}, {}, {}), State(), "_schemas", 1_000)

    async def lead(self, transactional_id: str) -> None:
        self.end_offset = 5


class Member:
    """A consumer that has the partition."""

    def __init__(self) -> None:
        self.committed: asyncio.Queue[OffsetAndMetadata] = asyncio.Queue()

    async def poll(self, timeout_ms: int) -> list[Any]:
        await asyncio.sleep(0)
        return []

    def assignment(self) -> set[TopicPartition]:
        return set()

    def paused(self) -> set[TopicPartition]:
        return set()

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.put_nowait(offsets[TopicPartition("_schemas", 0)])


def test_the_leader_commits_its_address_at_the_end_of_what_it_has_read() -> None:
    async def scenario() -> None:
        topic, member = Topic(), Member()
        election = Election({}, topic, "schema-registry", URL)
        election.on_partitions_assigned([TopicPartition("_schemas", 0)])
        running = asyncio.create_task(election._run(cast("Consumer[bytes | None, bytes | None]", member)))
        first = await asyncio.wait_for(member.committed.get(), 30)
        assert (first.offset, first.metadata) == (5, URL)
        topic.end_offset = 9
        second = await asyncio.wait_for(member.committed.get(), 30)
        assert (second.offset, second.metadata) == (9, URL)
        assert election.is_leader
        running.cancel()

    asyncio.run(scenario())
