"""Ottla's own client under load, and a broker in trouble: what was promised, and the verdict on what was kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from ottla.client import Admin, Consumer, Delivery, KafkaError, Producer, TopicPartition
from tests.interop.servers import Server

QUICK: dict[str, Any] = {
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 200,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
}
Contents = dict[int, list[tuple[int, int]]]
"""(offset, number) of records, by partition."""
PATIENCE_S = 250.0


async def until(is_true: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for something that others bring about."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while not is_true():
        assert loop.time() < end, f"not within {PATIENCE_S:.0f} s: {what()}"
        await asyncio.sleep(0.02)


class Trouble:
    """What happens to the broker: it is killed, restarted, or frozen for a while."""

    def __init__(self, server: Server, rng: Random) -> None:
        self._server = server
        self._rng = rng

    async def kill(self) -> None:
        self._server.kill()
        await asyncio.to_thread(self._server.start)

    async def restart(self) -> None:
        await asyncio.to_thread(self._server.stop)
        await asyncio.to_thread(self._server.start)

    async def freeze(self) -> None:
        os.kill(self._server.pid, signal.SIGSTOP)
        await asyncio.sleep(self._rng.uniform(0.5, 2.0))
        os.kill(self._server.pid, signal.SIGCONT)

    async def happen(self, count: int, recovered: Callable[[], Awaitable[None]]) -> None:
        """Each kind in turn, and after each of them the clients have to get on."""
        kinds = (self.kill, self.freeze, self.restart, self.kill)
        for number in range(count):
            await asyncio.sleep(self._rng.uniform(0, 0.3))
            await kinds[number % len(kinds)]()
            await recovered()


async def create(bootstrap: str, partition_count: int, *topics: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in topics:
            await admin.create_topic(topic, partition_count=partition_count)


class Writer:
    """A producer that never rests: it numbers the records of each partition and notes which were acknowledged where."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int, rate: int = 1000, **settings: Any) -> None:
        # However long a broker takes to come back on a busy machine, giving up a record would be a failure.
        patient = {"linger_ms": 2, "delivery_timeout_ms": 600_000, **QUICK, **settings}
        self._producer = Producer(bootstrap_servers=bootstrap, **patient)
        self._topic = topic
        self._partition_count = partition_count
        self._rate = rate
        self._is_stopping = False
        self._under_way: list[tuple[int, int, Delivery]] = []
        self.acknowledged: dict[int, dict[int, int]] = defaultdict(dict)
        """Offset by partition and number."""
        self.sent = [0] * partition_count
        self._task = asyncio.create_task(self._run())

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send())
            group.create_task(self._collect())
        await self._producer.close()

    async def _send(self) -> None:
        while not self._is_stopping:
            for partition in range(self._partition_count):
                number = self.sent[partition]
                delivery = self._producer.send(self._topic, b"%010d" % number, partition=partition)
                self._under_way.append((partition, number, delivery))
                self.sent[partition] += 1
            await self._producer.room()
            await asyncio.sleep(self._partition_count / self._rate)

    async def _collect(self) -> None:
        """An error fails the test: within delivery.timeout.ms everything has to succeed."""
        while self._under_way or not self._is_stopping:
            under_way, self._under_way = self._under_way, []
            for partition, number, delivery in under_way:
                self.acknowledged[partition][number] = (await delivery).offset
            await asyncio.sleep(0.005)

    async def progress(self, count: int = 50) -> None:
        """Wait until so many more are acknowledged."""
        goal = self.acknowledged_count + count
        await until(
            lambda: self.acknowledged_count >= goal or self._task.done(), lambda: f"{self.acknowledged_count} of {goal}"
        )
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        self._is_stopping = True
        await self._task


async def contents(
    bootstrap: str, topic: str, partition_count: int, **settings: Any
) -> dict[int, list[tuple[int, int]]]:
    """(offset, number) of every record, by partition."""
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(partition_count)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        found: Contents = {partition: [] for partition in range(partition_count)}
        for partition in partitions:
            while await consumer.position(partition) < ends[partition]:
                for record in await consumer.poll(200):
                    found[record.partition].append((record.offset, int(record.value or b"")))
        return found


class Promises:
    """What all members of a group read and committed."""

    def __init__(self) -> None:
        self.read: Counter[tuple[int, int]] = Counter()
        self.attempted: dict[int, int] = defaultdict(int)
        self.committed: dict[int, int] = defaultdict(int)
        self.commits = 0


class Member:
    """A consumer that commits all records it reads until it is asked to leave."""

    def __init__(self, bootstrap: str, topic: str, promises: Promises, settings: Mapping[str, Any]) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "group", "auto.offset.reset": "earliest"},
            enable_auto_commit=False,
            **QUICK,
            **settings,
        )
        self._consumer.subscribe([topic])
        self._promises = promises
        self._is_leaving = False
        self._task = asyncio.create_task(self._run())

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(one.partition for one in self._consumer.assignment())

    async def _run(self) -> None:
        async with self._consumer as consumer:
            while not self._is_leaving:
                records = await consumer.poll(100)
                offsets: dict[tuple[str, int], int] = {}
                for record in records:
                    self._promises.read[record.partition, record.offset] += 1
                    offsets[record.topic, record.partition] = record.offset + 1
                if offsets:
                    await self._commit(offsets)

    async def _commit(self, offsets: dict[tuple[str, int], int]) -> None:
        promises = self._promises
        for (_, partition), offset in offsets.items():
            promises.attempted[partition] = max(promises.attempted[partition], offset)
        with contextlib.suppress(KafkaError):  # it promised nothing
            await self._consumer.commit(offsets, timeout_ms=5_000)
            promises.commits += 1
            for (_, partition), offset in offsets.items():
                promises.committed[partition] = max(promises.committed[partition], offset)

    def check(self) -> None:
        """Raises what ended it."""
        if self._task.done():
            self._task.result()

    async def leave(self) -> None:
        self._is_leaving = True
        await self._task
