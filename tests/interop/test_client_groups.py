"""Our consumers in groups: among themselves, and side by side with Java's and librdkafka's.

Every member commits what it read before it reads on, so a rebalance without a crash reads each record exactly once.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

from ottla.client.admin import Admin, ConfigChange, ConfigResource, ResourceType
from ottla.client.consumer import Consumer
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import CommitFailed, ErrorCode, KafkaError
from tests.interop.servers import Server, kafka_anchor
from tests.interop.test_groups_librdkafka import Member as LibrdkafkaMember
from tests.interop.test_librdkafka import Clients, create, produce
from tests.interop.toolbox import JAVA_SOURCES

ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"

confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

PARTITION_COUNT = 6
QUICK = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 200}
MORTAL_SESSION_MS = 6_000
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
KINDS: dict[str, dict[str, Any]] = {
    **{name: {"partition.assignment.strategy": name, **QUICK} for name in ASSIGNORS},
    "consumer": {"group.protocol": "consumer"},
    "consumer-range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}
WITH_LIBRDKAFKA = ("range", "roundrobin", "cooperative-sticky", "consumer")
JAVA_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def run(crew: Crew, work: Coroutine[Any, Any, None], seconds: float = 280) -> None:
    """Whatever happens, no member is left behind."""

    async def to_the_end() -> None:
        try:
            await asyncio.wait_for(work, seconds)
        finally:
            await crew.close()

    asyncio.run(to_the_end())


async def until(holds: Callable[[], bool], what: str = "", seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not come true in time: {what}"
        await asyncio.sleep(0.02)


class OurMember:
    """One consumer of ours, read by a task of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, seen: Counter[tuple[int, int]], **settings: Any) -> None:
        fixed = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self.consumer = Consumer({**fixed, "enable.auto.commit": False, **settings})
        self.events: list[tuple[str, list[int]]] = []
        self.error: BaseException | None = None
        self.is_held = False
        self._seen = seen
        self._is_stopping = False
        self.consumer.subscribe([topic], listener=self)
        self._task = asyncio.create_task(self._run())

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self.consumer.assignment())

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("assigned", [each.partition for each in partitions]))

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", [each.partition for each in partitions]))
        await self._commit()

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", [each.partition for each in partitions]))

    async def _run(self) -> None:
        try:
            while not self._is_stopping:
                if self.is_held:
                    await asyncio.sleep(0.02)
                    continue
                for record in await self.consumer.poll(50):
                    self._seen[record.partition, record.offset] += 1
                if self.owned:
                    await self._commit()
        except Exception as error:
            self.error = error

    async def _commit(self) -> None:
        try:
            await self.consumer.commit()
        except CommitFailed as error:
            if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                raise

    async def leave(self) -> None:
        self._is_stopping = True
        await self._task
        await self.consumer.close()

    async def die(self) -> None:
        """Without a word to the group."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self.consumer._fetcher is not None:
            await self.consumer._fetcher.stop()  # or it would begin anew while the loop ends
        await self.consumer._cluster.close()


class JavaMember:
    """One consumer of Java's, in a JVM of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, seen: Counter[tuple[int, int]], **settings: Any) -> None:
        script = kafka_anchor()
        if script is None:
            pytest.skip("Java's clients: no anchor script or no java")
        given = {**settings}
        if name := given.get("partition.assignment.strategy"):
            given["partition.assignment.strategy"] = f"org.apache.kafka.clients.consumer.{JAVA_CLASSES[name]}"
        self._seen = seen
        self.owned: frozenset[int] = frozenset()
        self.error: str | None = None
        self._process = subprocess.Popen(
            [str(script), str(JAVA_SOURCES / "GroupMember.java"), bootstrap, group, topic]
            + [f"{name}={value}" for name, value in given.items()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if words and words[0] == "owns":
                self.owned = frozenset(map(int, words[1:]))
            elif words and words[0] == "read":
                self._seen[int(words[1]), int(words[2])] += 1

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.close()
        self._process.wait(60)
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.owned = frozenset()


class Crew:
    """The members of one group on one topic of six partitions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.of = (bootstrap, f"crew-{topic}", topic)
        self.seen: Counter[tuple[int, int]] = Counter()
        self.members: list[Any] = []
        self.patience_seconds = 120.0

    def join(self, cls: type[Any] = OurMember, **settings: Any) -> Any:
        member = cls(*self.of, self.seen, **settings)
        self.members.append(member)
        return member

    async def leave(self, member: Any) -> None:
        self.members.remove(member)
        if isinstance(member, OurMember):
            await member.leave()
        else:
            await asyncio.to_thread(member.leave)

    async def close(self) -> None:
        for member in list(self.members):
            await self.leave(member)

    async def shares_are(self, *sizes: int) -> None:
        def hold() -> bool:
            self.check()
            owned = [member.owned for member in self.members]
            return sorted(map(len, owned)) == sorted(sizes) and len(frozenset().union(*owned)) == sum(sizes)

        try:
            await until(hold, f"shares of {sizes}", self.patience_seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; they are {[sorted(member.owned) for member in self.members]}") from None

    async def has_read(self, per_partition: int) -> None:
        expected = {(p, offset): 1 for p in range(PARTITION_COUNT) for offset in range(per_partition)}
        await until(lambda: len(self.seen) >= len(expected), "everything is read")
        await asyncio.sleep(0.1)
        assert self.seen == Counter(expected)
        self.check()

    def check(self) -> None:
        assert not [member.error for member in self.members if member.error]


@pytest.fixture
def admin(group_broker: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": group_broker.bootstrap})


@pytest.fixture
def clients(group_broker: Server) -> Iterator[Clients]:
    opened = Clients(group_broker.bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def crew(group_broker: Server, admin: Any, topic: str) -> Crew:
    create(admin, topic, partitions=PARTITION_COUNT)
    return Crew(group_broker.bootstrap, topic)


async def write(clients: Clients, topic: str, each: int = 20) -> None:
    def work() -> None:
        producer = clients.producer()
        for partition in range(PARTITION_COUNT):
            produce(producer, topic, [b"x"] * each, partition)

    await asyncio.to_thread(work)


@pytest.mark.parametrize("kind", KINDS)
def test_our_members_share_the_partitions_and_read_each_record_once(
    crew: Crew, clients: Clients, topic: str, kind: str
) -> None:
    async def work() -> None:
        first = crew.join(**KINDS[kind])
        await crew.shares_are(6)
        crew.join(**KINDS[kind])
        await crew.shares_are(3, 3)
        await write(clients, topic)
        await crew.has_read(20)
        crew.join(**KINDS[kind])
        await crew.shares_are(2, 2, 2)
        await write(clients, topic)
        await crew.has_read(40)
        await crew.leave(first)
        await crew.shares_are(3, 3)
        await write(clients, topic)
        await crew.has_read(60)

    run(crew, work())


@pytest.mark.parametrize("order", ["theirs first", "ours first"])
@pytest.mark.parametrize("kind", WITH_LIBRDKAFKA)
def test_ours_and_librdkafkas_members_share_a_group(
    crew: Crew, clients: Clients, topic: str, kind: str, order: str
) -> None:
    async def work() -> None:
        classes = [LibrdkafkaMember, OurMember] if order == "theirs first" else [OurMember, LibrdkafkaMember]
        first = crew.join(classes[0], **KINDS[kind])
        await crew.shares_are(6)
        crew.join(classes[1], **KINDS[kind])
        await crew.shares_are(3, 3)
        await write(clients, topic)
        await crew.has_read(20)
        crew.join(OurMember, **KINDS[kind])
        await crew.shares_are(2, 2, 2)
        await crew.leave(first)
        await crew.shares_are(3, 3)
        await write(clients, topic)
        await crew.has_read(40)

    run(crew, work())


@pytest.mark.skipif(not ALL, reason="a JVM for each member: only with `make interop`")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sticky", "cooperative-sticky", "consumer"])
def test_ours_and_javas_members_share_a_group(crew: Crew, clients: Clients, topic: str, kind: str) -> None:
    async def work() -> None:
        theirs = crew.join(JavaMember, **KINDS[kind])
        await crew.shares_are(6)
        ours = crew.join(OurMember, **KINDS[kind])
        await crew.shares_are(3, 3)
        await write(clients, topic)
        await crew.has_read(20)
        await crew.leave(theirs)
        await crew.shares_are(6)
        crew.join(JavaMember, **KINDS[kind])
        await crew.shares_are(3, 3)
        await write(clients, topic)
        await crew.has_read(40)
        await crew.leave(ours)
        await crew.shares_are(6)

    run(crew, work(), 380)


def test_a_cooperative_rebalance_takes_only_what_moves(crew: Crew) -> None:
    async def work() -> None:
        first = crew.join(**KINDS["cooperative-sticky"])
        await crew.shares_are(6)
        crew.join(**KINDS["cooperative-sticky"])
        await crew.shares_are(3, 3)
        revoked = [partitions for event, partitions in first.events if event == "revoked"]
        assert len(revoked) == 1 and len(revoked[0]) == 3

    run(crew, work())


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky", "consumer"])
def test_a_member_that_dies_loses_its_partitions_to_the_others(
    crew: Crew, clients: Clients, topic: str, kind: str
) -> None:
    async def work() -> None:
        bootstrap, group, _ = crew.of
        mortal: dict[str, Any] = {}
        if kind == "consumer":
            async with Admin(bootstrap_servers=bootstrap) as admin:
                short = ConfigChange("consumer.session.timeout.ms", str(MORTAL_SESSION_MS))
                await admin.alter_configs({ConfigResource(ResourceType.GROUP, group): [short]})
        else:
            mortal["session.timeout.ms"] = MORTAL_SESSION_MS
        victim = crew.join(**{**KINDS[kind], **mortal})
        crew.join(**KINDS[kind])
        await crew.shares_are(3, 3)
        crew.members.remove(victim)
        await victim.die()
        await crew.shares_are(6)
        await write(clients, topic)
        await crew.has_read(20)

    run(crew, work())


@pytest.mark.parametrize("kind", ["range", "consumer"])
def test_a_member_that_does_not_poll_loses_its_partitions_and_gets_some_back_when_it_does(
    crew: Crew, kind: str
) -> None:
    async def work() -> None:
        slow = crew.join(OurMember, **KINDS[kind], **{"max.poll.interval.ms": 1_500})
        quick = crew.join(**KINDS[kind])
        await crew.shares_are(3, 3)
        slow.is_held = True
        slow.events.clear()
        await until(lambda: len(quick.owned) == 6, "the other has everything")
        assert not [event for event, _ in slow.events if event == "lost"]
        slow.is_held = False
        await until(lambda: any(event == "lost" for event, _ in slow.events), "it hears of its loss")
        await crew.shares_are(3, 3)

    run(crew, work())


@pytest.mark.parametrize("kind", ["range", "consumer"])
def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(crew: Crew, kind: str) -> None:
    async def work() -> None:
        first = crew.join(OurMember, **KINDS[kind], **{"group.instance.id": "first"})
        other = crew.join(OurMember, **KINDS[kind], **{"group.instance.id": "other"})
        await crew.shares_are(3, 3)
        before, told = first.owned, len(other.events)
        await crew.leave(first)
        again = crew.join(OurMember, **KINDS[kind], **{"group.instance.id": "first"})
        await crew.shares_are(3, 3)
        assert again.owned == before and len(other.events) == told

    run(crew, work())


def test_a_second_member_with_the_same_instance_id_fences_the_first(crew: Crew) -> None:
    async def work() -> None:
        first = crew.join(OurMember, **KINDS["range"], **{"group.instance.id": "same"})
        await crew.shares_are(6)
        crew.members.remove(first)
        crew.join(OurMember, **KINDS["range"], **{"group.instance.id": "same"})
        await until(lambda: first.error is not None, "the first is fenced")
        assert isinstance(first.error, KafkaError) and first.error.code is ErrorCode.FENCED_INSTANCE_ID
        await first.consumer.close()
        await crew.shares_are(6)

    run(crew, work())


@pytest.mark.parametrize("kind", ["range", "consumer"])
def test_partitions_added_to_a_topic_are_shared_out(crew: Crew, admin: Any, topic: str, kind: str) -> None:
    async def work() -> None:
        for _ in range(2):
            crew.join(OurMember, **KINDS[kind], **{"metadata.max.age.ms": 300})
        await crew.shares_are(3, 3)
        admin.create_partitions([confluent_admin.NewPartitions(topic, 8)])[topic].result(120)
        await crew.shares_are(4, 4)

    run(crew, work())


def test_what_a_listener_commits_as_partitions_go_is_where_the_next_owner_begins(
    crew: Crew, clients: Clients, topic: str
) -> None:
    async def work() -> None:
        await write(clients, topic)
        handed: set[tuple[int, int]] = set()

        class Listener:
            async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                await first.commit()

        bootstrap, group, _ = crew.of
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", **QUICK}
        first: Consumer[Any, Any] = Consumer({**settings, "enable.auto.commit": False, "max.poll.records": 10})
        first.subscribe([topic], listener=Listener())  # type: ignore[arg-type]  # methods may be left out
        while len(handed) < 50:
            handed.update((record.partition, record.offset) for record in await first.poll(5_000))
        before = len(handed)
        crew.join(**KINDS["range"])
        while len(first.assignment()) == PARTITION_COUNT:
            handed.update((record.partition, record.offset) for record in await first.poll(50))
        while len(handed) + len(crew.seen) < PARTITION_COUNT * 20:
            handed.update((record.partition, record.offset) for record in await first.poll(50))
        assert before <= len(handed) and not handed & set(crew.seen)
        await first.close()

    run(crew, work())
