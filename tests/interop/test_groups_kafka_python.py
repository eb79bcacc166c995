"""kafka-python's consumers in groups: each of its assignors, commits, and its admin client."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.contents import eventually
from tests.interop.servers import Server

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
kafka_admin = pytest.importorskip("kafka.admin", reason="kafka-python is not installed")
structs = pytest.importorskip("kafka.structs", reason="kafka-python is not installed")
errors = pytest.importorskip("kafka.errors", reason="kafka-python is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # the client's own deprecations


class Member(threading.Thread):
    """One consumer: it commits what it read before it reads on."""

    def __init__(self, server: Server, group: str, topic: str, seen: Counter[tuple[int, int]], **settings: Any) -> None:
        super().__init__()
        quick = {"session_timeout_ms": 30_000, "heartbeat_interval_ms": 200, "metadata_max_age_ms": 1000}
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=server.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **{**quick, **settings},
        )
        # A leader that learns of its topic between joining and syncing rejoins at once, and now and then this client
        # loses the answer that it has received then: it asks first.
        assert self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe([topic])
        self._seen = seen
        self.owned: frozenset[int] = frozenset()
        self.has_committed = True
        """Whether all that it counted is committed. A rebalance before the commit would make the commit fail."""
        self.failure: Exception | None = None
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            self._read()
        except Exception as failure:  # told by shares_are
            self.failure = failure
        self.consumer.close()
        self.owned = frozenset()

    def _read(self) -> None:
        while not self._stopping.is_set():
            batches = self.consumer.poll(timeout_ms=1000)
            self.owned = frozenset(each.partition for each in self.consumer.assignment())
            self.has_committed = not batches
            for partition, records in batches.items():
                for record in records:
                    self._seen[partition.partition, record.offset] += 1
            if batches:
                self.consumer.commit()
                self.has_committed = True

    def leave(self) -> None:
        self._stopping.set()
        self.join(120)


@pytest.fixture
def admin(group_broker: Server) -> Iterator[Any]:
    client = kafka_admin.KafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
    yield client
    client.close()


def write(server: Server, topic: str, each: int) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=server.bootstrap)
    for partition in range(6):
        for _ in range(each):
            producer.send(topic, b"x", partition=partition)
    producer.flush(120)
    producer.close()


def shares_are(members: list[Member], *sizes: int) -> None:
    def hold() -> bool:
        for member in members:
            if member.failure is not None:
                raise member.failure
        owned = [member.owned for member in members]
        return sorted(map(len, owned)) == sorted(sizes) and len(frozenset().union(*owned)) == sum(sizes)

    eventually(hold)


def assignors() -> list[Any]:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    return [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor]


@pytest.mark.parametrize("assignor", assignors(), ids=lambda assignor: assignor.__name__)
def test_members_share_the_partitions_and_read_each_record_once(
    group_broker: Server, admin: Any, topic: str, assignor: Any
) -> None:
    admin.create_topics([kafka_admin.NewTopic(topic, 6, 1)])
    seen: Counter[tuple[int, int]] = Counter()
    group = f"kafka-python-{topic}"
    members = [Member(group_broker, group, topic, seen, partition_assignment_strategy=[assignor]) for _ in range(2)]
    try:
        shares_are(members, 3, 3)
        write(group_broker, topic, 20)
        eventually(lambda: len(seen) >= 120 and all(member.has_committed for member in members))
        members.pop().leave()
        shares_are(members, 6)
        write(group_broker, topic, 20)
        eventually(lambda: len(seen) >= 240)
        assert seen == Counter({(partition, offset): 1 for partition in range(6) for offset in range(40)})
    finally:
        for member in members:
            member.leave()
    consumer = kafka.KafkaConsumer(bootstrap_servers=group_broker.bootstrap, group_id=group, enable_auto_commit=False)
    for partition in range(6):
        assert consumer.committed(structs.TopicPartition(topic, partition)) == 40
    consumer.close()


def test_groups_are_administered(group_broker: Server, admin: Any, topic: str) -> None:
    admin.create_topics([kafka_admin.NewTopic(topic, 6, 1)])
    seen: Counter[tuple[int, int]] = Counter()
    group = f"kafka-python-{topic}"
    member = Member(group_broker, group, topic, seen, client_id="a-python-client")
    try:
        shares_are([member], 6)
        write(group_broker, topic, 5)
        eventually(lambda: len(seen) == 30)
        assert group in str(admin.list_groups(states_filter=["Stable"], types_filter=["classic"]))
        assert group not in str(admin.list_groups(types_filter=["consumer"]))
        described = str(admin.describe_groups([group]))
        assert "a-python-client" in described and "Stable" in described
    finally:
        member.leave()
    zero = structs.TopicPartition(topic, 0)
    admin.alter_group_offsets(group, {zero: structs.OffsetAndMetadata(2, "", -1)})
    offsets = {each.partition: found.offset for each, found in admin.list_group_offsets([group])[group].items()}
    assert offsets == {0: 2, **dict.fromkeys(range(1, 6), 5)}
    admin.delete_group_offsets(group, [zero])
    assert zero not in admin.list_group_offsets([group])[group]
    admin.delete_groups([group])
    assert group not in str(admin.list_groups())
