"""Writers and readers of replicated partitions, which know what they were promised."""

from __future__ import annotations

import asyncio
import random

from ottla.sim.checkers import Content, Violation, check_once_in_order
from ottla.sim.client import NoAnswer, batch_of
from ottla.sim.replicas import RETRY_S, Cluster
from ottla.sim.router import PASSING
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.sentinels import LATEST_TIMESTAMP

TOPICS = ("once", "plain")


class Counter:
    """Each value is the next integer, with acks=all. An idempotent producer sends a batch until it is answered: then it
    is there once, and in order; another one sends it once."""

    def __init__(
        self,
        sim: Cluster,
        topic: str,
        partition: int,
        partition_count: int,
        configs: dict[str, str],
        *,
        is_idempotent: bool,
    ) -> None:
        self.name = f"{topic}-{partition}"
        self._sim = sim
        self._topic, self._partition = topic, partition
        self._partition_count, self._configs = partition_count, configs
        self._rng = random.Random(f"{self.name} {sim.seed}")
        self._router = sim.router(f"producer-{self.name}")
        self._is_idempotent = is_idempotent
        self._producer = (-1, -1)
        self._sequence = 0
        self._next_value = 0
        self._pending: list[Content] = []
        self._sent: list[Content] = []
        self.acknowledged_count = 0
        self.history = sim.history(topic, partition)

    async def set_up(self) -> None:
        if self._partition == 0:
            broker = self._router.any_broker()
            await broker.create_topic(
                self._topic, self._partition_count, self._configs, replicas=self._sim.replication_factor
            )

    async def step(self) -> None:
        if not self._pending or not self._is_idempotent:
            self._pending = [self._content() for _ in range(self._rng.choice((1, 1, 2, 5, 20)))]
            self.history.doubt(self._pending)
        contents = self._pending
        try:
            if self._is_idempotent and self._producer[0] < 0:
                self._producer = await self._router.any_broker().init_producer_id()
                self._sim.see_producer_id(self._producer[0])
            offset = await self._router.produce(self._topic, self._partition, self._batch(contents))
        except (NoAnswer, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)
            return
        self.history.acknowledge(offset, contents)
        self._sent += contents
        self._sequence += len(contents)
        self._pending = []
        self.acknowledged_count += 1

    def _content(self) -> Content:
        self._next_value += 1
        size = self._rng.choice((10, 10, 100, 1_000))
        return None, f"{self._next_value}:".encode().ljust(size, b".")

    def _batch(self, contents: list[Content]) -> bytearray:
        return batch_of(
            [value for _, value in contents],
            self._sim.clock(),
            producer=self._producer,
            sequence=self._sequence if self._is_idempotent else -1,
        )

    async def settle(self) -> None:
        """Make progress once more."""
        count = self.acknowledged_count
        while self.acknowledged_count == count or (self._pending and self._is_idempotent):
            await self.step()

    async def verify(self) -> None:
        found = await self._sim.verified(self._topic, self._partition)
        if self._is_idempotent:
            check_once_in_order(self.name, found, self._sent)


class Reader:
    """A record that was read stays the same for all, and a readable record stays readable after every election."""

    def __init__(self, sim: Cluster, topic: str, partition: int) -> None:
        self.name = f"reader-{topic}-{partition}"
        self._sim = sim
        self._topic, self._partition = topic, partition
        self._router = sim.router(self.name)
        self._rng = random.Random(f"{self.name} {sim.seed}")
        self._history = sim.history(topic, partition)
        self._offset = 0

    async def set_up(self) -> None:
        """The writer makes the topic."""

    async def step(self) -> None:
        try:
            if self._rng.random() < 0.2:
                self._history.see_high_watermark(
                    await self._router.list_offset(self._topic, self._partition, LATEST_TIMESTAMP)
                )  # KIP-207: a new leader does not answer until it knows
            fetched = await self._router.fetch(self._topic, self._partition, self._offset, max_wait_ms=200)
        except NoAnswer:
            await asyncio.sleep(RETRY_S)
            return
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Violation(f"lost: {self.name}: what was read up to {self._offset} is not there") from error
            if not self._sim.is_passing(error, self._topic, self._partition):
                raise
            await asyncio.sleep(RETRY_S)
            return
        self._history.see((record.offset, (record.key, record.value)) for record in fetched.records)
        self._offset = fetched.next_offset

    async def settle(self) -> None:
        await self.step()

    async def verify(self) -> None:
        """The writer does."""
