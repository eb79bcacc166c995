"""Rows 26 to 28: a cluster of three nodes, each record on all of them before it is acknowledged.

`Nodes` is such a cluster of either kind, whose nodes can be started, stopped and killed one by one.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.cluster import CLUSTER_ID, ClusterNode
from tests.interop.servers import Kafka, Server, ServerFailed, kafka_anchor

from bench.observation import rss_bytes
from bench.perf_tools import RECORD_BYTES, produce
from bench.session import PARTITIONS, Bench, settle
from bench.topics import Admin

NODE_IDS = (1, 2, 3)
SMALL_BATCHES = {"acks": "all", "batch.size": "16384"}
LARGE_BATCHES = {"acks": "all", "batch.size": "131072"}
"""Idempotent and with the linger of Kafka's own defaults."""
READY_SECONDS = 90.0


class KafkaNode(Kafka):
    """One of several nodes of Apache Kafka, by the anchor script."""

    def launch(self) -> None:
        script = kafka_anchor()
        if script is None:
            raise ServerFailed("no Apache Kafka anchor script")
        self._pids = self.data.with_name(self.data.name + ".pid")
        self._pids.unlink(missing_ok=True)
        self._launching = subprocess.Popen(
            [str(script), "start", str(self.port), str(self.data), *self.overrides],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + READY_SECONDS
        while not (self._pids.exists() and (pids := self._pids.read_text().split())):
            if time.monotonic() > end or self._launching.poll():
                raise ServerFailed(f"Apache Kafka did not start\n{self.output()}")
            time.sleep(0.01)
        self.log = self.data.with_name(self.data.name + ".log")
        self.pid = int(pids[0])

    def wait_until_ready(self, timeout_seconds: float, poll_seconds: float = 0.01) -> None:
        super().wait_until_ready(timeout_seconds, poll_seconds)
        self._launching.wait(timeout_seconds)

    def kill(self) -> None:
        super().kill()
        if hasattr(self, "_launching"):
            self._launching.kill()
            self._launching.wait()


class Nodes:
    """Nodes 1, 2 and 3, brokers and controllers alike, of Ottla (`ottla`) or of Apache Kafka (`kafka`)."""

    def __init__(self, server: str, folder: Path, overrides: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.nodes: dict[int, ClusterNode | KafkaNode] = {}
        for id in NODE_IDS:
            data = folder / str(id)
            if server == "ottla":
                self.nodes[id] = ours = ClusterNode(id, data)
                ours.arguments = ["--cluster-id", CLUSTER_ID]
            else:
                self.nodes[id] = KafkaNode(data)
        voters = ",".join(f"{id}@127.0.0.1:{node.port + 1}" for id, node in self.nodes.items())
        for id, node in self.nodes.items():
            node.overrides = [
                f"node.id={id}",
                "process.roles=broker,controller",
                f"controller.quorum.voters={voters}",
                f"listeners=PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.port + 1}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{node.port}",
                "controller.listener.names=CONTROLLER",
                "offsets.topic.replication.factor=3",
                "transaction.state.log.replication.factor=3",
                "transaction.state.log.min.isr=2",
                "group.initial.rebalance.delay.ms=0",
                *overrides,
            ]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the nodes that run."""
        return tuple(node.pid for node in self.nodes.values() if node.pid)

    @property
    def any_node(self) -> Server:
        """One that runs, to ask."""
        return next(node for node in self.nodes.values() if node.pid)

    def rss_bytes(self) -> int:
        return sum(rss_bytes(pid) for pid in self.pids)

    def launch(self, *ids: int) -> None:
        """Start processes (all, or these) without waiting for them."""
        for id in ids or NODE_IDS:
            self.nodes[id].launch()

    def wait_until_ready(self, *ids: int) -> None:
        for id in ids or NODE_IDS:
            self.nodes[id].wait_until_ready(READY_SECONDS)

    def start(self, *ids: int) -> None:
        self.launch(*ids)
        self.wait_until_ready(*ids)

    def stop(self, *ids: int) -> None:
        """Cleanly, one after another."""
        for id in ids or NODE_IDS:
            self.nodes[id].stop()

    def kill(self, *ids: int) -> None:
        for id in ids or NODE_IDS:
            self.nodes[id].kill()


@dataclass(slots=True)
class ClusterBench(Bench):
    """One cluster in one round."""

    @contextmanager
    def _nodes(self, overrides: Sequence[str] = ()) -> Iterator[Nodes]:
        """Three nodes from nothing, and nothing left of them."""
        self._sessions += 1
        folder = self.folder / str(self._sessions)
        nodes = Nodes(self.server, folder, overrides)
        try:
            nodes.start()
            yield nodes
        finally:
            nodes.kill()
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self) -> None:
        with self._nodes() as nodes, Admin(nodes.any_node) as admin:
            self._create(admin, "warm")
            self.progress("warming up")
            _, cost = produce(nodes, "warm", self.scale.warm_records, SMALL_BATCHES)
            self._note_cost("cluster_warm", cost)
            if self.wants(26, 28):
                self._produce_to_all(nodes, admin, "cluster_16k", SMALL_BATCHES)
            if self.wants(27, 28):
                self._produce_to_all(nodes, admin, "cluster_128k", LARGE_BATCHES)
            if self.wants(28):
                self._note("cluster_rss.mb", nodes.rss_bytes() / 1e6)

    def _create(self, admin: Admin, name: str) -> None:
        admin.create([name], PARTITIONS, replication_factor=len(NODE_IDS))
        admin.wait_for_leaders(PARTITIONS)

    def _produce_to_all(self, nodes: Nodes, admin: Admin, name: str, settings: dict[str, str]) -> None:
        self._create(admin, name)
        settle()
        (produced,), cost = produce(nodes, name, self.scale.records, settings)
        self._note(f"{name}.records_per_s", produced.records_per_second)
        self.figures[f"{name}.p99_ms"] = produced.p99_ms
        self._note_cost(name, cost, self.scale.records * RECORD_BYTES / 1e9)
