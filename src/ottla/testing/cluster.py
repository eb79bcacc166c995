"""Several nodes as one cluster, each of which a test can kill, pause, cut off or starve of disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

from ottla.cli.local_cluster import node_settings
from ottla.testing.broker import READY_TIMEOUT_S, Broker, BrokerFailed
from ottla.testing.lifetime import Lifetime
from ottla.testing.reserved_port import ReservedPort
from ottla.testing.secured import SecuredClients, TestSecurity
from ottla.wire.primitives import uuid_text

POLL_S = 0.01

Found = TypeVar("Found")


class ClusterNode(Broker):
    """A broker and controller that is one of several."""

    def __init__(self, id: int, config: Mapping[str, str | int | bool] | None) -> None:
        super().__init__(config)
        self.id = id
        """Its id in the cluster, from 1 on."""
        self.joining: list[str] = []
        """The arguments that make it one of its cluster."""
        self._reserved_controller: ReservedPort | None = None
        self._reserved_internal: ReservedPort | None = None
        self.shared_security: TestSecurity | None = None
        """Of the cluster, if it is secured."""

    @property
    def _name(self) -> str:
        return f"node {self.id}"

    def launch(self) -> None:
        if self._is_cut:
            raise BrokerFailed(f"node {self.id} is cut off from the others and could not join them: heal() it first")
        super().launch()

    def _listening(self) -> list[str]:
        return self.joining

    def _prepare_data(self) -> None:
        if self.shared_security is not None:
            from ottla.cli.secured_node import write_first_user

            write_first_user(self.shared_security.folder, self.data)

    def reserve_internal_port(self) -> int:
        """Where other brokers of a secured cluster reach it, until it is closed."""
        if self._reserved_internal is None:
            self._reserved_internal = ReservedPort()
        return self._reserved_internal.number

    def reserve_controller_port(self) -> int:
        """Where its controller listens, until it is closed."""
        if self._reserved_controller is None:
            self._reserved_controller = ReservedPort()
        return self._reserved_controller.number

    def ports(self) -> list[int]:
        """Where other nodes reach it."""
        internal = [] if self._reserved_internal is None else [self._reserved_internal.number]
        return [self.reserve_port(), self.reserve_controller_port(), *internal]

    def close(self) -> None:
        super().close()
        for reserved in (self._reserved_controller, self._reserved_internal):
            if reserved is not None:
                reserved.release()
        self._reserved_controller = self._reserved_internal = None

    def __repr__(self) -> str:
        return super().__repr__().replace("Broker(", f"Node({self.id}, ", 1)


class Cluster(SecuredClients, Lifetime):
    """A cluster of `nodes` brokers, each of them a controller as well; `cluster[0]` is the first, with the id 1.

        with Cluster(nodes=3) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
            cluster.leader("orders").kill()

    Each node is a process with a folder of its own, and takes what a `Broker` takes: `kill` and `start`, `restart`,
    `pause` and `resume`, `cut` and `heal`, `fill_disk` and `free_disk`. `partition` parts them from each other, and the
    cluster's `heal` ends all of it. Topics have as many copies as there are nodes, three at most, unless `config` says
    otherwise. `secure` is as in `Broker`: clients log in, and nodes know each other by certificates.
    """

    def __init__(
        self, nodes: int = 3, config: Mapping[str, str | int | bool] | None = None, *, secure: bool = False
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self.nodes = [ClusterNode(id, config) for id in range(1, nodes + 1)]
        self._is_secure = secure
        self._cluster_id = uuid_text(os.urandom(16)).replace("-", "_")

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, for clients."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def __getitem__(self, index: int) -> ClusterNode:
        return self.nodes[index]

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(self.nodes)

    def node(self, id: int) -> ClusterNode:
        """The node that clients know by this id."""
        for node in self.nodes:
            if node.id == id:
                return node
        raise ValueError(f"there is no node {id}: the ids are 1 to {len(self.nodes)}")

    # Descriptions

    def leader(self, topic: str, partition: int = 0) -> ClusterNode:
        """The node that leads a partition; waits until one does that runs."""

        def led() -> ClusterNode | None:
            found = self._newest(topic, partition)
            leader = self.node(found["leader"]) if found is not None and found["leader"] > 0 else None
            return leader if leader is not None and leader.is_reachable else None

        return self._awaited(led, f"{topic}-{partition} has a leader that runs")

    def controller(self) -> ClusterNode:
        """The node whose controller leads the quorum, as most of the reachable nodes see it; waits until there is
        one."""

        def led() -> ClusterNode | None:
            said = [node.ask("cluster")["controller"] for node in self._reachable()]
            leader = max(said, key=said.count, default=-1)
            return self.node(leader) if leader > 0 and self.node(leader).is_reachable else None

        return self._awaited(led, "the controllers have a leader that runs")

    def wait_until_in_sync(self, *topics: str) -> None:
        """Wait until every replica of the topics' partitions is in sync."""

        def is_in_sync() -> bool:
            for topic in topics:
                index = 0
                while (found := self._newest(topic, index)) is not None:
                    if found["leader"] < 0 or len(found["isr"]) < len(found["replicas"]):
                        return False
                    index += 1
                if not index:
                    return False
            return True

        self._awaited(is_in_sync, f"all replicas of {', '.join(topics)} are in sync")

    def _newest(self, topic: str, partition: int) -> dict[str, Any] | None:
        """A partition, as described by the node with the newest metadata of it."""
        said = [node.ask(f"partition {topic} {partition}") for node in self._reachable()]
        return max((one for one in said if one is not None), key=lambda one: int(one["epoch"]), default=None)

    def _reachable(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.is_reachable]

    def _awaited(self, find: Callable[[], Found | None], what: str) -> Found:
        end = time.monotonic() + READY_TIMEOUT_S
        while not (found := find()):
            if time.monotonic() > end:
                raise BrokerFailed(f"not within {READY_TIMEOUT_S:.0f} s: {what}; {self!r}")
            time.sleep(POLL_S)
        return found

    # Its life

    def start(self) -> Self:
        """Start the nodes that do not run. Returns when every node sees all of them."""
        starting = [node for node in self.nodes if not node.is_running]
        ports = {node.id: node.reserve_port() for node in self.nodes}
        controllers = {node.id: node.reserve_controller_port() for node in self.nodes}
        if self._is_secure and self._security is None:
            self._security = TestSecurity(len(self.nodes))
        for node in starting:
            node.joining = ["--cluster-id", self._cluster_id]
            for setting in [*node_settings(node.id, ports, controllers), *self._secured(node, ports, controllers)]:
                node.joining += ["--override", setting]
            node.launch()
        for node in starting:
            node.wait_until_ready()
        if starting and len(self._reachable()) == len(self.nodes):
            self._awaited(self._is_complete, "every node knows of all of them")
        return self

    def _secured(self, node: ClusterNode, ports: Mapping[int, int], controllers: Mapping[int, int]) -> list[str]:
        if self._security is None:
            return []
        from ottla.cli.secured_node import cluster_settings

        node.shared_security = self._security
        internal = {one.id: one.reserve_internal_port() for one in self.nodes}
        settings = cluster_settings(self._security.folder, node.id, ports, internal, controllers)
        return [f"{name}={value}" for name, value in settings.items()]

    def _is_complete(self) -> bool:
        return all(len(node.ask("cluster")["brokers"]) == len(self.nodes) for node in self.nodes)

    def partition(self, *groups: Iterable[ClusterNode | int]) -> None:
        """Part the nodes: those of different groups (nodes, or their places in the cluster) hear nothing of each other,
        while clients reach them all. Nodes that no group names are one more group. Connections stay open and nothing
        is refused, as with a cable pulled out of a switch. `heal` ends it."""
        group_of: dict[int, int] = {}
        for number, group in enumerate(groups):
            for one in group:
                id = self.nodes[one].id if isinstance(one, int) else one.id
                if group_of.setdefault(id, number) != number:
                    raise ValueError(f"node {id} is in two groups")
        for node in self.nodes:
            others = [one for one in self.nodes if group_of.get(one.id) != group_of.get(node.id)]
            node.cut_from([port for one in others for port in one.ports()])

    def heal(self) -> None:
        """End all faults: every node runs, is connected with the others, and has room on its disk."""
        for node in self.nodes:
            node.resume()
            node.heal()
            node.free_disk()
        self.start()

    def close(self) -> None:
        """End all nodes and remove their folders."""
        for node in self.nodes:
            node.close()
        if self._security is not None:
            self._security.remove()
            self._security = None

    def __repr__(self) -> str:
        return f"Cluster({self.nodes})"
