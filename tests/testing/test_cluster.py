"""`Cluster`: several nodes, the trouble a test makes between them, and what a client that is not ours sees of it."""

from __future__ import annotations

import os
import socket
import time
import unittest
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing import BrokerFailed, Cluster
from tests.testing.orders import read, write

PATIENCE_S = 120


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    quick = {"broker.session.timeout.ms": 5000, "broker.heartbeat.interval.ms": 500}
    with Cluster(nodes=3, config=quick) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """A cluster whose topic `orders` is empty and has a copy on each node."""
    admin = AdminClient({"bootstrap.servers": shared.bootstrap_servers, "log_level": 0})
    settings = {"min.insync.replicas": "2"}
    wait_until_all_are_there(shared, admin)
    admin.create_topics([NewTopic("orders", 1, 3, config=settings)])["orders"].result(PATIENCE_S)
    shared.wait_until_in_sync("orders")
    yield shared
    shared.heal()
    admin.delete_topics(["orders"], request_timeout=PATIENCE_S)["orders"].result(PATIENCE_S)


def wait_until_all_are_there(cluster: Cluster, admin: AdminClient) -> None:
    """Wait until metadata lists every node: a node that answers slowly is fenced for a moment."""
    nodes = {node.id: node.port for node in cluster}
    end = time.monotonic() + PATIENCE_S
    while (found := {id: one.port for id, one in admin.list_topics(timeout=PATIENCE_S).brokers.items()}) != nodes:
        assert time.monotonic() < end, f"clients see {found}, not {nodes}"
        time.sleep(0.05)


def test_a_topic_with_three_copies_survives_a_killed_leader(cluster: Cluster) -> None:
    write(cluster, "one")
    killed = cluster.leader("orders")
    killed.kill()
    write(cluster, "two")
    assert cluster.leader("orders") is not killed
    assert read(cluster, 2, "after a kill") == ["one", "two"]
    killed.start()
    cluster.wait_until_in_sync("orders")


def test_a_paused_leader_is_replaced_and_joins_again(cluster: Cluster) -> None:
    write(cluster, "one")
    paused = cluster.leader("orders")
    paused.pause()
    assert not paused.is_reachable
    write(cluster, "two")
    assert cluster.leader("orders") is not paused
    paused.resume()
    cluster.wait_until_in_sync("orders")
    assert read(cluster, 2, "after a pause") == ["one", "two"]


def test_a_leader_on_the_small_side_of_a_partition_is_replaced(cluster: Cluster) -> None:
    write(cluster, "one")
    alone = cluster.leader("orders")
    cluster.partition([alone])
    socket.create_connection(("127.0.0.1", alone.port), PATIENCE_S).close()  # clients still reach it
    others = [node for node in cluster if node is not alone]
    while alone.id in others[0].ask("cluster")["brokers"]:
        time.sleep(0.05)
    write(cluster.leader("orders"), "two")  # the lonely one believes that it leads, and would tell its clients so
    cluster.heal()
    cluster.wait_until_in_sync("orders")
    assert read(cluster, 2, "after a partition") == ["one", "two"]


def test_a_controller_that_dies_is_replaced(cluster: Cluster) -> None:
    controller = cluster.controller()
    controller.kill()
    assert cluster.controller() is not controller
    write(cluster, "one")


def test_a_node_that_is_cut_off_cannot_be_started(cluster: Cluster) -> None:
    node = cluster[1]
    node.cut()
    node.kill()
    with pytest.raises(BrokerFailed, match=r"node 2 is cut off from the others and could not join them: heal\(\) it"):
        node.start()


def test_a_node_keeps_its_port_while_it_is_down(cluster: Cluster) -> None:
    node = cluster[2]
    address = node.bootstrap_servers
    node.kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", node.port), PATIENCE_S)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", node.port))
    node.start()
    assert node.bootstrap_servers == address


def test_nodes_are_found_by_the_ids_that_clients_see(cluster: Cluster) -> None:
    wait_until_all_are_there(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}))
    with pytest.raises(ValueError, match="the ids are 1 to 3"):
        cluster.node(4)
    with pytest.raises(ValueError, match="node 1 is in two groups"):
        cluster.partition([0], [cluster[0], 1])


def test_a_cluster_in_a_unittest_leaves_nothing_behind() -> None:
    folders: list[str] = []

    class OrdersTest(unittest.TestCase):
        cluster: Cluster

        @classmethod
        def setUpClass(cls) -> None:
            cls.cluster = cls.enterClassContext(Cluster(nodes=2))

        def test_orders(self) -> None:
            folders.extend(node.data for node in self.cluster)
            write(self.cluster, "one")

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(OrdersTest).run(result)
    assert result.wasSuccessful() and result.testsRun == 1, result.errors + result.failures
    assert len(folders) == 2 and not any(map(os.path.exists, folders))
