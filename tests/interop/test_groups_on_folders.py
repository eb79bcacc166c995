"""Groups and their offsets in a data folder that Ottla and Apache Kafka 4.3.1 use in turn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import GROUP_SETTINGS, ON_KAFKA, StartServer
from tests.interop.contents import eventually
from tests.interop.servers import Server, kafka_anchor
from tests.interop.test_librdkafka import Clients, consume, create, done, produce

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

TopicPartition = confluent_kafka.TopicPartition
KINDS: dict[str, dict[str, str | int]] = {
    "classic": {"group.protocol": "classic", "session.timeout.ms": 3000, "heartbeat.interval.ms": 300},
    "cooperative": {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 3000,
        "heartbeat.interval.ms": 300,
    },
    "consumer": {"group.protocol": "consumer"},
    "consumer-range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}
TYPES = {
    "classic": confluent_kafka.ConsumerGroupType.CLASSIC,
    "cooperative": confluent_kafka.ConsumerGroupType.CLASSIC,
    "consumer": confluent_kafka.ConsumerGroupType.CONSUMER,
    "consumer-range": confluent_kafka.ConsumerGroupType.CONSUMER,
}

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="both servers take part"),
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Kafka and Ottla in turn: only with `make interop`"
    ),
    pytest.mark.timeout(900),
]


class Groups:
    """What was done to groups so far. `go_on` lets every group read and commit more, `check` finds all of it."""

    def __init__(self) -> None:
        self._round = 0
        self._offsets: dict[str, dict[int, int]] = {}

    def go_on(self, server: Server) -> None:
        """Every group continues exactly at its committed offsets, whether Ottla or Kafka stored them."""
        admin, clients = _admin(server), Clients(server.bootstrap)
        if not self._round:
            create(admin, "shared", partitions=3)
        self._round += 1
        for partition in range(3):
            produce(clients.producer(), "shared", [b"%d" % number for number in range(20)], partition)
        for kind, settings in KINDS.items():
            consumer = clients.consumer(
                group_id=kind, **{key.replace(".", "_"): each for key, each in settings.items()}
            )
            consumer.subscribe(["shared"])
            read = consume(consumer, 60, 40)
            expected = [(partition, 20 * self._round - 20 + n) for partition in range(3) for n in range(20)]
            assert sorted((each.partition(), each.offset()) for each in read) == expected, kind
            consumer.commit(asynchronous=False)
            self._offsets[kind] = dict.fromkeys(range(3), 20 * self._round)
        simple = clients.consumer(group_id="simple")
        simple.commit(offsets=[TopicPartition("shared", 1, self._round, "a note")], asynchronous=False)
        self._offsets["simple"] = {1: self._round}
        gone = clients.consumer(group_id="gone")
        gone.commit(offsets=[TopicPartition("shared", 1, 1)], asynchronous=False)
        self.left_alive = clients
        done(admin.delete_consumer_groups(["gone"]))

    def check(self, server: Server) -> None:
        admin = _admin(server)
        names = sorted(self._offsets)
        eventually(lambda: _listed(admin) == names)
        for group, offsets in self._offsets.items():
            request = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
            (found,) = done(admin.list_consumer_group_offsets(request)).values()
            assert {each.partition: each.offset for each in found.topic_partitions} == offsets, group
            if group == "simple":
                assert [each.metadata for each in found.topic_partitions] == ["a note"]
        for kind, group_type in TYPES.items():
            (described,) = done(admin.describe_consumer_groups([kind])).values()
            assert described.type == group_type


def _listed(admin: Any) -> list[str]:
    listed = admin.list_consumer_groups(request_timeout=120).result(120)
    return [] if listed.errors else sorted(each.group_id for each in listed.valid)


def _admin(server: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap})


WAYS = [("stop", False), ("stop", True), ("kill", False), ("kill", True)]


@pytest.mark.parametrize(("how", "kafka_first"), WAYS)
def test_each_finds_the_groups_that_the_other_kept(
    start_server: StartServer, tmp_path: Path, how: str, kafka_first: bool
) -> None:
    """`stop` lets the members leave first; `kill` leaves them in the group, to be timed out by the next server."""
    folder, groups = tmp_path / "data", Groups()
    for turn in range(3):
        server = start_server(*GROUP_SETTINGS, data=folder, on_kafka=kafka_first == (turn % 2 == 0))
        if turn:
            groups.check(server)
        groups.go_on(server)
        groups.check(server)
        if how == "stop":
            groups.left_alive.close()
            server.stop()
        else:
            server.kill()
            groups.left_alive.close()
