"""A cluster of real processes on this machine, and what a workload on it must be able to say."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.load import Writer, confluent_admin
from tests.interop.servers import Ottla

CLUSTER_ID = "5UMBKuzvRImgRPf-r-pVuA"
PATIENCE_S = 60.0
INTERNAL = (
    "offsets.topic.replication.factor=3",
    "offsets.topic.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
)


def until(is_true: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < end, f"not within {patience_s:.0f} s: {what}"
        time.sleep(0.05)


class ClusterNode(Ottla):
    """A node whose settings say where it listens."""

    def _listening(self) -> list[str]:
        return []


class Cluster:
    """Nodes 1, 2, ... that are brokers and controllers alike."""

    def __init__(self, folder: Path, node_count: int = 3, overrides: Sequence[str] = ()) -> None:
        self.nodes: dict[int, ClusterNode] = {}
        for id in range(1, node_count + 1):
            self.nodes[id] = ClusterNode(folder / str(id), arguments=["--verbose", "--cluster-id", CLUSTER_ID])
        voters = ",".join(f"{id}@127.0.0.1:{node.port + 1}" for id, node in self.nodes.items())
        for id, node in self.nodes.items():
            node.overrides = [
                f"node.id={id}",
                "process.roles=broker,controller",
                f"controller.quorum.voters={voters}",
                f"listeners=PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.port + 1}",
                "controller.listener.names=CONTROLLER",
                *INTERNAL,
                *overrides,
            ]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, *ids: int) -> None:
        for id in ids or self.nodes:
            self.nodes[id].launch()
        for id in ids or self.nodes:
            self.nodes[id].wait_until_ready(PATIENCE_S)

    def kill(self, *ids: int) -> None:
        for id in ids or self.nodes:
            self.nodes[id].kill()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    # What it says of itself

    def _metadata(self, topic: str) -> Any:
        return confluent_admin.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(topic, 10)

    def leader(self, topic: str, partition: int = 0) -> int:
        return int(self._metadata(topic).topics[topic].partitions[partition].leader)

    def controller(self, topic: str) -> int:
        return int(self._metadata(topic).controller_id)

    def is_in_sync(self, topic: str) -> bool:
        """Whether every replica of every partition is in sync."""
        partitions = self._metadata(topic).topics[topic].partitions.values()
        return all(len(partition.isrs) == len(partition.replicas) for partition in partitions)

    def wait_until_in_sync(self, topic: str) -> None:
        until(lambda: self.is_in_sync(topic), f"{topic} is in sync")

    def output(self) -> str:
        return "\n".join(f"-- node {id}\n{node.output()}" for id, node in self.nodes.items())


class TimedWriter(Writer):
    """A writer that also knows the longest time without an acknowledgement, of all partitions and of each one."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any], rate: int) -> None:
        self._seen: dict[int, float] = {}
        self.longest_gaps: dict[int, float] = {}
        super().__init__(bootstrap, topic, partitions, settings, rate)

    def _delivered(self, error: Any, message: Any) -> None:
        super()._delivered(error, message)
        if error is None:
            now = time.monotonic()
            for place in (-1, message.partition()):
                gap = now - self._seen.get(place, now)
                self._seen[place] = now
                self.longest_gaps[place] = max(gap, self.longest_gaps.get(place, 0.0))

    def take_gaps(self) -> tuple[float, float]:
        """(of all partitions together, of the partition that waited longest) since the last call."""
        gaps, self.longest_gaps = self.longest_gaps, {}
        together = gaps.pop(-1, 0.0)
        return together, max(gaps.values(), default=0.0)
