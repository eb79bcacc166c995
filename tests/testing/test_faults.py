"""What a test can do to a node beyond ending it: cut it off, fill its disk; and what clients see of that."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.errors import ErrorCode, KafkaError, RequestTimedOut
from ottla.testing import Broker, BrokerFailed, Cluster
from tests.testing.orders import try_to_write, write


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=1, config={"group.min.session.timeout.ms": 100}) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """A cluster whose topic `orders` is empty."""
    with Admin(bootstrap_servers=shared.bootstrap_servers) as admin:
        admin.create_topic("orders", partition_count=1)
        yield shared
        shared.heal()
        admin.delete_topics(["orders"])


def values(cluster: Cluster) -> list[bytes | None]:
    """What is in the topic, read without a group: a coordinator on a full disk has no members."""
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("orders", 0)])
        return [record.value for record in consumer.poll(120_000)]


def cpu_seconds(pid: int | None) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_full_disk_refuses_writes_serves_reads_and_works_again_when_there_is_room(cluster: Cluster) -> None:
    write(cluster, "one")
    cluster[0].fill_disk()
    assert try_to_write(cluster, "two", 120_000) == "KAFKA_STORAGE_ERROR"
    assert values(cluster) == [b"one"]
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with pytest.raises(KafkaError) as refused:
            admin.create_topic("no-room", partition_count=1)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    cluster[0].free_disk()
    write(cluster, "three")
    assert values(cluster) == [b"one", b"three"]


def test_a_producer_waits_for_room_on_the_disk(cluster: Cluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10) as producer:
        producer.send("orders", b"one").result()
        cluster[0].fill_disk()
        delivery = producer.send("orders", b"two")
        with pytest.raises(RequestTimedOut):
            producer.flush(300)
        cluster[0].free_disk()
        assert delivery.result().offset == 1


def test_a_node_does_not_start_on_a_full_disk_and_says_so(cluster: Cluster) -> None:
    write(cluster, "one")
    cluster[0].fill_disk()
    with pytest.raises(BrokerFailed, match="the disk is full; make room"):
        cluster[0].restart()
    cluster[0].free_disk()
    cluster[0].start()
    assert values(cluster) == [b"one"]


def test_a_node_that_is_cut_off_refuses_nothing_and_answers_when_it_is_healed(cluster: Cluster) -> None:
    node = cluster[0]
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"one").result()
        node.cut()
        with socket.create_connection(("127.0.0.1", node.port), 60):
            assert try_to_write(cluster, "from a new client") == "_MSG_TIMED_OUT"
        delivery = producer.send("orders", b"two")
        with pytest.raises(RequestTimedOut):
            producer.flush(300)
        node.heal()
        assert delivery.result().offset == 1
    assert values(cluster)[:2] == [b"one", b"two"]


def test_a_cut_holds_back_what_is_on_its_way_and_costs_the_node_nothing(cluster: Cluster) -> None:
    """A consumer waits in a fetch when the cut comes; the answer leaves after it."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "waiting", "auto.offset.reset": "earliest"}
    with Consumer(settings, session_timeout_ms=60_000, fetch_max_wait_ms=100) as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(100)
        consumer.poll(500)
        cluster[0].cut()
        before = cpu_seconds(cluster[0].pid)
        assert consumer.poll(1_000) == []
        assert cpu_seconds(cluster[0].pid) - before < 0.3
        cluster[0].heal()
        write(cluster, "one")
        assert [record.value for record in consumer.poll(120_000)] == [b"one"]


def test_faults_outlive_a_restart(cluster: Cluster) -> None:
    node = cluster[0]
    node.fill_disk()
    node.kill()
    assert repr(node).endswith("stopped, disk full)")
    with pytest.raises(BrokerFailed, match="the disk is full; make room"):
        node.start()


def test_a_cut_outlives_a_restart() -> None:
    with Broker() as broker:
        broker.cut()
        broker.kill()
        assert repr(broker).endswith("stopped, cut off)")
        broker.start()
        assert try_to_write(broker, "one") == "_MSG_TIMED_OUT"
        broker.heal()
        assert try_to_write(broker, "two", 120_000) is None


def test_a_paused_broker_cannot_be_told_anything() -> None:
    with Broker() as broker:
        broker.pause()
        with pytest.raises(BrokerFailed, match=r"resume\(\) it first"):
            broker.cut()
        broker.resume()
        broker.cut()
