"""The shop against a real broker, and against a broker in trouble. The fixtures come with Ottla."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ottla.testing import Broker, Cluster
from shop import OrderNotTaken, Shop, Warehouse


@pytest.fixture
def warehouse(kafka: Broker) -> Iterator[Warehouse]:
    made = Warehouse(kafka.bootstrap_servers)
    yield made
    made.close()


def test_what_is_ordered_is_shipped(kafka: Broker, warehouse: Warehouse) -> None:
    shop = Shop(kafka.bootstrap_servers)
    shop.order("alice", "apple", 3)
    shop.order("bob", "pear", 1)
    shop.order("alice", "apple", 1)
    warehouse.work(until_shipped=5)
    assert warehouse.shipped == {"apple": 4, "pear": 1}


def test_an_order_of_zero_is_refused(kafka: Broker) -> None:
    with pytest.raises(ValueError, match="an order of 0 is not possible"):
        Shop(kafka.bootstrap_servers).order("alice", "apple", 0)


def test_no_order_is_lost_and_none_is_shipped_twice_when_the_broker_is_killed(
    kafka: Broker, warehouse: Warehouse
) -> None:
    shop = Shop(kafka.bootstrap_servers, patience_ms=60_000)
    shop.order("alice", "apple", 1)
    warehouse.work(until_shipped=1)
    kafka.kill()
    back_again = threading.Timer(0.3, kafka.start)
    back_again.start()
    shop.order("alice", "apple", 1)  # waits for the broker
    back_again.join()
    warehouse.work(until_shipped=2)
    assert warehouse.shipped == {"apple": 2}


def test_an_order_fails_if_the_broker_is_unreachable(kafka: Broker) -> None:
    shop = Shop(kafka.bootstrap_servers, patience_ms=3_000)
    shop.order("alice", "apple", 1)
    kafka.cut()
    with pytest.raises(OrderNotTaken):
        shop.order("alice", "pear", 1)
    kafka.heal()
    patient = Shop(kafka.bootstrap_servers, patience_ms=60_000)
    assert patient.order("alice", "plum", 1) > 0


def test_orders_wait_for_room_on_the_disk(kafka: Broker) -> None:
    shop = Shop(kafka.bootstrap_servers, patience_ms=60_000)
    shop.order("alice", "apple", 1)
    kafka.fill_disk()
    with pytest.raises(OrderNotTaken):
        Shop(kafka.bootstrap_servers, patience_ms=1_000).order("bob", "pear", 1)
    room = threading.Timer(0.3, kafka.free_disk)
    room.start()
    assert shop.order("alice", "plum", 1) > 0
    room.join()


def test_another_node_takes_orders_when_the_leader_is_killed(kafka_cluster: Cluster) -> None:
    shop = Shop(kafka_cluster.bootstrap_servers, patience_ms=60_000)
    shop.order("alice", "apple", 1)
    kafka_cluster.leader("orders").kill()
    shop.order("alice", "pear", 1)
    warehouse = Warehouse(kafka_cluster.bootstrap_servers)
    warehouse.work(until_shipped=2)
    warehouse.close()
    assert warehouse.shipped == {"apple": 1, "pear": 1}
