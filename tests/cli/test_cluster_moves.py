"""`ottla cluster drain` and `rebalance` on three nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from ottla.client.admin import NewTopic
from ottla.client.blocking import Admin, Producer
from ottla.client.metadata import TopicPartition
from ottla.testing import Cluster
from tests.cli.conftest import Ottla

RECORDS = 200


class Running(NamedTuple):
    """The cluster that commands of this module are about."""

    bootstrap: str
    nodes: Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with Cluster(nodes=3) as nodes:
        yield Running(nodes.bootstrap_servers, nodes)


@pytest.fixture
def admin(cluster: Running) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin
        admin.delete_topics(admin.list_topics(include_internal=True))


def filled(cluster: Running, admin: Admin, topic: str, *replicas: list[int]) -> None:
    """A topic with some records in each partition, and every replica in sync."""
    admin.create_topics([NewTopic(topic, assignments=dict(enumerate(replicas)))])
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%01000d" % number, partition=number % len(replicas))
        producer.flush()
    cluster.nodes.wait_until_in_sync(topic)


def replicas(admin: Admin, topic: str) -> list[list[int]]:
    return [list(one.replicas) for one in admin.describe_topics([topic])[topic].partitions]


def leaders(admin: Admin, topic: str) -> list[int]:
    return [one.leader_id for one in admin.describe_topics([topic])[topic].partitions]


def throttles(admin: Admin, topic: str) -> dict[str, Any]:
    """The throttles that are set, of the topic and of all brokers."""
    from ottla.client.admin import ConfigResource, ResourceType

    asked = [ConfigResource(ResourceType.TOPIC, topic)]
    asked += [ConfigResource(ResourceType.BROKER, str(id)) for id in (1, 2, 3)]
    return {
        f"{resource.name} {name}": entry.value
        for resource, entries in admin.describe_configs(asked).items()
        for name, entry in entries.items()
        if "throttled" in name and entry.value and not entry.is_default
    }


def test_a_broker_is_drained_and_gets_its_share_back(ottla: Ottla, cluster: Running, admin: Admin, topic: str) -> None:
    filled(cluster, admin, topic, [1, 3], [3, 2], [2, 1], [3, 1])
    planned = ottla("cluster", "drain", "3", "--dry-run", "-o", "json")
    assert planned.code == 0, planned.err
    plan = json.loads(planned.out)
    assert [move["partition"] for move in plan["moves"]] == [f"{topic}-0", f"{topic}-1", f"{topic}-3"]
    assert plan["bytes_to_copy"] > 3 * 50_000
    assert replicas(admin, topic) == [[1, 3], [3, 2], [2, 1], [3, 1]]

    drained = ottla("cluster", "drain", "3", "--yes", "--at-once", "2", "--throttle", "100M")
    assert drained.code == 0, drained.err
    assert "3 replicas to copy" in drained.out and f"{topic}-1" in drained.out
    assert "broker 3 holds no replica any more and can be stopped" in drained.err
    assert "also votes as a controller: of 3 voters" in drained.err
    assert replicas(admin, topic) == _after(plan, [[1, 3], [3, 2], [2, 1], [3, 1]])
    assert all(3 not in of for of in replicas(admin, topic))
    assert leaders(admin, topic) == [of[0] for of in replicas(admin, topic)]
    assert throttles(admin, topic) == {}
    assert ottla("cluster", "drain", "3", "--yes").out == "broker 3 holds nothing: no move is needed\n"

    balanced = ottla("cluster", "rebalance", "--yes")
    assert balanced.code == 0, balanced.err
    held = [id for of in replicas(admin, topic) for id in of]
    assert sorted(held.count(id) for id in (1, 2, 3)) == [2, 3, 3]
    assert leaders(admin, topic) == [of[0] for of in replicas(admin, topic)]
    assert ottla("cluster", "rebalance", "--dry-run").out == "everything is balanced: no move is needed\n"
    assert sum(offset.offset for offset in admin.list_offsets(_ends(topic, 4)).values()) == RECORDS


def _after(plan: dict[str, Any], before: list[list[int]]) -> list[list[int]]:
    after = list(before)
    for move in plan["moves"]:
        after[int(move["partition"].rpartition("-")[2])] = move["after"]
    return after


def _ends(topic: str, count: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): -1 for number in range(count)}


def test_what_cannot_be_drained_is_told_with_the_reason(
    ottla: Ottla, cluster: Running, admin: Admin, topic: str
) -> None:
    filled(cluster, admin, topic, [1, 2, 3])
    refused = ottla("cluster", "drain", "3", "--yes")
    assert refused.code == 1
    assert f"{topic}-0 has 3 replicas, and without broker 3 there are 2 brokers (1, 2)" in refused.err
    assert "start another broker first" in refused.err
    assert "there is no broker 9; those there are: 1, 2, 3" in ottla("cluster", "drain", "9").err


def test_a_plan_is_not_carried_out_unasked(ottla: Ottla, cluster: Running, admin: Admin, topic: str) -> None:
    filled(cluster, admin, topic, [1], [1], [1])
    unasked = ottla("cluster", "rebalance")
    assert unasked.code == 2 and "nobody is there to be asked: --yes carries the plan out" in unasked.err
    assert replicas(admin, topic) == [[1], [1], [1]]


def test_the_last_copy_of_a_dead_broker_is_not_given_up(
    ottla: Ottla, cluster: Running, admin: Admin, topic: str
) -> None:
    filled(cluster, admin, topic, [3], [1])
    dead = cluster.nodes.node(3)
    dead.kill()
    while 3 in [broker.id for broker in admin.describe_cluster().brokers]:
        time.sleep(0.05)
    try:
        refused = ottla("cluster", "drain", "3", "--yes")
        assert refused.code == 1
        assert f"broker 3 is down, and nobody else has all of {topic}-0: its records would be lost" in refused.err
        assert "start broker 3 again" in refused.err
    finally:
        dead.start()
    cluster.nodes.wait_until_in_sync(topic)


@pytest.mark.parametrize("rate", ["fast", "0", "-1M", "M"])
def test_a_rate_is_a_number_of_bytes(ottla: Ottla, rate: str) -> None:
    said = ottla("cluster", "rebalance", f"--throttle={rate}")
    assert said.code == 2 and "is no rate: bytes per second" in said.err
