"""kill -9 of brokers and members under real share consumers: no record is lost, no accepted one comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import Random

import pytest

from tests.chaos.cluster import QUICK_SESSION
from tests.chaos.conftest import NewCluster, NewServer
from tests.chaos.load import Writer, create
from tests.chaos.share_members import JavaSharer, Ledger, LibrdkafkaSharer, Sharer, begin_at_start, lag
from tests.interop.servers import kafka_anchor
from tests.interop.test_java_clients_4_4 import class_path

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4")) // 2
ALL = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="minutes: OTTLA_INTEROP_ALL=1 runs it")
SETTINGS = (
    "group.share.min.session.timeout.ms=3000",
    "group.share.session.timeout.ms=6000",
    "group.share.min.heartbeat.interval.ms=300",
    "group.share.heartbeat.interval.ms=500",
    "group.share.min.record.lock.duration.ms=3000",
    "group.share.record.lock.duration.ms=5000",
    "group.share.delivery.count.limit=10",
    "share.coordinator.state.topic.num.partitions=3",
)
PATIENCE_S = 200
PARTITIONS = 3
GROUP, TOPIC = "workers", "jobs"

NewSharer = Callable[[str, Ledger, int], Sharer]


def librdkafka(bootstrap: str, ledger: Ledger, number: int) -> Sharer:
    return LibrdkafkaSharer(bootstrap, GROUP, TOPIC, ledger, number)


def java(bootstrap: str, ledger: Ledger, number: int) -> Sharer:
    anchor = kafka_anchor()
    if anchor is None:
        pytest.skip("Java's clients: no anchor script or no java")
    return JavaSharer([str(anchor)], bootstrap, GROUP, TOPIC, ledger, number)


def java_4_4(bootstrap: str, ledger: Ledger, number: int) -> Sharer:
    if kafka_anchor() is None:
        pytest.skip("Java's clients: no anchor script or no java")
    return JavaSharer(
        ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", class_path()], bootstrap, GROUP, TOPIC, ledger, number
    )


CLIENTS = [librdkafka, pytest.param(java, marks=ALL), pytest.param(java_4_4, marks=ALL)]


def progress(ledger: Ledger, count: int) -> None:
    """Wait until this many more records are accepted."""
    goal, end = len(ledger.accepted) + count, time.monotonic() + PATIENCE_S
    while len(ledger.accepted) < goal:
        assert time.monotonic() < end, f"no acceptance is confirmed any more: {len(ledger.accepted)} of {goal}"
        time.sleep(0.02)


def drained(bootstrap: str, ledger: Ledger, writer: Writer) -> None:
    writer.stop()
    end = time.monotonic() + PATIENCE_S
    while (left := lag(bootstrap, GROUP)) != 0:
        assert time.monotonic() < end, f"{left} records are in flight"
        time.sleep(0.5)
    assert ledger.wrong == []
    written = {(partition, at) for partition, of_one in writer.acknowledged.items() for at in of_one.values()}
    exhausted = {place for place, count in ledger.counts.items() if count >= 10}
    assert written - ledger.said - exhausted == set(), "records that no member accepted"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("new_sharer", CLIENTS)
def test_a_broker_is_killed_under_a_share_group(start_server: NewServer, new_sharer: NewSharer) -> None:
    server = start_server(*SETTINGS)
    create(server.bootstrap, TOPIC, PARTITIONS)
    begin_at_start(server.bootstrap, GROUP, TOPIC, PARTITIONS)
    writer = Writer(server.bootstrap, TOPIC, PARTITIONS, {"enable.idempotence": True}, rate=300)
    ledger, rng = Ledger(), Random(31)
    members = [new_sharer(server.bootstrap, ledger, number) for number in range(3)]
    try:
        for number in range(ROUNDS):
            progress(ledger, 100)
            time.sleep(rng.uniform(0, 0.3))
            server.kill()
            server.start()
            progress(ledger, 50)
            members.pop(0).kill()
            members.append(new_sharer(server.bootstrap, ledger, 10 + number))
        drained(server.bootstrap, ledger, writer)
    finally:
        writer.stop()
        for member in members:
            member.leave()
    assert server.is_running(), server.output()


@ALL
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("new_sharer", CLIENTS)
def test_leaders_are_killed_under_a_share_group(start_cluster: NewCluster, new_sharer: NewSharer) -> None:
    cluster = start_cluster(
        *SETTINGS,
        *QUICK_SESSION,
        "share.coordinator.state.topic.replication.factor=3",
        "share.coordinator.state.topic.min.isr=2",
    )
    create(cluster.bootstrap, TOPIC, PARTITIONS, replication_factor=3, min_insync_replicas="2")
    cluster.wait_until_in_sync(TOPIC)
    begin_at_start(cluster.bootstrap, GROUP, TOPIC, PARTITIONS)
    settings = {"enable.idempotence": True, "acks": "all"}
    writer = Writer(cluster.bootstrap, TOPIC, PARTITIONS, settings, rate=300)
    ledger = Ledger()
    members = [new_sharer(cluster.bootstrap, ledger, number) for number in range(3)]
    try:
        for number in range(ROUNDS):
            progress(ledger, 100)
            leader = cluster.leader(TOPIC, number % PARTITIONS)
            cluster.kill(leader)
            progress(ledger, 100)
            cluster.start(leader)
            cluster.wait_until_in_sync(TOPIC)
        drained(cluster.bootstrap, ledger, writer)
    finally:
        writer.stop()
        for member in members:
            member.leave()
