"""`ottla cluster drain` and `rebalance` on three nodes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ottla.client.admin import ConfigChange, ConfigResource, NewTopic, ResourceType
from ottla.client.blocking import Admin, Producer
from ottla.client.metadata import TopicPartition
from ottla.testing import Cluster
from tests.cli.conftest import Ottla

RECORDS = 200
PATIENCE_S = 120


class Running(NamedTuple):
    """The cluster that commands of this module are about."""

    bootstrap: str
    nodes: Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    with Cluster(nodes=3, config={"replica.fetch.max.bytes": 20_000}) as nodes:
        yield Running(nodes.bootstrap_servers, nodes)


@pytest.fixture
def admin(cluster: Running) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin
        names = list(admin.list_topics(include_internal=True))
        admin.delete_topics(names)
        # A command may ask any of the brokers, and each learns of a change in its own time.
        wait_for(lambda: not any(knows(cluster, name) for name in names), "every broker knows that they are deleted")


def knows(cluster: Running, topic: str) -> list[int]:
    """The brokers that know a topic."""
    nodes = [node for node in cluster.nodes.nodes if node.is_reachable]
    return [node.id for node in nodes if node.ask(f"partition {topic} 0") is not None]


def filled(cluster: Running, admin: Admin, topic: str, *replicas: list[int]) -> None:
    """A topic with some records in each partition, and every replica in sync."""
    admin.create_topics([NewTopic(topic, assignments=dict(enumerate(replicas)))])
    with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%01000d" % number, partition=number % len(replicas))
        producer.flush()
    cluster.nodes.wait_until_in_sync(topic)
    everywhere = [node.id for node in cluster.nodes.nodes if node.is_reachable]
    wait_for(lambda: knows(cluster, topic) == everywhere, f"every broker knows {topic}")


def replicas(admin: Admin, topic: str) -> list[list[int]]:
    return [list(one.replicas) for one in admin.describe_topics([topic])[topic].partitions]


def leaders(admin: Admin, topic: str) -> list[int]:
    return [one.leader_id for one in admin.describe_topics([topic])[topic].partitions]


def throttles(admin: Admin, topic: str) -> dict[str, Any]:
    """The throttles that are set, of the topic and of all brokers."""
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
    after = _after(plan, [[1, 3], [3, 2], [2, 1], [3, 1]])
    wait_for(lambda: replicas(admin, topic) == after, "the partitions are moved")
    assert all(3 not in of for of in replicas(admin, topic))
    wait_for(lambda: leaders(admin, topic) == [of[0] for of in replicas(admin, topic)], "the first replicas lead")
    wait_for(lambda: throttles(admin, topic) == {}, "no throttle is set")
    assert ottla("cluster", "drain", "3", "--yes").out == "broker 3 holds nothing: no move is needed\n"

    balanced = ottla("cluster", "rebalance", "--yes")
    assert balanced.code == 0, balanced.err
    held = [id for of in replicas(admin, topic) for id in of]
    assert sorted(held.count(id) for id in (1, 2, 3)) == [2, 3, 3]
    wait_for(lambda: leaders(admin, topic) == [of[0] for of in replicas(admin, topic)], "the first replicas lead")
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
    assert unasked.code == 2 and "There is no terminal to ask on; nothing was changed" in unasked.err
    assert replicas(admin, topic) == [[1], [1], [1]]


def test_the_last_copy_of_a_dead_broker_is_not_given_up(
    ottla: Ottla, cluster: Running, admin: Admin, topic: str
) -> None:
    filled(cluster, admin, topic, [3], [1])
    dead = cluster.nodes.node(3)
    dead.kill()
    wait_for(lambda: 3 not in [broker.id for broker in admin.describe_cluster().brokers], "broker 3 is fenced")
    try:
        refused = ottla("cluster", "drain", "3", "--yes")
        assert refused.code == 1
        assert f"broker 3 is down, and no other broker has all of {topic}-0: its records would be lost" in refused.err
        assert "start broker 3 again" in refused.err
    finally:
        dead.start()
    cluster.nodes.wait_until_in_sync(topic)


def test_ctrl_c_takes_back_what_is_under_way_and_the_throttle(
    ottla: Ottla, cluster: Running, admin: Admin, topic: str
) -> None:
    filled(cluster, admin, topic, [1, 3])
    arguments = ["cluster", "drain", "3", "--yes", "--throttle", "1K", "--broker", cluster.bootstrap]
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        wait_for(lambda: bool(admin.list_partition_reassignments()), "the move begins")
        assert set(throttles(admin, topic).values()) == {"1024", "0:1,0:3", "0:2"}
        size = copied(admin, topic)
        assert size < RECORDS * 1000 / 2, "at 1 KiB a second most of it is still to come"
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, errors
    assert "0 partitions have moved, 1 that were under way go back" in errors
    assert admin.list_partition_reassignments() == {}
    wait_for(lambda: throttles(admin, topic) == {}, "no throttle is set")
    wait_for(lambda: replicas(admin, topic) == [[1, 3]], "the partition is back where it was")
    resumed = ottla("cluster", "drain", "3", "--yes")
    assert resumed.code == 0, resumed.err
    wait_for(lambda: replicas(admin, topic) == [[1, 2]], "the partition is moved")


def copied(admin: Admin, topic: str) -> int:
    """The bytes that broker 2 has of a topic."""
    folders = admin.describe_log_dirs([2])[2]
    return sum(log.size_bytes for folder in folders for one, log in folder.replicas.items() if one.topic == topic)


def wait_for(is_true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def test_a_move_that_was_left_behind_is_taken_up_or_cancelled(
    ottla: Ottla, cluster: Running, admin: Admin, topic: str
) -> None:
    filled(cluster, admin, topic, [1, 3])
    partition = TopicPartition(topic, 0)
    slow = [ConfigChange("follower.replication.throttled.rate", "1")]
    admin.alter_configs(
        {
            ConfigResource(ResourceType.TOPIC, topic): [ConfigChange("follower.replication.throttled.replicas", "*")],
            ConfigResource(ResourceType.BROKER, "2"): slow,
        }
    )
    admin.alter_partition_reassignments({partition: [1, 2]})
    assert "1 partition is being moved already" in ottla("cluster", "rebalance", "--dry-run").out
    cancelled = ottla("cluster", "rebalance", "--cancel")
    assert cancelled.code == 0 and "1 move stopped" in cancelled.err
    wait_for(lambda: throttles(admin, topic) == {}, "no throttle is set")
    wait_for(lambda: replicas(admin, topic) == [[1, 3]], "the partition is back where it was")
    admin.alter_partition_reassignments({partition: [1, 2]})
    taken_up = ottla("cluster", "drain", "3", "--yes")
    assert taken_up.code == 0, taken_up.err
    wait_for(lambda: replicas(admin, topic) == [[1, 2]], "the partition is moved")


@pytest.mark.parametrize("rate", ["fast", "0", "-1M", "M"])
def test_a_rate_is_a_number_of_bytes(ottla: Ottla, rate: str) -> None:
    said = ottla("cluster", "rebalance", f"--throttle={rate}")
    assert said.code == 2 and "is no rate: bytes per second" in said.err
