"""Rows 29 to 33: what clients of a cluster of three nodes notice when one of them dies, when all are restarted one by
one, and how long ten thousand partitions keep the controllers busy.

The client is librdkafka as it comes (idempotent, acks=all); the servers have their default settings.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.cluster import TimedWriter
from tests.interop.servers import Server

from bench.cluster import NODE_IDS, Nodes
from bench.observation import Watch
from bench.session import PARTITIONS, Bench
from bench.topics import METADATA, METADATA_VERSION, Admin, RequestFailed
from ottla.wire import decode
from ottla.wire.frames import decode_response_header
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.metadata import MetadataResponse

DESCRIBE_QUORUM, DESCRIBE_QUORUM_VERSION = 55, 2
ELECT_LEADERS, ELECT_LEADERS_VERSION = 43, 2
AS_IT_COMES = {
    "acks": "all",
    "enable.idempotence": True,
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 10_000,
    "retry.backoff.ms": 100,
}
"""librdkafka's defaults."""
RECORDS_PER_SECOND = 1000
PATIENCE_S = 400.0
"""Apache Kafka takes minutes for ten thousand partitions."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class FaultScale:
    kills: int = 3
    starts: int = 5
    topics: int = 100
    partitions: int = 100


QUICK_FAULTS = FaultScale(kills=1, starts=1, topics=3, partitions=10)


@dataclass(frozen=True, slots=True)
class Placement:
    """What a node says of all partitions."""

    led: int
    in_sync: int
    """Partitions whose every replica is in sync."""
    leaders: frozenset[int]


def placement(node: Server) -> Placement | None:
    """None if the node does not answer."""
    try:
        with Admin(node) as admin:
            answer, _ = admin.metadata()
    except OSError:
        return None
    _, position = decode_response_header(answer, METADATA, METADATA_VERSION)
    response = decode(MetadataResponse, METADATA_VERSION, answer, position)
    rows = [row for topic in response.topics if not topic.is_internal for row in topic.partitions]
    return Placement(
        led=sum(row.leader_id >= 0 for row in rows),
        in_sync=sum(len(row.isr_nodes) == len(row.replica_nodes) for row in rows),
        leaders=frozenset(row.leader_id for row in rows),
    )


def quorum_leader(node: Server) -> int:
    """Which node leads the controllers; -1 if this one does not know."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    with Admin(node) as admin:
        answer, _ = admin.ask(DESCRIBE_QUORUM, DESCRIBE_QUORUM_VERSION, DescribeQuorumRequest(topics=[topic]))
    _, position = decode_response_header(answer, DESCRIBE_QUORUM, DESCRIBE_QUORUM_VERSION)
    response = decode(DescribeQuorumResponse, DESCRIBE_QUORUM_VERSION, answer, position)
    return int(response.topics[0].partitions[0].leader_id) if response.topics else -1


def elect_preferred(admin: Admin) -> None:
    """Let the first replica of each partition lead, where it is in sync."""
    admin.ask(ELECT_LEADERS, ELECT_LEADERS_VERSION, ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000))


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise RequestFailed(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(POLL_S)


def until_all(nodes: Sequence[Server], is_so: Callable[[Placement], bool], what: str) -> None:
    """Until each node says of all partitions what is wanted."""
    for node in nodes:
        until(lambda node=node: (found := placement(node)) is not None and is_so(found), what)  # type: ignore[misc]


@dataclass(slots=True)
class FaultBench(Bench):
    """One cluster in one round."""

    sizes: FaultScale = FaultScale()

    def _run(self) -> None:
        if self.wants(29, 30, 32):
            with self._nodes() as nodes:
                nodes.start()
                self._under_load(nodes)
        if self.wants(31):
            self._starts_from_nothing()
        if self.wants(33):
            with self._nodes() as nodes:
                nodes.start()
                self._ten_thousand(nodes)

    @contextmanager
    def _nodes(self) -> Iterator[Nodes]:
        """Three nodes, not started yet, and nothing left of them."""
        self._sessions += 1
        folder: Path = self.folder / str(self._sessions)
        nodes = Nodes(self.server, folder)
        try:
            yield nodes
        finally:
            nodes.kill()
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(self.scale.rest_seconds)

    # Rows 29, 30 and 32

    def _under_load(self, nodes: Nodes) -> None:
        topic = "acknowledged"
        with Admin(nodes.any_node) as admin:
            admin.create([topic], PARTITIONS, replication_factor=len(NODE_IDS))
        self._until_in_sync(nodes)
        writer = TimedWriter(nodes.bootstrap, topic, PARTITIONS, AS_IT_COMES, rate=RECORDS_PER_SECOND)
        try:
            writer.wait_for(2 * RECORDS_PER_SECOND, PATIENCE_S)
            if self.wants(29):
                self._kills(nodes, writer, "gap_leader", is_controller=False)
            if self.wants(30):
                self._kills(nodes, writer, "gap_controller", is_controller=True)
            if self.wants(32):
                self._rolls(nodes, writer)
        finally:
            writer.stop()

    def _until_in_sync(self, nodes: Nodes) -> None:
        """Every replica in sync, and every node a leader."""
        with Admin(nodes.any_node) as admin:

            def is_so() -> bool:
                elect_preferred(admin)
                found = placement(nodes.any_node)
                return found is not None and found.in_sync == PARTITIONS and len(found.leaders) == len(NODE_IDS)

            until(is_so, "every replica is in sync, and every node leads")

    def _kills(self, nodes: Nodes, writer: TimedWriter, name: str, *, is_controller: bool) -> None:
        """Of several kills the longest time that any partition went without an acknowledgement."""
        gaps = []
        for _ in range(self.sizes.kills):
            controller = quorum_leader(nodes.any_node)
            victim = controller if is_controller else next(id for id in NODE_IDS if id != controller)
            self._until_each_goes_on(writer)
            writer.take_gaps()
            nodes.kill(victim)
            self._until_each_goes_on(writer)
            gaps.append(writer.take_gaps()[1])
            self.progress(f"node {victim} killed: {gaps[-1]:.2f} s")
            nodes.start(victim)
            self._until_in_sync(nodes)
        self._note(f"{name}.s", max(gaps), "s")
        self.figures[f"{name}.median_s"] = sorted(gaps)[len(gaps) // 2]

    @staticmethod
    def _until_each_goes_on(writer: TimedWriter) -> None:
        goals = [len(writer.acknowledged[index]) + RECORDS_PER_SECOND // PARTITIONS for index in range(PARTITIONS)]
        until(
            lambda: all(len(writer.acknowledged[index]) >= goal for index, goal in enumerate(goals)),
            "every partition is written to",
        )

    def _rolls(self, nodes: Nodes, writer: TimedWriter) -> None:
        gaps = []
        failed_before = len(writer.failed)
        for id in NODE_IDS:
            self._until_each_goes_on(writer)
            writer.take_gaps()
            nodes.stop(id)
            nodes.start(id)
            self._until_in_sync(nodes)
            self._until_each_goes_on(writer)
            gaps.append(writer.take_gaps()[1])
            self.progress(f"node {id} restarted: {gaps[-1]:.2f} s")
        self._note("rolling.gap_s", max(gaps), "s")
        self._note("rolling.failed", len(writer.failed) - failed_before)

    # Row 31

    def _starts_from_nothing(self) -> None:
        """Empty folders, three processes, until each node answers with a broker to talk to."""
        seconds = []
        for _ in range(self.sizes.starts):
            with self._nodes() as nodes:
                started = time.perf_counter()
                nodes.start()
                seconds.append(time.perf_counter() - started)
        self._note("cluster_start.s", sorted(seconds)[len(seconds) // 2], "s")

    # Row 33

    def _ten_thousand(self, nodes: Nodes) -> None:
        everyone: list[Server] = list(nodes.nodes.values())
        count = self.sizes.topics * self.sizes.partitions

        def is_whole(found: Placement) -> bool:
            return found.led >= count and found.in_sync >= count

        with self._timed("many.create", nodes):
            with Admin(nodes.any_node) as admin:
                for number in range(self.sizes.topics):
                    admin.create([f"many-{number}"], self.sizes.partitions, replication_factor=len(NODE_IDS))
            until_all(everyone, is_whole, "all partitions are led and in sync")
        self._note("many.rss_mb", nodes.rss_bytes() / 1e6, "MB")
        victim = quorum_leader(nodes.any_node)
        others = [node for id, node in nodes.nodes.items() if id != victim]
        nodes.kill(victim)
        with self._timed("many.failover", nodes):
            until_all(
                others, lambda found: found.led >= count and victim not in found.leaders, "others lead everything"
            )
            with Admin(others[0]) as admin:
                admin.create(["afterwards"], 1)
        nodes.launch(victim)
        until_all(everyone, lambda found: found.in_sync >= count, "all partitions are in sync again")
        for node in everyone:
            node.stop(PATIENCE_S)
        nodes.launch()
        with self._timed("many.restart", nodes):
            until_all(everyone, is_whole, "all partitions are led and in sync after a restart")

    @contextmanager
    def _timed(self, name: str, nodes: Nodes) -> Iterator[None]:
        watch = Watch(*nodes.pids)
        started = time.perf_counter()
        yield
        self._note(f"{name}_s", time.perf_counter() - started, "s")
        self._note_cost(name, watch.cost())
