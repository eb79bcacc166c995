"""Clusters of both makes: an Apache Kafka 4.3.1 broker under Ottla's controllers, an Ottla broker under Kafka's, and
controllers of both makes in one quorum."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import ON_KAFKA
from tests.interop.servers import Kafka, Ottla, Server, kafka_anchor
from tests.interop.toolbox import Toolbox

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="both servers take part"),
    pytest.mark.skipif(not os.environ.get("OTTLA_INTEROP_ALL"), reason="two JVMs: OTTLA_INTEROP_ALL=1 runs it"),
    pytest.mark.timeout(900),
]

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The one that the anchor script formats its folders for."""
PATIENCE_S = 90.0
COUNT = 200


class ClusterNode(Ottla):
    """A node whose settings say where it listens."""

    def _listening(self) -> list[str]:
        return []


class MixedCluster:
    """Brokers of these makes, the first of which are controllers, too."""

    def __init__(self, folder: Path, makes: list[type[Server]], voter_count: int) -> None:
        self.nodes = {id: make(folder / f"node{id}") for id, make in enumerate(makes, 1)}
        controllers = {id: f"127.0.0.1:{self.nodes[id].port + 1}" for id in range(1, voter_count + 1)}
        for id, node in self.nodes.items():
            listeners = f"PLAINTEXT://{node.bootstrap}"
            node.overrides = [
                f"node.id={id}",
                f"process.roles={'broker,controller' if id in controllers else 'broker'}",
                f"controller.quorum.voters={','.join(f'{id}@{address}' for id, address in controllers.items())}",
                f"listeners={listeners}{f',CONTROLLER://{controllers[id]}' if id in controllers else ''}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "group.initial.rebalance.delay.ms=0",
                "offsets.topic.num.partitions=4",
                "offsets.topic.replication.factor=2",
                "transaction.state.log.num.partitions=4",
                "transaction.state.log.replication.factor=2",
                "transaction.state.log.min.isr=1",
            ]
            if isinstance(node, ClusterNode):
                node.arguments = ["--verbose", "--cluster-id", CLUSTER_ID]

    def start(self) -> None:
        for node in self.nodes.values():
            node.start(PATIENCE_S)

    def start_together(self) -> None:
        """All at once: one of three voters alone does not answer."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.start(PATIENCE_S), self.nodes.values()))

    def close(self) -> None:
        for node in reversed(self.nodes.values()):
            node.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @cached_property
    def admin(self) -> Any:
        return confluent_admin.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: str) -> None:
        """A topic with a partition led by each node, copied by the other."""
        new = confluent_admin.NewTopic(
            topic, 2, replica_assignment=[[1, 2], [2, 1]], config={"min.insync.replicas": "2"}
        )
        self.admin.create_topics([new])[topic].result(PATIENCE_S)

    def in_sync(self, topic: str) -> list[tuple[int, list[int]]]:
        """Leader and in-sync replicas of each partition."""
        partitions = self.admin.list_topics(topic, 10).topics[topic].partitions
        return [(partitions[index].leader, sorted(partitions[index].isrs)) for index in sorted(partitions)]

    def until_in_sync(self, topic: str, expected: list[tuple[int, list[int]]]) -> None:
        end = time.monotonic() + PATIENCE_S
        while (found := self.in_sync(topic)) != expected:
            said = "\n".join(node.output()[-1500:] for node in self.nodes.values())
            assert time.monotonic() < end, f"{found} is not {expected}\n{said}"
            time.sleep(0.1)

    def until_all_in_sync(self, topic: str, all_ids: list[int]) -> None:
        end = time.monotonic() + PATIENCE_S
        while any(isr != all_ids for _, isr in self.in_sync(topic)):
            assert time.monotonic() < end, self.in_sync(topic)
            time.sleep(0.1)

    def produce(self, topic: str, start: int, **settings: object) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True, **settings}
        )
        failures: list[object] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(error)

        transactional = "transactional.id" in settings
        if transactional:
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
        for number in range(start, start + COUNT):
            producer.produce(topic, str(number).encode(), partition=number % 2, on_delivery=delivered)
        assert producer.flush(PATIENCE_S) == 0
        if transactional:
            producer.commit_transaction(PATIENCE_S)
        assert not failures

    def consume(self, topic: str, count: int, group: str) -> list[int]:
        """Everything in a topic, as a member of a group, whose offsets are committed."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found: list[int] = []
        end = time.monotonic() + PATIENCE_S
        try:
            while len(found) < count and time.monotonic() < end:
                found += [int(message.value()) for message in consumer.consume(500, 0.5) if message.error() is None]
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return sorted(found)


@pytest.fixture(scope="module", params=[[ClusterNode, Kafka], [Kafka, ClusterNode]], ids=["kafka-joins", "ottla-joins"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    made = MixedCluster(tmp_path_factory.mktemp("mixed"), request.param, voter_count=1)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_what_one_make_leads_the_other_copies(cluster: MixedCluster) -> None:
    cluster.create("copied")
    both = [(1, [1, 2]), (2, [1, 2])]
    cluster.until_in_sync("copied", both)
    cluster.produce("copied", 0)
    assert cluster.consume("copied", COUNT, "readers") == list(range(COUNT))
    cluster.until_in_sync("copied", both)


def test_transactions_span_both_makes(cluster: MixedCluster) -> None:
    cluster.create("spanned")
    cluster.produce("spanned", 0, **{"transactional.id": "spanning"})
    cluster.produce("spanned", COUNT, **{"transactional.id": "spanning"})
    assert cluster.consume("spanned", 2 * COUNT, "readers-of-transactions") == list(range(2 * COUNT))


def test_a_broker_that_was_away_catches_up_with_the_other_make(cluster: MixedCluster) -> None:
    cluster.create("caught-up")
    cluster.admin.incremental_alter_configs(
        [
            confluent_admin.ConfigResource(
                confluent_admin.ConfigResource.Type.TOPIC,
                "caught-up",
                incremental_configs=[
                    confluent_admin.ConfigEntry(
                        "min.insync.replicas", "1", incremental_operation=confluent_admin.AlterConfigOpType.SET
                    )
                ],
            )
        ]
    )
    cluster.produce("caught-up", 0)
    cluster.nodes[2].stop()
    cluster.until_in_sync("caught-up", [(1, [1]), (1, [1])])
    cluster.produce("caught-up", COUNT)
    cluster.nodes[2].start(PATIENCE_S)
    cluster.until_in_sync("caught-up", [(1, [1, 2]), (1, [1, 2])])
    assert cluster.consume("caught-up", 2 * COUNT, "readers-after") == list(range(2 * COUNT))


def quorum_leader(tools: Toolbox, server: str) -> tuple[int, list[int]]:
    """The quorum's leader and voters as Kafka's tool prints them."""
    printed = tools("metadata-quorum", "--bootstrap-server", server, "describe", "--status").out
    said = dict(line.split(":", 1) for line in printed.splitlines() if ":" in line)
    return int(said["LeaderId"]), sorted(int(id) for id in re.findall(r'"id": (\d+)', said["CurrentVoters"]))


@pytest.mark.parametrize("makes", [[ClusterNode, Kafka, ClusterNode], [Kafka, ClusterNode, Kafka]], ids=["2+1", "1+2"])
def test_controllers_of_both_makes_elect_each_other(makes: list[type[Server]], tmp_path: Path, tools: Toolbox) -> None:
    cluster = MixedCluster(tmp_path, makes, voter_count=3)
    try:
        cluster.start_together()
        all_ids = [1, 2, 3]
        for turn in range(3):
            bootstrap = cluster.nodes[all_ids[turn]].bootstrap
            leader, voters = quorum_leader(tools, bootstrap)
            assert voters == all_ids
            topic = f"turn-{turn}"
            new = confluent_admin.NewTopic(topic, 2, 3, config={"min.insync.replicas": "2"})
            cluster.admin.create_topics([new])[topic].result(PATIENCE_S)
            cluster.produce(topic, 0)
            cluster.nodes[leader].kill()
            cluster.produce(topic, COUNT)
            cluster.nodes[leader].start(PATIENCE_S)
            cluster.until_all_in_sync(topic, all_ids)
            assert cluster.consume(topic, 2 * COUNT, f"readers-{turn}") == list(range(2 * COUNT))
    finally:
        cluster.close()
