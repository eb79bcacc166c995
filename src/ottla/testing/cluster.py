"""Several nodes as one cluster, each of which a test can kill, pause, cut off or starve of disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from ottla.testing.broker import Broker
from ottla.testing.lifetime import Lifetime


class Cluster(Lifetime):
    """A cluster of `nodes` brokers, of which `cluster[0]` is the first.

        with Cluster() as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
            cluster[0].cut()

    Ottla's nodes stand alone in this release, and so a cluster has one.
    """

    def __init__(self, nodes: int = 1, config: Mapping[str, str | int | bool] | None = None) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        if nodes > 1:
            raise ValueError(
                f"Cluster(nodes={nodes}): clusters of several nodes come with a later release of Ottla; "
                "Cluster(nodes=1) works today"
            )
        self.nodes = [Broker(config) for _ in range(nodes)]

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: all nodes."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def __getitem__(self, index: int) -> Broker:
        return self.nodes[index]

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Broker]:
        return iter(self.nodes)

    def start(self) -> Self:
        """Start the nodes that do not run."""
        for node in self.nodes:
            node.start()
        return self

    def heal(self) -> None:
        """The end of all trouble: every node runs, is connected with the others, and has room on its disk."""
        for node in self.nodes:
            node.resume()
            node.heal()
            node.free_disk()
            node.start()

    def close(self) -> None:
        """End all nodes and remove their folders."""
        for node in self.nodes:
            node.close()

    def __repr__(self) -> str:
        return f"Cluster({self.nodes})"
