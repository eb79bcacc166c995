"""What the nodes of a cluster believed so far, and what they may therefore not believe any more.

One leader for an epoch, of the quorum and of a partition; epochs and high watermarks never go back (these may where
leaders are elected uncleanly); and once the cluster is at rest, all nodes know the same.
"""

from __future__ import annotations

from ottla.broker import Node
from ottla.cluster.snapshot import snapshot_records
from ottla.sim.checkers import Violation, check
from ottla.sim.cluster import Host
from ottla.sim.loop import Process
from ottla.storage.log import Log


class Witness:
    """Looks at every node, all the time."""

    def __init__(self) -> None:
        self._quorum_leaders: dict[int, int] = {}
        self._partition_leaders: dict[tuple[bytes, int, int], int] = {}
        self._epochs: dict[Process, int] = {}
        self._committed: dict[Process, int] = {}
        self._images: dict[Process, int] = {}
        """How much of the metadata each node had when it was last looked at."""
        self._high_watermarks: dict[Log, int] = {}
        """Of each log while it is open: a replica that was moved away and back begins anew."""

    def look(self, host: Host) -> None:
        node, process = host.node, host.process
        if node is None or process is None or not process.is_alive or not hasattr(node, "metadata"):
            return
        self._look_at_quorum(host.name, node, process)
        if self._images.get(process) != node.ground.image_offset:
            self._images[process] = node.ground.image_offset
            for topic in node.ground.image.topics_by_name.values():
                for index, partition in topic.partitions.items():
                    if partition.leader >= 0:
                        self._leads(topic.id, topic.name, index, partition.leader_epoch, partition.leader)
        for hosted in node.replicas.partitions:
            if hosted.is_leader:
                self._leads(hosted.topic_id, hosted.topic, hosted.index, hosted.leader_epoch, host.node_id)
            high_watermark, end_offset = hosted.log.high_watermark, hosted.log.log_end_offset
            before = self._high_watermarks.get(hosted.log, 0)
            if hosted.log.config.unclean_leader_election_enable:
                before = 0  # an unclean leader with fewer records removes them from all replicas
            if not before <= high_watermark <= end_offset:
                where = f"{hosted.topic}-{hosted.index} on {host.name}"
                raise Violation(f"watermark: {where}: {before}, then {high_watermark}; the log ends at {end_offset}")
            self._high_watermarks[hosted.log] = high_watermark

    def _look_at_quorum(self, name: str, node: Node, process: Process) -> None:
        quorum = node.metadata.quorum
        epoch, committed = quorum.epoch, quorum.high_watermark
        check(epoch >= self._epochs.get(process, 0), "epoch", f"the quorum's went back on {name} to {epoch}")
        check(
            committed >= self._committed.get(process, 0),
            "watermark",
            f"the quorum's went back on {name} to {committed}",
        )
        self._epochs[process], self._committed[process] = epoch, committed
        if quorum.leader_id >= 0:
            leader_id = self._quorum_leaders.setdefault(epoch, quorum.leader_id)
            check(
                leader_id == quorum.leader_id,
                "leader",
                f"{name} believes that {quorum.leader_id} leads the quorum in {epoch}, which {leader_id} did",
            )

    def _leads(self, topic_id: bytes, topic: str, index: int, leader_epoch: int, node_id: int) -> None:
        before = self._partition_leaders.setdefault((topic_id, index, leader_epoch), node_id)
        if before != node_id:
            raise Violation(f"leader: {topic}-{index} is led in {leader_epoch} by {before} and by {node_id}")


def check_images(nodes: list[Node]) -> None:
    """At rest all nodes have the same metadata: topics, brokers, configs, features, and voters."""
    first, others = nodes[0], nodes[1:]
    expected = sorted(map(repr, snapshot_records(first.ground.image)))
    for node in others:
        found = sorted(map(repr, snapshot_records(node.ground.image)))
        missing = [record for record in expected if record not in found]
        added = [record for record in found if record not in expected]
        ids = f"{first.ground.config.node_id} and {node.ground.config.node_id}"
        check(not missing and not added, "images", f"{ids} differ: {missing[:3]} against {added[:3]}")
        check(
            node.metadata.quorum.voters == first.metadata.quorum.voters,
            "voters",
            f"{ids} differ: {node.metadata.quorum.voters} against {first.metadata.quorum.voters}",
        )
