"""Ottla's own producer, consumer groups and transactional copy in a cluster that breaks, and what they promise.

Three workloads, each an application as a user would write it:

    Writers     idempotent producers. What was acknowledged is there, at its offset; what one producer sent to a
                partition stands there in the order sent, and once
    Readers     a group of either protocol that commits. A record is never skipped: all records before it were handed
                to some member (at least once), and in the end all were
    Copiers     consume, transform, produce: read_committed in, a transaction with the group's offsets out. In the end
                the copy holds every record once, in order (exactly once)

Applications are killed without a word, freeze, close in peace and come back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

from ottla.client import Admin, Consumer, ConsumerRecord, KafkaError, Producer, TopicPartition
from ottla.client.errors import is_retriable
from ottla.sim.checkers import Content, check
from ottla.sim.cluster import Sim
from ottla.sim.programs import Program
from ottla.sim.replicas import RETRY_S, Cluster
from ottla.wire.errors import ErrorCode

WRITTEN, COPIED = "own-written", "own-copied"
GROUP, COPY_GROUP = "own-readers", "own-copiers"
PARTITION_COUNT = 2
SETTLE_S = 100.0
TURN_S = 0.2
GOOD_BYE_S = 60.0
MAX_SENT_COUNT = 500
"""So many records are written while things go wrong: copying them takes a transaction for every few."""


class Applications:
    """Programs of one kind; their lifetimes are drawn."""

    name = ""

    def __init__(self, sim: Sim, rng: random.Random) -> None:
        self._sim = sim
        self._rng = rng
        self.is_rough = rng.random() < 0.7
        """Whether applications die and freeze, or only brokers do."""
        self._settings: dict[str, Any] = {
            "request_timeout_ms": rng.choice((1_500, 5_000, 30_000)),
            "retry_backoff_ms": rng.choice((10, 100)),
            "reconnect_backoff_ms": rng.choice((10, 50)),
            "metadata_max_age_ms": rng.choice((1_000, 300_000)),
        }
        self.programs: list[Program] = []

    def _program(self, name: str) -> None:
        self.programs.append(Program(self._sim, name, self._sim.names, self._live))

    async def _live(self, program: Program) -> None:
        raise NotImplementedError

    async def set_up(self) -> None:
        for program in self.programs:
            program.start()

    async def step(self) -> None:
        """One turn of fate."""
        await asyncio.sleep(TURN_S)
        self._check()
        program = self._rng.choice(self.programs)
        if not program.is_running:
            program.start()
        elif self.is_rough:
            fate = self._rng.random()
            if fate < 0.04:
                program.kill()
            elif fate < 0.08:
                program.is_asked_to_end = True
            elif fate < 0.11:
                program.freeze(self._rng.choice((0.3, 2.0, 8.0)))

    def _check(self) -> None:
        for program in self.programs:
            program.check()

    def _start_all(self) -> None:
        for program in self.programs:
            if not program.is_running:
                program.start()

    async def _until_done(self, what: str) -> None:
        """Applications run undisturbed until all is done."""
        end = self._sim.loop.time() + SETTLE_S
        while missing := self._missing():
            self._check()
            self._start_all()
            check(self._sim.loop.time() < end, "liveness", f"{what}: {missing}")
            await asyncio.sleep(RETRY_S)

    def _missing(self) -> str:
        raise NotImplementedError

    async def _end_all(self) -> None:
        async with asyncio.timeout(GOOD_BYE_S):
            for program in self.programs:
                await program.ended()


class Writers(Applications):
    """Idempotent producers, each with values of its own."""

    _sim: Cluster
    name = "own-writers"

    def __init__(self, sim: Cluster, rng: random.Random) -> None:
        super().__init__(sim, rng)
        self._settings |= {
            "linger_ms": rng.choice((0, 5, 50)),
            "batch_size": rng.choice((100, 1_000, 16_384)),
            "max_in_flight_requests_per_connection": rng.choice((1, 5)),
        }
        if rng.random() < 0.5:
            self._settings["delivery_timeout_ms"] = self._settings["request_timeout_ms"] + rng.choice((100, 3_000))
        self._sent_count = 0
        self._acknowledged_count = 0
        self._awaited_count = 0
        self.histories = [sim.history(WRITTEN, partition) for partition in range(PARTITION_COUNT)]
        self.unplaced: list[list[Content]] = [[] for _ in range(PARTITION_COUNT)]
        """Records that were acknowledged without an offset: the broker knew the batch as a duplicate, or accepted a
        later one, and did not say where this one stands."""
        for number in range(rng.choice((1, 2))):
            self._program(f"writer-{number}")

    async def set_up(self) -> None:
        """The first application makes the topics, by Ottla's own admin client."""
        program = Program(self._sim, "own-admin", self._sim.names, self._create)
        program.start()
        await program.ended()
        await super().set_up()

    async def _create(self, program: Program) -> None:
        async with program.using(Admin(**program.surroundings())) as admin:
            for topic in (WRITTEN, COPIED):
                await admin.create_topic(
                    topic, partition_count=PARTITION_COUNT, replication_factor=self._sim.replication_factor
                )

    async def _live(self, program: Program) -> None:
        number = 0
        rng = random.Random(f"{program.name} {program.incarnation} life {self._sim.seed}")
        async with program.using(Producer(**program.surroundings(), **self._settings)) as producer:
            while not program.is_asked_to_end:
                if self._sent_count >= MAX_SENT_COUNT and not self._awaited_count:
                    await asyncio.sleep(RETRY_S)
                    continue
                waiting = []
                for _ in range(rng.choice((1, 3, 20))):
                    number += 1
                    self._sent_count += 1
                    partition = rng.randrange(PARTITION_COUNT)
                    name = f"{program.name}.{program.incarnation}".encode()
                    content: Content = (name, f"{number}:".encode().ljust(rng.choice((10, 100, 1_000)), b"."))
                    self.histories[partition].doubt([content])
                    delivery = producer.send(
                        WRITTEN, content[1], name, partition=partition, timestamp=self._sim.clock()
                    )
                    waiting.append((partition, content, delivery))
                if rng.random() < 0.3:
                    await producer.flush()
                for partition, content, delivery in waiting:
                    try:
                        written = await delivery
                    except KafkaError as error:
                        check(is_passing(error), "writer", f"{program.name}: {error!r}")
                    else:
                        self.acknowledged(partition, written.offset, content)
                await asyncio.sleep(rng.choice((0.0, 0.02, 0.2)))

    def acknowledged(self, partition: int, offset: int, content: Content) -> None:
        if offset >= 0:
            self.histories[partition].acknowledge(offset, [content])
        else:
            self.unplaced[partition].append(content)
        self._acknowledged_count += 1

    def _missing(self) -> str:
        done = self._acknowledged_count >= self._awaited_count
        return "" if done else f"{self._acknowledged_count} of {self._awaited_count} records are acknowledged"

    async def settle(self) -> None:
        self._awaited_count = self._acknowledged_count + 10
        await self._until_done("producers write again")
        await self._end_all()

    async def verify(self) -> None:
        for partition in range(PARTITION_COUNT):
            found = await self._sim.verified(WRITTEN, partition)
            check_order(f"{WRITTEN}-{partition}", found)
            there = {content for _, content in found}
            lost = [content for content in self.unplaced[partition] if content not in there]
            check(not lost, "lost", f"{WRITTEN}-{partition}: acknowledged without an offset, but not there: {lost[:3]}")


def check_order(name: str, found: Iterable[tuple[int, Content]]) -> None:
    """The numbers of each producer rise: none of them is there twice, and none out of order."""
    last: dict[bytes | None, int] = {}
    for offset, (producer, value) in found:
        number = int((value or b"").partition(b":")[0])
        before = last.get(producer, 0)
        check(number > before, "once", f"{name}: {producer!r} has {number} at {offset}, after {before}")
        last[producer] = number


def is_passing(error: KafkaError) -> bool:
    """Whether an application may see this error while brokers come and go, and tries again."""
    return is_retriable(error) or error.code in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )


class Readers(Applications):
    """A group that reads the records, and commits what it has received."""

    _sim: Cluster
    name = "own-readers"

    def __init__(self, sim: Cluster, rng: random.Random, writers: Writers) -> None:
        super().__init__(sim, rng)
        self._writers = writers
        self._commits_itself = rng.random() < 0.5
        self._settings |= {
            "group_id": GROUP,
            "auto_offset_reset": "earliest",
            "max_poll_records": rng.choice((1, 10, 500)),
            "fetch_max_wait_ms": rng.choice((50, 500)),
            "enable_auto_commit": not self._commits_itself,
            "auto_commit_interval_ms": rng.choice((100, 1_000)),
            **membership_settings(rng),
        }
        self.handed = [0] * PARTITION_COUNT
        """Up to which offset, of each partition, all records were handed to some member."""
        for number in range(rng.choice((1, 2, 3))):
            self._program(f"reader-{number}")

    async def _live(self, program: Program) -> None:
        async with program.using(Consumer(**program.surroundings(), **self._settings)) as consumer:
            consumer.subscribe([WRITTEN])
            while not program.is_asked_to_end:
                try:
                    records = await consumer.poll(300)
                    for record in records:
                        self.take(program.name, record)
                    if records and self._commits_itself:
                        await consumer.commit()
                except KafkaError as error:
                    check(may_lose_partitions(error), "reader", f"{program.name}: {error!r}")
                    await asyncio.sleep(RETRY_S)

    def take(self, name: str, record: ConsumerRecord[Any, Any]) -> None:
        partition, offset = record.partition, record.offset
        check(
            offset <= self.handed[partition],
            "skipped",
            f"{name} got {WRITTEN}-{partition} at {offset}, but no client got what is at {self.handed[partition]}",
        )
        self.handed[partition] = max(self.handed[partition], offset + 1)
        self._writers.histories[partition].see([(offset, (record.key, record.value))])

    def _missing(self) -> str:
        ends = [history.end_offset for history in self._writers.histories]
        is_done = all(handed >= end for handed, end in zip(self.handed, ends, strict=True))
        return "" if is_done else f"{self.handed} of {ends} are read"

    async def settle(self) -> None:
        await self._until_done("the group reads everything")
        await self._end_all()

    async def verify(self) -> None:
        """Every committed offset is behind a record that a member received."""
        program = Program(self._sim, "own-committed", self._sim.names, self._look)
        program.start()
        await program.ended()

    async def _look(self, program: Program) -> None:
        async with Consumer(**program.surroundings(), group_id=GROUP, enable_auto_commit=False) as consumer:
            committed = await consumer.committed([(WRITTEN, partition) for partition in range(PARTITION_COUNT)])
        for partition, handed in enumerate(self.handed):
            found = committed[TopicPartition(WRITTEN, partition)]
            offset = 0 if found is None else found.offset
            where = f"{WRITTEN}-{partition}"
            check(offset <= handed, "committed", f"{where}: {offset}, but only up to {handed} was handed out")
            if not self.is_rough:
                check(offset == handed, "committed", f"{where}: {offset}, though all members left in peace at {handed}")


def membership_settings(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"group_protocol": "consumer"}
    strategy = rng.choice(("range", "roundrobin", "sticky", "cooperative-sticky"))
    return {
        "group_protocol": "classic",
        "session_timeout_ms": 3_000,
        "heartbeat_interval_ms": 500,
        "max_poll_interval_ms": 30_000,
        "partition_assignment_strategy": strategy,
    }


def may_lose_partitions(error: KafkaError) -> bool:
    """Whether a member of a group may see this error and goes on: it may own other partitions now."""
    return is_passing(error) or error.code in (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    )


class Copiers(Applications):
    """Consume, produce and commit in one transaction; each application has a transactional id of its own."""

    _sim: Cluster
    name = "own-copiers"

    def __init__(self, sim: Cluster, rng: random.Random, writers: Writers) -> None:
        super().__init__(sim, rng)
        self._writers = writers
        self._reading: dict[str, Any] = {
            "group_id": COPY_GROUP,
            # The position of a copy is never guessed: a leader that was replaced and does not know it yet, as in Kafka,
            # has no record at an offset that was committed without a leader epoch, and says OFFSET_OUT_OF_RANGE.
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "max_poll_records": rng.choice((20, 500)),
            **membership_settings(rng),
        }
        self._writing: dict[str, Any] = {
            "linger_ms": rng.choice((0, 5)),
            "transaction_timeout_ms": rng.choice((3_000, 10_000)),
            "max_block_ms": 20_000,
        }
        self.copied = [0] * PARTITION_COUNT
        """Up to which offset, of each partition, a commit was acknowledged."""
        for number in range(rng.choice((1, 2))):
            self._program(f"copier-{number}")

    async def set_up(self) -> None:
        """The group has offsets before it has members."""
        program = Program(self._sim, "own-beginning", self._sim.names, self._begin)
        program.start()
        await program.ended()
        await super().set_up()

    async def _begin(self, program: Program) -> None:
        async with program.using(Admin(**program.surroundings())) as admin:
            beginning = {TopicPartition(WRITTEN, partition): 0 for partition in range(PARTITION_COUNT)}
            await admin.alter_group_offsets(COPY_GROUP, beginning)

    async def _live(self, program: Program) -> None:
        while not program.is_asked_to_end:
            try:
                await self._copy(program)
            except KafkaError as error:
                # The outcome may be unknown, or another member owns the partitions: begin anew from what is committed.
                self._sim.loop.trace.note(program.name, f"begins anew: {error}")
                await asyncio.sleep(RETRY_S)

    async def _copy(self, program: Program) -> None:
        around, rng = program.surroundings(), random.Random(f"{program.name} {program.incarnation} {self._sim.seed}")
        producer = Producer(**around, **self._settings, **self._writing, transactional_id=program.name)
        consumer = Consumer(**around, **self._settings, **self._reading)
        async with program.using(producer), program.using(consumer):
            await producer.init_transactions()
            consumer.subscribe([WRITTEN])
            while not program.is_asked_to_end:
                records = await consumer.poll(300)
                if not records:
                    continue
                if rng.random() < 0.1:
                    await producer.begin_transaction()
                    producer.send(COPIED, b"aborted", partition=0, timestamp=self._sim.clock())
                    await producer.abort_transaction()
                read_up_to = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                async with producer.transaction():
                    for one in records:
                        value = f"{one.offset}".encode()
                        producer.send(COPIED, value, one.key, partition=one.partition, timestamp=self._sim.clock())
                    await producer.send_offsets(read_up_to, consumer.group_metadata())
                for partition, offset in read_up_to.items():
                    self.copied[partition.partition] = max(self.copied[partition.partition], offset)

    def _missing(self) -> str:
        ends = [history.end_offset for history in self._writers.histories]
        is_done = all(copied >= end for copied, end in zip(self.copied, ends, strict=True))
        return "" if is_done else f"{self.copied} of {ends} are copied"

    async def settle(self) -> None:
        await self._until_done("everything is copied")
        await self._end_all()

    async def verify(self) -> None:
        program = Program(self._sim, "own-auditor", self._sim.names, self._audit)
        program.start()
        await program.ended()

    async def _audit(self, program: Program) -> None:
        found: list[list[int]] = [[] for _ in range(PARTITION_COUNT)]
        places = [(COPIED, partition) for partition in range(PARTITION_COUNT)]
        settings: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        until = self._sim.loop.time() + SETTLE_S
        async with (
            Consumer(**program.surroundings()) as uncommitted,
            Consumer(**program.surroundings(), **settings) as consumer,
        ):
            consumer.assign(places)
            while True:
                # Up to the high watermark: a transaction that is not complete yet hides committed ones behind it.
                ends = await uncommitted.end_offsets(places)
                positions = [await consumer.position(place) for place in places]
                if all(position >= ends[place] for position, place in zip(positions, map(_place, places), strict=True)):
                    break
                where = f"{positions} of {list(ends.values())} in {COPIED} can be read committed"
                check(self._sim.loop.time() < until, "liveness", f"a transaction stays open: {where}")
                for record in await consumer.poll(300):
                    found[record.partition].append(int(record.value or b""))
        for partition, offsets in enumerate(found):
            source = await self._sim.verified(WRITTEN, partition)
            expected = [offset for offset, _ in source][: len(offsets)]
            pairs = enumerate(zip(offsets, expected, strict=False))
            wrong = next(((place, *pair) for place, pair in pairs if pair[0] != pair[1]), None)
            check(
                offsets == expected, "copied", f"{COPIED}-{partition}: (place, found, expected) {wrong}, {len(offsets)}"
            )
            check(
                len(offsets) >= self.copied[partition],
                "lost",
                f"{COPIED}-{partition}: {len(offsets)} copies, {self.copied[partition]} were committed",
            )


def _place(partition: tuple[str, int]) -> TopicPartition:
    return TopicPartition(*partition)
