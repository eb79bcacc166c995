"""Self-checking workloads: each knows what it was promised and checks that the promise is kept.

A workload runs in steps until its stop is requested. It meets refusals and silence as a careful program would: it knows
afterwards which of its records must be there, which may be there, and which must be there exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Protocol

from ottla.records import Compression
from ottla.sim.checkers import Content, check, check_once_in_order
from ottla.sim.client import NoAnswer, batch_of
from ottla.sim.cluster import Host, Sim
from ottla.sim.router import PASSING
from ottla.wire.errors import ErrorCode, KafkaError

RETRY_S = 0.1
MAX_BATCH_BYTES = 5_000
FORGOTTEN = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
"""Errors that an idempotent producer may get after a power loss erased the broker's memory of it."""


class Workload(Protocol):
    name: str

    async def set_up(self) -> None: ...
    async def step(self) -> None: ...
    async def settle(self) -> None:
        """The disturbances are over: finish everything and make progress once more."""
        ...

    async def verify(self) -> None: ...


class Counter:
    """Each value is the next integer. One producer, one partition; idempotent ones retry until they are answered."""

    def __init__(
        self,
        sim: Sim,
        host: Host,
        rng: random.Random,
        topic: str,
        configs: dict[str, str],
        *,
        is_idempotent: bool,
        is_durable: bool,
        acks: int = -1,
        key_count: int = 0,
        starts_move: bool = False,
        deletes_records: bool = False,
    ) -> None:
        self.name = topic
        self._sim = sim
        self._host = host
        self._rng = rng
        self._client = sim.client(f"producer-{topic}", host.name)
        self._configs = configs
        self._is_idempotent = is_idempotent
        self._is_durable = is_durable
        self._acks = acks
        self._key_count = key_count
        self._starts_move = starts_move or deletes_records
        self._deletes_records = deletes_records
        self._start_offset = 0
        self._losses_seen = self._incarnation_seen = 0
        self._producer = (-1, -1)
        self._sequence = 0
        self._next_value = 0
        self._sent: list[Content] = []
        self._pending: list[Content] = []
        """A batch without an answer yet; an idempotent producer sends it again until there is one."""
        self._losses = 0
        self._is_exact = is_idempotent
        self.history = sim.history(topic)

    async def set_up(self) -> None:
        await until_done(lambda: self._client.create_topic(self.name, 1, self._configs), ErrorCode.TOPIC_ALREADY_EXISTS)

    async def step(self) -> None:
        if self._deletes_records and self._rng.random() < 0.05:
            await self._delete_records()
        if not self._pending or not self._is_idempotent:
            count = self._rng.choice((1, 1, 2, 5, 20))
            self._pending = [self._content(MAX_BATCH_BYTES // count) for _ in range(count)]
        contents = self._pending
        self.history.doubt(contents)
        while True:
            losses = self._host.power_loss_count
            try:
                if self._is_idempotent and self._producer[0] < 0:
                    self._producer, self._sequence = await self._client.init_producer_id(), 0
                    self._sim.see_producer_id(self._producer[0])
                offset = await self._client.produce(self.name, 0, self._batch(contents), acks=self._acks)
            except NoAnswer:
                if not self._is_idempotent:
                    return
            except KafkaError as error:
                if error.code in FORGOTTEN and self._host.power_loss_count != self._losses and not self._is_durable:
                    self._losses = self._host.power_loss_count
                    self._producer = (-1, -1)
                    self._is_exact = False
                elif error.code not in PASSING:
                    raise
                if not self._is_idempotent:
                    return
            else:
                if self._acks and (losses == self._host.power_loss_count or self._is_durable):
                    self.history.acknowledge(offset, contents, is_synced=self._is_durable)
                if losses != self._host.power_loss_count and not self._is_durable:
                    self._is_exact = False
                self._sent += contents
                self._sequence += len(contents)
                self._pending = []
                return
            await asyncio.sleep(RETRY_S)

    async def _delete_records(self) -> None:
        losses = self._host.power_loss_count
        offset = self._rng.randint(0, self.history.end_offset)
        try:
            start = await self._client.delete_records(self.name, 0, offset)
        except NoAnswer:
            return
        except KafkaError as error:
            if error.code not in (*PASSING, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise
            return
        if losses == self._host.power_loss_count:
            self._see_start(start)

    def _see_start(self, offset: int) -> None:
        if self._host.power_loss_count != self._losses_seen or self._host.incarnation != self._incarnation_seen:
            # Kafka writes log starts down once a minute: a crash may take the last of them back.
            self._losses_seen, self._incarnation_seen = self._host.power_loss_count, self._host.incarnation
            self._start_offset = 0
        check(
            offset >= self._start_offset,
            "start",
            f"{self.name}: the log start went back from {self._start_offset} to {offset}",
        )
        self._start_offset = offset

    async def settle(self) -> None:
        sent = len(self._sent)
        while len(self._sent) == sent:
            await self.step()
            await asyncio.sleep(RETRY_S)

    async def verify(self) -> None:
        if self._host.power_loss_count and not self._is_durable:
            self._is_exact = False
        await self._sim.verify(
            self._client,
            self.name,
            is_compacted=bool(self._key_count),
        )
        if self._is_exact and not self._key_count and not self._starts_move:
            found = await self._client.read_all(self.name, 0)
            check_once_in_order(
                self.name, [(record.offset, (record.key, record.value)) for record in found], self._sent
            )

    def _content(self, max_size: int) -> Content:
        self._next_value += 1
        key = f"k{self._rng.randrange(self._key_count)}".encode() if self._key_count else None
        if key is not None and self._rng.random() < 0.1:
            return key, None
        size = min(max_size, self._rng.choice((10, 10, 100, 1_000, 5_000)))
        return key, f"{self._next_value}:".encode().ljust(size, b".")

    def _batch(self, contents: list[Content]) -> bytearray:
        return batch_of(
            [value for _, value in contents],
            self._sim.clock(),
            keys=[key for key, _ in contents],
            compression=self._rng.choice(list(Compression)) if not self._is_idempotent else Compression.NONE,
            producer=self._producer,
            sequence=self._sequence if self._is_idempotent else -1,
        )


class Pipelined:
    """An idempotent producer with up to five requests in flight on one connection, as Kafka's producers have.

    When the connection breaks it sends everything unanswered again, in order. A broker that was restarted may have
    forgotten all but the last of these (Kafka's snapshots hold no more): then the producer begins anew, and its records
    may be there twice, but still in order."""

    def __init__(self, sim: Sim, host: Host, rng: random.Random, topic: str, configs: dict[str, str]) -> None:
        self.name = topic
        self._sim = sim
        self._host = host
        self._rng = rng
        self._client = sim.client(f"producer-{topic}", host.name)
        self._configs = configs
        self._producer = (-1, -1)
        self._sequence = 0
        self._next_value = 0
        self._is_exact = True
        self._incarnation = 0
        self._waiting: list[tuple[list[Content], int]] = []
        """Batches without an answer, with their sequences."""
        self._sent: list[Content] = []
        self.history = sim.history(topic)

    async def set_up(self) -> None:
        await until_done(lambda: self._client.create_topic(self.name, 1, self._configs), ErrorCode.TOPIC_ALREADY_EXISTS)

    async def step(self) -> None:
        while len(self._waiting) < self._rng.randint(1, 5):
            count = self._rng.choice((1, 3))
            contents: list[Content] = []
            for _ in range(count):
                self._next_value += 1
                contents.append((None, f"{self._next_value}:".encode().ljust(self._rng.choice((10, 300)), b".")))
            self.history.doubt(contents)
            self._waiting.append((contents, self._sequence))
            self._sequence += count
        try:
            if self._producer[0] < 0:
                self._producer = await self._client.init_producer_id()
                self._sim.see_producer_id(self._producer[0])
                self._renumber()
            losses = self._host.power_loss_count
            results = await asyncio.gather(*map(self._produce, self._waiting), return_exceptions=True)
        except (NoAnswer, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)
            return
        self._settle_answers(results, is_lost=losses != self._host.power_loss_count)
        await asyncio.sleep(RETRY_S if self._waiting else 0)

    def _settle_answers(self, results: list[int | BaseException], *, is_lost: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for batch, result in zip(waiting, results, strict=True):
            if isinstance(result, int):
                check(
                    not self._waiting or self._host.incarnation != self._incarnation,
                    "order",
                    f"{self.name}: {batch[1]} was accepted, but not what came before it",
                )
                if not is_lost:
                    self.history.acknowledge(result, batch[0])
                else:
                    self._is_exact = False
                self._sent += batch[0]
                continue
            self._waiting.append(batch)
            if isinstance(result, KafkaError) and result.code in FORGOTTEN:
                if self._producer[0] >= 0 and len(self._waiting) == 1:
                    check(
                        self._host.incarnation != self._incarnation,
                        "sequence",
                        f"{self.name}: {result} though the broker never went away",
                    )
                    self._is_exact = False
                    self._producer = (-1, -1)
            elif not isinstance(result, NoAnswer) and not (isinstance(result, KafkaError) and result.code in PASSING):
                raise result
        if not self._waiting:
            self._incarnation = self._host.incarnation

    def _renumber(self) -> None:
        self._sequence = 0
        for index, (contents, _) in enumerate(self._waiting):
            self._waiting[index] = (contents, self._sequence)
            self._sequence += len(contents)

    async def _produce(self, batch: tuple[list[Content], int]) -> int:
        contents, sequence = batch
        data = batch_of([value for _, value in contents], self._sim.clock(), producer=self._producer, sequence=sequence)
        return await self._client.produce(self.name, 0, data)

    async def settle(self) -> None:
        sent = len(self._sent)
        while len(self._sent) == sent or self._waiting:
            await self.step()

    async def verify(self) -> None:
        await self._sim.verify(self._client, self.name)
        if self._is_exact and not self._host.power_loss_count:
            found = await self._client.read_all(self.name, 0)
            check_once_in_order(
                self.name, [(record.offset, (record.key, record.value)) for record in found], self._sent
            )


class Reader:
    """A consumer that follows a partition: records that it saw do not change, and the high watermark never goes
    back."""

    def __init__(self, sim: Sim, host: Host, topic: str) -> None:
        self.name = f"reader-{topic}"
        self._sim = sim
        self._host = host
        self._topic = topic
        self._client = sim.client(self.name, host.name)
        self._offset = 0

    async def set_up(self) -> None:
        pass

    async def step(self) -> None:
        losses = self._host.power_loss_count
        try:
            fetched = await self._client.fetch(self._topic, 0, self._offset, max_wait_ms=200)
        except NoAnswer:
            await asyncio.sleep(RETRY_S)
            return
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._offset = 0
                with contextlib.suppress(NoAnswer, KafkaError):
                    self._offset = await self._client.list_offset(self._topic, 0, -2)
            elif error.code not in PASSING:
                raise
            await asyncio.sleep(RETRY_S)
            return
        if losses != self._host.power_loss_count:
            return  # an answer from before the lights went out
        history = self._sim.history(self._topic)
        history.see((record.offset, (record.key, record.value)) for record in fetched.records)
        history.see_high_watermark(fetched.high_watermark)
        self._offset = fetched.next_offset

    async def settle(self) -> None:
        await self.step()

    async def verify(self) -> None:
        pass


class Admin:
    """Topics come and go; what was answered survives everything, for metadata is synced before the answer."""

    def __init__(self, sim: Sim, host: Host, rng: random.Random) -> None:
        self.name = "admin"
        self._rng = rng
        self._client = sim.client(self.name, host.name)
        self._topics: dict[str, bool | None] = {}
        """Whether a topic must exist; None where no answer came."""
        self._retention_ms: dict[str, list[str]] = {}
        """The possible values of each topic's retention.ms: the last answered one, and later ones without an answer."""
        self._count = 0

    async def set_up(self) -> None:
        pass

    async def step(self) -> None:
        existing = [name for name, exists in self._topics.items() if exists]
        name = f"admin-{self._count}"
        if existing and self._rng.random() < 0.3:
            await self._alter(self._rng.choice(existing))
            return
        if existing and self._rng.random() < 0.4:
            name = self._rng.choice(existing)
            work, outcome = self._client.delete_topic(name), False
        else:
            self._count += 1
            work, outcome = self._client.create_topic(name, self._rng.randint(1, 3), {"retention.ms": "1000000"}), True
            self._retention_ms[name] = ["1000000"]
        self._topics[name] = None
        try:
            await work
        except NoAnswer:
            pass
        except KafkaError as error:
            if error.code not in PASSING:
                raise
        else:
            self._topics[name] = outcome
        await asyncio.sleep(self._rng.uniform(0.05, 1.0))

    async def _alter(self, name: str) -> None:
        value = str(self._rng.randrange(1_000_000, 9_000_000))
        self._retention_ms[name].append(value)
        try:
            await self._client.alter_topic_config(name, "retention.ms", value)
        except NoAnswer:
            pass
        except KafkaError as error:
            if error.code not in PASSING:
                raise
        else:
            self._retention_ms[name] = [value]

    async def settle(self) -> None:
        await self.step()

    async def verify(self) -> None:
        response = await self._client.metadata()
        there = {topic.name: len(topic.partitions) for topic in response.topics}
        for name, exists in self._topics.items():
            if exists is not None:
                check((name in there) == exists, "admin", f"topic {name} should {'' if exists else 'not '}be there")
        for topic in there:
            if topic is not None and topic.startswith("admin-"):
                check(topic in self._topics, "admin", f"topic {topic} was never created")
        for name, exists in self._topics.items():
            if exists:
                for partition in range(there[name]):
                    await self._client.list_offset(name, partition, -1)
                value = await self._client.topic_config(name, "retention.ms")
                allowed = self._retention_ms[name]
                check(value in allowed, "configs", f"retention.ms of {name} is {value}, none of {allowed}")
        ids = [topic.topic_id for topic in response.topics]
        check(len(ids) == len(set(ids)), "admin", "two topics have one id")


async def until_done(work: Callable[[], Awaitable[object]], accepted: ErrorCode, *, attempts: int = 300) -> None:
    """Repeat a call until it succeeds (or the answer shows that it has already happened)."""
    for _ in range(attempts):
        try:
            await work()
        except NoAnswer:
            pass
        except KafkaError as error:
            if error.code is accepted:
                return
            if error.code not in PASSING:
                raise
        else:
            return
        await asyncio.sleep(RETRY_S)
    raise TimeoutError(f"not done after {attempts} attempts")
