"""Ottla's own producer against three nodes of Apache Kafka whose leaders are killed while it writes.

Runs with OTTLA_TEST_KAFKA=1 only: a cluster of Ottla's own nodes comes later, and takes this test over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin, Consumer, Delivery, Producer, TopicPartition
from ottla.client.admin import LATEST
from tests.interop.conftest import ON_KAFKA
from tests.interop.servers import free_port, kafka_anchor

pytestmark = pytest.mark.skipif(not ON_KAFKA, reason="three nodes of Apache Kafka: OTTLA_TEST_KAFKA=1 runs it")

NODES = (1, 2, 3)
SMALL_HEAP = {**os.environ, "KAFKA_HEAP_OPTS": "-Xmx200M -XX:TieredStopAtLevel=1"}


class Cluster:
    """Three combined nodes from the anchor script; single ones are killed and started again."""

    def __init__(self, script: Path, data: Path) -> None:
        self._script = script
        self._data = data
        self._port = free_port()
        self._pids: dict[int, int] = {}
        self._restarted: list[subprocess.Popen[bytes]] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._port + 100 * (node - 1)}" for node in NODES)

    def start(self) -> None:
        subprocess.run(
            [str(self._script), "cluster", str(self._port), str(self._data)], env=SMALL_HEAP, timeout=110, check=True
        )
        pids = [int(pid) for pid in self._data.with_name(self._data.name + ".pid").read_text().split()]
        self._pids = dict(zip(NODES, pids, strict=True))

    def kill(self, node: int) -> None:
        os.kill(self._pids.pop(node), signal.SIGKILL)

    def restart(self, node: int) -> None:
        properties = self._data / f"{node}.properties"
        process = subprocess.Popen(
            [str(self._script), "kafka.Kafka", str(properties)],
            env=SMALL_HEAP,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._restarted.append(process)
        self._pids[node] = process.pid

    def end(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        for process in self._restarted:
            process.wait(120)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    script = kafka_anchor()
    if script is None:
        pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
    cluster = Cluster(script, tmp_path / "cluster")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.mark.timeout(900)
def test_nothing_is_lost_doubled_or_disordered_when_leaders_are_killed(cluster: Cluster, topic: str) -> None:
    deliveries: list[Delivery] = []

    async def work() -> None:
        async with (
            Admin(bootstrap_servers=cluster.bootstrap) as admin,
            Producer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=10_000) as producer,
        ):
            for _ in range(60):
                if len((await admin.describe_cluster()).brokers) == len(NODES):
                    break
                await asyncio.sleep(0.5)
            await admin.create_topic(topic, 3, 3, {"min.insync.replicas": "2"})
            stop = False

            async def write() -> None:
                while not stop:
                    number = len(deliveries)
                    deliveries.append(producer.send(topic, b"%d" % number, key=b"%d" % (number % 30)))
                    if not number % 20:
                        await asyncio.sleep(0.01)

            writing = asyncio.create_task(write())
            for _ in range(2):
                await asyncio.sleep(2)
                leader = (await admin.describe_topics([topic]))[topic].partitions[0].leader_id
                written = len([one for one in deliveries if one.done()])
                cluster.kill(leader)
                await asyncio.sleep(3)
                cluster.restart(leader)
                ends_at = time.monotonic() + 60
                while time.monotonic() < ends_at:
                    partitions = (await admin.describe_topics([topic]))[topic].partitions
                    if all(len(one.isr) == len(NODES) for one in partitions):
                        break
                    await asyncio.sleep(0.5)
                assert len([one for one in deliveries if one.done()]) > written
            stop = True
            await writing
            await producer.flush()
            for one in deliveries:
                one.result()
            places = [TopicPartition(topic, number) for number in range(3)]
            ends = await admin.list_offsets(dict.fromkeys(places, LATEST))
            async with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
                consumer.assign(places)
                found: list[tuple[int, int]] = []
                while len(found) < sum(one.offset for one in ends.values()):
                    for record in await consumer.poll(1000):
                        assert record.value is not None
                        found.append((record.partition, int(record.value)))
            assert Counter(number for _, number in found) == Counter(range(len(deliveries)))
            for place in places:
                numbers = [number for partition, number in found if partition == place.partition]
                assert numbers == sorted(numbers)

    asyncio.run(asyncio.wait_for(work(), 250))
