"""Three real nodes, each in a network namespace of its own: no partition of the network loses acknowledged records."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest

from tests.chaos.cluster import QUICK_SESSION, Cluster, TimedWriter, check, start_writing, until
from tests.chaos.conftest import NewCluster
from tests.chaos.namespaces import Namespaces, network_of

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4"))

NOTICES = {"request_timeout_ms": 5_000, "socket_timeout_ms": 8_000, "message_timeout_ms": 240_000}
"""librdkafka looks for the leader when a request fails: if a leader is silent, after socket.timeout.ms. The default is
a minute, and the records would expire first."""

pytestmark = [
    pytest.mark.skipif(not os.environ.get("OTTLA_INTEROP_ALL"), reason="minutes of cuts: OTTLA_INTEROP_ALL=1 runs it"),
    pytest.mark.timeout(900 + 90 * ROUNDS),
]


@pytest.fixture
def network() -> Iterator[Namespaces]:
    with network_of(3) as namespaces:
        yield namespaces


def start(start_cluster: NewCluster, network: Namespaces, topic: str) -> tuple[Cluster, TimedWriter]:
    cluster = start_cluster(*QUICK_SESSION, new_node=network.new_node)
    return cluster, start_writing(cluster, topic, **NOTICES)


def has_other_leader(cluster: Cluster, topic: str, victim: int) -> bool:
    others = [node.bootstrap for id, node in cluster.nodes.items() if id != victim]
    return cluster.leader(topic, at=others) != victim


def has_other_controller(cluster: Cluster, victim: int) -> bool:
    return cluster.controller(*(id for id in cluster.nodes if id != victim)) not in (victim, -1)


def report(writer: TimedWriter, what: str) -> None:
    together, longest = writer.take_gaps()
    print(f"{what}: no acknowledgement for {together:.2f} s, of one partition for {longest:.2f} s")


@pytest.mark.parametrize("both_ways", (True, False), ids=("both-ways", "one-way"))
def test_a_leader_cut_off_from_the_others_is_replaced(
    start_cluster: NewCluster, network: Namespaces, both_ways: bool
) -> None:
    """Clients still reach it, and go on sending to it until they know better."""
    cluster, writer = start(start_cluster, network, "parted")
    try:
        for _ in range(ROUNDS):
            victim = cluster.leader("parted")
            network.cut_off(victim, both_ways=both_ways)
            until(partial(has_other_leader, cluster, "parted", victim), "others lead")
            writer.wait_for(500)
            report(writer, f"cut off node {victim}")
            network.heal()
            cluster.wait_until_in_sync("parted")
            writer.wait_for(500)
    finally:
        network.heal()
        writer.stop()
    check(cluster, writer, "parted")


def test_the_active_controller_is_cut_off_from_all_nodes(start_cluster: NewCluster, network: Namespaces) -> None:
    cluster, writer = start(start_cluster, network, "headless")
    try:
        for _ in range(ROUNDS):
            victim = cluster.controller()
            network.cut_off(victim, with_clients=True)
            until(partial(has_other_controller, cluster, victim), "another controller")
            writer.wait_for(500)
            report(writer, f"cut off the controller {victim}")
            network.heal()
            cluster.wait_until_in_sync("headless")
    finally:
        network.heal()
        writer.stop()
    check(cluster, writer, "headless")


def test_links_that_come_and_go(start_cluster: NewCluster, network: Namespaces) -> None:
    """Cut any direction between any two nodes, several at once. At times no node can win an election."""
    cluster, writer = start(start_cluster, network, "flapping")
    rng = Random(23)
    pairs = [(source, target) for source in cluster.nodes for target in cluster.nodes if source != target]
    try:
        for _ in range(3 * ROUNDS):
            for source, target in rng.sample(pairs, rng.randint(1, 4)):
                network.cut(source, target)
            time.sleep(rng.uniform(0.2, 6))
            network.heal()
            writer.wait_for(100)
        report(writer, "links that came and went")
    finally:
        network.heal()
        writer.stop()
    check(cluster, writer, "flapping")
