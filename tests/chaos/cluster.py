"""A cluster of real processes on this machine, and what a workload on it must be able to say."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ottla.wire import decode, frames
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.chaos.load import Writer, confluent_admin, create, read_all
from tests.interop.servers import Ottla, ask

CLUSTER_ID = "5UMBKuzvRImgRPf-r-pVuA"
PATIENCE_S = 120.0
PARTITIONS = 6
DESCRIBE_CLUSTER, CONTROLLERS = 60, 2
QUICK_SESSION = ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
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

    host = "127.0.0.1"

    def __init__(self, id: int, data: Path) -> None:
        super().__init__(data, arguments=["--verbose", "--cluster-id", CLUSTER_ID])
        self.id = id

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def connect(self, timeout_seconds: float = 120) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout_seconds)

    def quorum_leader(self) -> int:
        """Whom this node takes for the active controller; -1 without an answer."""
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        frame = b"".join(map(bytes, frames.encode_request(DESCRIBE_CLUSTER, 2, 1, "chaos", request)))[4:]
        try:
            with socket.create_connection((self.host, self.port + 1), 10) as connection:
                answer = ask(connection, frame)
        except OSError:
            return -1
        _, position = frames.decode_response_header(answer, DESCRIBE_CLUSTER, 2)
        return decode(DescribeClusterResponse, 2, memoryview(answer), position).controller_id

    def _listening(self) -> list[str]:
        return []


class Cluster:
    """Nodes 1, 2, ... that are brokers and controllers alike."""

    def __init__(
        self,
        folder: Path,
        node_count: int = 3,
        overrides: Sequence[str] = (),
        new_node: Callable[[int, Path], ClusterNode] = ClusterNode,
    ) -> None:
        self.nodes = {id: new_node(id, folder / str(id)) for id in range(1, node_count + 1)}
        voters = ",".join(f"{id}@{node.host}:{node.port + 1}" for id, node in self.nodes.items())
        for id, node in self.nodes.items():
            node.overrides = [
                f"node.id={id}",
                "process.roles=broker,controller",
                f"controller.quorum.voters={voters}",
                f"listeners=PLAINTEXT://{node.host}:{node.port},CONTROLLER://{node.host}:{node.port + 1}",
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
        if not ids:
            until(self._is_complete, "every node tells clients of all nodes")

    def kill(self, *ids: int) -> None:
        for id in ids or self.nodes:
            self.nodes[id].kill()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    # What it says of itself

    def _is_complete(self) -> bool:
        told = [self._metadata(None, [node.bootstrap]).brokers for node in self.nodes.values()]
        return all(len(brokers) == len(self.nodes) for brokers in told)

    def _metadata(self, topic: str | None, at: Sequence[str] = ()) -> Any:
        """The metadata that one of the nodes `at` answers with (of all nodes, if `at` is empty)."""
        servers = ",".join(at) or self.bootstrap
        admin = confluent_admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})
        return admin.list_topics(topic, timeout=PATIENCE_S)

    def leader(self, topic: str, partition: int = 0, at: Sequence[str] = ()) -> int:
        return int(self._metadata(topic, at).topics[topic].partitions[partition].leader)

    def controller(self, *ids: int) -> int:
        """The controller's id as most of the nodes `ids` report it (all nodes, if empty); -1 if there is none."""
        said = [leader for id in ids or self.nodes if (leader := self.nodes[id].quorum_leader()) >= 0]
        return max(said, key=said.count, default=-1)

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


def start_writing(cluster: Cluster, topic: str, **client: object) -> TimedWriter:
    """An idempotent producer with acks=all to a topic that is on three nodes, once it is under way."""
    create(cluster.bootstrap, topic, PARTITIONS, replication_factor=3, min_insync_replicas="2")
    cluster.wait_until_in_sync(topic)
    settings = {"enable.idempotence": True, "acks": "all", "topic.metadata.refresh.fast.interval.ms": 20}
    settings.update({name.replace("_", "."): value for name, value in client.items()})
    writer = TimedWriter(cluster.bootstrap, topic, PARTITIONS, settings, rate=1000)
    writer.wait_for(1000)
    writer.take_gaps()
    return writer


def check(cluster: Cluster, writer: TimedWriter, topic: str) -> None:
    """Every record is there once, in order, where it was acknowledged; and all copies of it are the same."""
    assert not writer.failed
    for partition in range(PARTITIONS):
        records = read_all(cluster.bootstrap, topic, partition)
        wrong = differences(records, writer.sent[partition], writer.acknowledged[partition])
        assert not wrong, f"{topic}-{partition}, {len(records)} records read, {writer.sent[partition]} sent: {wrong}"
    cluster.wait_until_in_sync(topic)
    cluster.stop()
    for partition in range(PARTITIONS):
        copies = {node_id: contents(node.data / f"{topic}-{partition}") for node_id, node in cluster.nodes.items()}
        assert copies[1] == copies[2] == copies[3], f"{topic}-{partition} differs"


def differences(
    records: Sequence[tuple[int, int]], sent: int, acknowledged: Mapping[int, int]
) -> dict[str, list[tuple[int, int]]]:
    """(offset, number) of what is not as it was acknowledged, by what is wrong with it; empty if all is well."""
    told = {(offset, number) for number, offset in acknowledged.items()}
    places = {number: offset for offset, number in records}
    found = {
        "acknowledged and not in the log": sorted(told - set(records)),
        "in the log and not acknowledged": sorted(set(records) - told),
        "there already, at a later or the same offset": [one for one in records if places[one[1]] != one[0]],
        "before the one that was sent earlier": [b for a, b in pairwise(records) if b[1] <= a[1]],
        "sent and not in the log": [(-1, number) for number in range(sent) if number not in places],
    }
    return {wrong: ones for wrong, ones in found.items() if ones}


def contents(folder: Path) -> bytes:
    return b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))
