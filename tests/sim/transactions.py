"""A node with topics for transactions, producers of both versions of the protocol, and what readers must agree on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ottla.sim.checkers import Content
from ottla.sim.cluster import Host, Sim
from ottla.sim.network import Weather
from ottla.sim.transaction_client import (
    Sent,
    TransactionalProducer,
    Versions,
    committed_offset,
    open_coordinators,
    send_again,
)
from ottla.sim.transaction_history import CLIENT, Attempt, Partition, TransactionHistory
from ottla.sim.transaction_reader import end_offsets, read_committed
from ottla.sim.transaction_workload import PROPERTIES, go_through_epochs
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message

T = TypeVar("T")

A: Partition = ("topic", 0)
B: Partition = ("topic", 1)
KEPT: Partition = ("kept", 0)
"""Of a compacted topic."""
INPUT: Partition = ("input", 0)
GROUP = "group"
STABLE_WITHIN_S = 10.0


class Scene:
    """One node, and one transaction after the other; `check` reads everything and compares."""

    def __init__(self, seed: int = 1, *, weather: Weather | None = None, **properties: str) -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        self.sim = Sim(
            seed,
            weather=weather,
            properties={
                **PROPERTIES,
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "2",
                "log.cleaner.backoff.ms": "500",
                **named,
            },
        )
        self.history = TransactionHistory()
        self.host: Host = self.sim.node()
        self._attempt_count = 0
        compacted = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.ms": "1000",
            "max.compaction.lag.ms": "1000",
            "delete.retention.ms": "1000",
        }
        client = self.sim.client()
        always = {"flush.messages": "1"}
        self.run(client.create_topic("topic", 2, always))
        self.run(client.create_topic("kept", 1, {**always, **compacted}))
        self.run(client.create_topic("input", 1, always))
        self.run(open_coordinators(client, GROUP, "id"))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.sim.run(coroutine)

    def finish(self) -> None:
        self.sim.finish()

    # Producers

    def producer(
        self, versions: Versions, transactional_id: str = "id", *, name: str = "", timeout_ms: int = 60_000
    ) -> TransactionalProducer:
        """One that owns the transactional id."""
        producer = self.new_producer(versions, transactional_id, name=name, timeout_ms=timeout_ms)
        self.run(producer.init())
        return producer

    def new_producer(
        self, versions: Versions, transactional_id: str = "id", *, name: str = "", timeout_ms: int = 60_000
    ) -> TransactionalProducer:
        return TransactionalProducer(
            self.sim.client(name or f"producer-{transactional_id}"),
            transactional_id,
            versions,
            clock=self.sim.clock,
            timeout_ms=timeout_ms,
        )

    def begin(self) -> Attempt:
        self._attempt_count += 1
        return self.history.begin(f"transaction {self._attempt_count}")

    def contents(self, attempt: Attempt, *keys: str) -> list[Content]:
        return [(key.encode(), f"{attempt.name}, {index}".encode()) for index, key in enumerate(keys)]

    async def write(
        self, producer: TransactionalProducer, attempt: Attempt, *partitions: Partition, key: str = "key"
    ) -> None:
        for partition in partitions:
            contents = [(key.encode(), f"{attempt.name}, {len(attempt.writes)}".encode())]
            self.history.write(attempt, partition, contents)
            offset = await producer.produce(partition, contents)
            self.history.acknowledge(partition, offset, contents)

    async def end(self, producer: TransactionalProducer, attempt: Attempt, *, is_commit: bool = True) -> None:
        attempt.is_commit_asked = is_commit
        await producer.end(is_commit=is_commit)
        self.history.conclude(attempt, is_commit, CLIENT, "the coordinator said so")

    async def transact(
        self, producer: TransactionalProducer, *partitions: Partition, is_commit: bool = True, key: str = "key"
    ) -> Attempt:
        attempt = self.begin()
        await self.write(producer, attempt, *partitions, key=key)
        await self.end(producer, attempt, is_commit=is_commit)
        return attempt

    def transaction(
        self, producer: TransactionalProducer, *partitions: Partition, is_commit: bool = True, key: str = "key"
    ) -> Attempt:
        return self.run(self.transact(producer, *partitions, is_commit=is_commit, key=key))

    # Requests that come late

    def late(self, message: Message, version: int) -> list[ErrorCode]:
        """What a request is answered that comes now, on a connection of its own."""
        return self.run(send_again(self.sim.client("late"), Sent(message, version)))

    def late_write(
        self,
        producer: TransactionalProducer,
        attempt: Attempt,
        partition: Partition,
        sequence: int = 0,
    ) -> Message:
        """A Produce request that is sent now and will come later, or never."""
        contents: Sequence[Content] = [(b"key", f"{attempt.name}, late".encode())]
        self.history.write(attempt, partition, contents)
        return producer.produce_request(partition, contents, sequence)

    # What must hold

    async def verify(self, *partitions: Partition) -> dict[Partition, dict[int, Content]]:
        client = self.sim.client("reader")
        await self.sim.until_answered(client)
        found: dict[Partition, dict[int, Content]] = {}
        for partition in partitions:
            await self.until_stable(partition)
            is_compacted = partition[0] == "kept"
            found[partition] = await read_committed(client, partition, random.Random(1), is_compacted=is_compacted)
            _, end = await end_offsets(client, partition)
            self.history.see(partition, 0, end, found[partition], is_compacted=is_compacted)
        self.history.check_all(found, compacted=["kept"])
        return found

    async def until_stable(self, partition: Partition) -> None:
        deadline_s = self.sim.loop.time() + STABLE_WITHIN_S
        while True:
            last_stable_offset, high_watermark = await end_offsets(self.sim.client("reader"), partition)
            if last_stable_offset == high_watermark:
                return
            assert self.sim.loop.time() < deadline_s, f"{partition}: {last_stable_offset} of {high_watermark} is stable"
            await asyncio.sleep(0.1)

    def check(self, *partitions: Partition) -> dict[Partition, list[bytes]]:
        """Everything is stable, and there as a whole or not at all; what is committed, by partition."""
        found = self.run(self.verify(*(partitions or (A, B))))
        return {
            partition: [value for _, value in contents.values() if value is not None]
            for partition, contents in found.items()
        }

    def committed_offset(self) -> tuple[int, str]:
        return self.run(committed_offset(self.sim.client("reader"), GROUP, INPUT))

    def go_through_epochs(self, producer: TransactionalProducer, epoch: int) -> None:
        self.run(go_through_epochs(self.host, producer, epoch))
