"""Network namespaces: each node on a machine of its own as far as the network goes, and links that can be cut.

A bridge in this namespace joins them all; clients are here, at its address. A packet is lost by giving its sender a
wrong hardware address for the receiver: one direction of one pair, silently, as a broken switch does it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.chaos.cluster import ClusterNode

NO_HOST = "02:00:00:00:00:fe"
CLIENTS = 254
_COUNT = count()
"""What was deleted may still be there for a moment: names are used once."""


def ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=check, timeout=120)


class Namespaces:
    """A bridge and a namespace for each node."""

    def __init__(self, node_count: int) -> None:
        number = os.getpid() % 250 + 1
        self._prefix = f"ot{os.getpid() % 100_000:x}{chr(97 + next(_COUNT) % 26)}"
        self._network = f"10.231.{number}"
        self._node_count = node_count

    def address(self, id: int) -> str:
        return f"{self._network}.{id}"

    def name(self, id: int) -> str:
        return f"{self._prefix}n{id}"

    def set_up(self) -> None:
        bridge = f"{self._prefix}b"
        ip("link", "add", bridge, "type", "bridge")
        ip("link", "set", bridge, "up")
        ip("addr", "add", f"{self.address(CLIENTS)}/24", "dev", bridge)
        for id in range(1, self._node_count + 1):
            name = self.name(id)
            ip("netns", "add", name)
            ip("link", "add", f"{self._prefix}v{id}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{self._prefix}v{id}", "master", bridge, "up")
            ip("-n", name, "addr", "add", f"{self.address(id)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def tear_down(self) -> None:
        for id in range(1, self._node_count + 1):
            ip("link", "del", f"{self._prefix}v{id}", check=False)
            ip("netns", "del", self.name(id), check=False)
        ip("link", "del", f"{self._prefix}b", check=False)

    def cut(self, source: int, target: int) -> None:
        """Nothing that one node sends to another (or to the clients) arrives any more."""
        ip(
            *("-n", self.name(source), "neigh", "replace", self.address(target)),
            *("lladdr", NO_HOST, "dev", "eth0", "nud", "permanent"),
        )

    def cut_off(self, id: int, *, both_ways: bool = True, with_clients: bool = False) -> None:
        others = [other for other in range(1, self._node_count + 1) if other != id]
        for other in others:
            self.cut(id, other)
            if both_ways:
                self.cut(other, id)
        if with_clients:
            self.cut(id, CLIENTS)

    def heal(self) -> None:
        for id in range(1, self._node_count + 1):
            for other in (*range(1, self._node_count + 1), CLIENTS):
                ip("-n", self.name(id), "neigh", "del", self.address(other), "dev", "eth0", check=False)

    def new_node(self, id: int, data: Path) -> ClusterNode:
        return NamespaceNode(self, id, data)


class NamespaceNode(ClusterNode):
    def __init__(self, namespaces: Namespaces, id: int, data: Path) -> None:
        super().__init__(id, data)
        self.host, self.port = namespaces.address(id), 9092
        self.command = ["ip", "netns", "exec", namespaces.name(id), sys.executable, "-m", "ottla"]


@contextmanager
def network_of(node_count: int) -> Iterator[Namespaces]:
    """The test is skipped where namespaces cannot be made."""
    namespaces = Namespaces(node_count)
    try:
        namespaces.set_up()
    except (OSError, subprocess.CalledProcessError) as error:
        namespaces.tear_down()
        pytest.skip(f"network namespaces (ip netns) cannot be made here: {error}")
    try:
        yield namespaces
    finally:
        namespaces.tear_down()
