"""librdkafka's consumers in groups, through confluent-kafka: classic and consumer protocol, and its admin client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.contents import eventually
from tests.interop.servers import Server
from tests.interop.test_librdkafka import Clients, consume, create, done, dotted, produce

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

TopicPartition = confluent_kafka.TopicPartition
KafkaError = confluent_kafka.KafkaError
QUICK = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 200}
"""Short enough that rebalances are noticed soon, long enough that no member loses its session on a busy machine."""
KINDS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range", **QUICK},
    "roundrobin": {"partition.assignment.strategy": "roundrobin", **QUICK},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky", **QUICK},
    "uniform": {"group.protocol": "consumer"},
    "consumer-range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}


class Member:
    """One consumer on a thread of its own: it commits what it read before it reads on."""

    def __init__(self, bootstrap: str, group: str, topic: str, seen: Counter[tuple[int, int]], **settings: Any) -> None:
        fixed = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, "auto.offset.reset": "earliest"}
        self.consumer = confluent_kafka.Consumer({**fixed, "enable.auto.commit": False, **settings})
        self._seen = seen
        self.owned: frozenset[int] = frozenset()
        self.revocations = 0
        self.error: str | None = None
        self.is_committing = False
        self._stopping = threading.Event()
        self.consumer.subscribe([topic], on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_revoke(self, consumer: Any, partitions: Any) -> None:
        self.revocations += 1

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self.consumer.consume(100, 0.05)
            self.owned = frozenset(each.partition for each in self.consumer.assignment())
            self.is_committing = bool(messages)
            for message in messages:
                if message.error() is not None:
                    self.error = str(message.error())
                else:
                    self._seen[message.partition(), message.offset()] += 1
            if messages and self.error is None:
                self.consumer.commit(asynchronous=False)
            self.is_committing = False

    def leave(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.consumer.close()
        self.owned = frozenset()


class Crew:
    """The members of one group on one topic of six partitions."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._of = (bootstrap, group, topic)
        self.seen: Counter[tuple[int, int]] = Counter()
        self.members: list[Member] = []

    def join(self, **settings: Any) -> Member:
        member = Member(*self._of, self.seen, **settings)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        member.leave()

    def shares_are(self, *sizes: int) -> None:
        def hold() -> bool:
            owned = [member.owned for member in self.members]
            return sorted(map(len, owned)) == sorted(sizes) and len(frozenset().union(*owned)) == sum(sizes)

        eventually(hold)

    def has_read(self, per_partition: int) -> None:
        eventually(lambda: len(self.seen) >= 6 * per_partition)
        eventually(lambda: not any(member.is_committing for member in self.members))
        assert self.seen == Counter({(p, offset): 1 for p in range(6) for offset in range(per_partition)})
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
def crew(group_broker: Server, admin: Any, topic: str) -> Iterator[Crew]:
    create(admin, topic, partitions=6)
    crew = Crew(group_broker.bootstrap, f"crew-{topic}", topic)
    yield crew
    for member in crew.members:
        member.leave()


def write(clients: Clients, topic: str, each: int = 20) -> None:
    producer = clients.producer()
    for partition in range(6):
        produce(producer, topic, [b"x"] * each, partition)


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_the_partitions_and_read_each_record_once(
    crew: Crew, clients: Clients, topic: str, kind: str
) -> None:
    first = crew.join(**KINDS[kind])
    crew.shares_are(6)
    second = crew.join(**KINDS[kind])
    crew.shares_are(3, 3)
    third = crew.join(**KINDS[kind])
    crew.shares_are(2, 2, 2)
    write(clients, topic)
    crew.has_read(20)
    had, revocations = (second.owned, third.owned), (second.revocations, third.revocations)
    crew.leave(first)
    crew.shares_are(3, 3)
    if kind in ("cooperative-sticky", "uniform"):
        assert had[0] <= second.owned and had[1] <= third.owned
        assert (second.revocations, third.revocations) == revocations
    write(clients, topic)
    crew.has_read(40)
    crew.leave(second)
    crew.shares_are(6)
    write(clients, topic)
    crew.has_read(60)


def test_a_static_member_restarts_without_a_rebalance(crew: Crew, clients: Clients, topic: str) -> None:
    settings = KINDS["range"]
    first = crew.join(**settings, **{"group.instance.id": "one"})
    second = crew.join(**settings, **{"group.instance.id": "two"})
    crew.shares_are(3, 3)
    had, revocations = second.owned, first.revocations
    crew.leave(second)
    back = crew.join(**settings, **{"group.instance.id": "two"})
    crew.shares_are(3, 3)
    assert back.owned == had
    write(clients, topic)
    crew.has_read(20)
    assert first.revocations == revocations


def test_a_group_is_upgraded_while_it_reads(crew: Crew, clients: Clients, admin: Any, topic: str) -> None:
    classic = crew.join(**KINDS["cooperative-sticky"])
    crew.shares_are(6)
    write(clients, topic)
    crew.has_read(20)
    crew.join(**KINDS["uniform"])
    crew.shares_are(3, 3)
    write(clients, topic)
    crew.has_read(40)
    crew.leave(classic)
    crew.shares_are(6)
    write(clients, topic)
    crew.has_read(60)
    group = f"crew-{topic}"
    (described,) = done(admin.describe_consumer_groups([group])).values()
    assert described.type == confluent_kafka.ConsumerGroupType.CONSUMER


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_regular_expression_subscribes(admin: Any, clients: Clients, topic: str, protocol: str) -> None:
    for suffix in ("a", "b", "other"):
        create(admin, f"{topic}.{suffix}", partitions=2)
    settings = {"group.protocol": protocol, "group.id": f"regex-{topic}"}
    consumer = clients.consumer(**{name.replace(".", "_"): value for name, value in settings.items()})
    consumer.subscribe([rf"^{topic}\.[ab]"])

    def is_assigned() -> bool:
        consumer.poll(0.1)
        return {each.topic for each in consumer.assignment()} == {f"{topic}.a", f"{topic}.b"}

    eventually(is_assigned)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_committed_and_kept(admin: Any, clients: Clients, topic: str, protocol: str) -> None:
    create(admin, topic, partitions=2)
    produce(clients.producer(), topic, [b"%d" % number for number in range(50)])
    settings = dotted({"group_id": f"kept-{topic}", "group_protocol": protocol})
    consumer = clients.consumer(**{name.replace(".", "_"): value for name, value in settings.items()})
    consumer.subscribe([topic])
    assert len(consume(consumer, 50)) == 50
    consumer.commit(offsets=[TopicPartition(topic, 0, 20, "a note")], asynchronous=False)
    zero, one = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=120)
    assert (zero.offset, zero.metadata, one.offset) == (20, "a note", confluent_kafka.OFFSET_INVALID)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        consumer.commit(offsets=[TopicPartition(topic, 0, 20, "x" * 5000)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    assert consumer.consumer_group_metadata() is not None
    consumer.close()
    clients._consumers.remove(consumer)
    again = clients.consumer(**{name.replace(".", "_"): value for name, value in settings.items()})
    again.subscribe([topic])
    assert [int(message.value()) for message in consume(again, 30)] == list(range(20, 50))


def test_groups_are_administered(admin: Any, clients: Clients, crew: Crew, topic: str) -> None:
    group = f"crew-{topic}"
    member = crew.join(**KINDS["range"])
    crew.shares_are(6)
    write(clients, topic)
    crew.has_read(20)
    listed = admin.list_consumer_groups(states={confluent_kafka.ConsumerGroupState.STABLE}, request_timeout=120)
    found = {each.group_id: each for each in listed.result(120).valid}
    assert found[group].type == confluent_kafka.ConsumerGroupType.CLASSIC and not found[group].is_simple_consumer_group
    types = {confluent_kafka.ConsumerGroupType.CONSUMER}
    assert group not in {each.group_id for each in admin.list_consumer_groups(types=types).result(120).valid}
    (described,) = done(admin.describe_consumer_groups([group], include_authorized_operations=True)).values()
    assert described.state == confluent_kafka.ConsumerGroupState.STABLE
    assert described.partition_assignor == "range" and described.coordinator.id == 1
    assert len(described.members[0].assignment.topic_partitions) == 6
    assert described.authorized_operations

    def code_of(futures: Any) -> int:
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            done(futures)
        return int(refused.value.args[0].code())

    wish = [confluent_kafka.ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])]
    assert code_of(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP
    (unknown,) = done(admin.describe_consumer_groups(["no-such-group"])).values()
    assert unknown.state == confluent_kafka.ConsumerGroupState.DEAD
    (altered,) = admin.alter_consumer_group_offsets(wish).values()
    (partition,) = altered.result(120).topic_partitions
    assert partition.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    crew.leave(member)
    (altered,) = admin.alter_consumer_group_offsets(wish).values()
    assert [each.error for each in altered.result(120).topic_partitions] == [None]
    request = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
    (offsets,) = done(admin.list_consumer_group_offsets(request)).values()
    found = {each.partition: each.offset for each in offsets.topic_partitions}
    assert found == {0: 3, **dict.fromkeys(range(1, 6), 20)}
    done(admin.delete_consumer_groups([group]))
    assert code_of(admin.delete_consumer_groups([group])) == KafkaError.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("kind", ["range", "uniform"] if os.environ.get("OTTLA_INTEROP_ALL") == "1" else ["range"])
def test_a_member_that_dies_is_replaced(
    group_broker: Server, admin: Any, clients: Clients, topic: str, kind: str
) -> None:
    """The dead one stops in the middle: its process is frozen, which no heartbeat thread survives."""
    create(admin, topic, partitions=6)
    crew = Crew(group_broker.bootstrap, f"crew-{topic}", topic)
    mortal = {**KINDS[kind], "session.timeout.ms": 6000} if kind == "range" else KINDS[kind]
    frozen = FrozenMember(group_broker.bootstrap, f"crew-{topic}", topic, mortal)
    try:
        frozen.wait_until_assigned()
        member = crew.join(**KINDS[kind])
        crew.shares_are(3)
        frozen.freeze()
        crew.shares_are(6)
        write(clients, topic)
        crew.has_read(20)
        crew.leave(member)
    finally:
        frozen.kill()


class FrozenMember:
    """A consumer in a process of its own that can be stopped (SIGSTOP) and killed."""

    PROGRAM = """
import json, sys
import confluent_kafka
settings, topic = json.loads(sys.argv[1]), sys.argv[2]
consumer = confluent_kafka.Consumer(settings)
consumer.subscribe([topic], on_assign=lambda consumer, partitions: print("assigned", flush=True))
while True:
    consumer.poll(0.1)
"""

    def __init__(self, bootstrap: str, group: str, topic: str, settings: dict[str, Any]) -> None:
        fixed = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM, json.dumps({**fixed, **settings}), topic],
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_assigned(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "assigned\n"

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
