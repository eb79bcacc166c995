"""`python -m ottla.testing.node`: `ottla start` for a test: it can be cut off and its disk filled, and it ends when the
test does.

Standard input is how the test process holds it: a line is a command (see `Faults.run`), answered by a line on standard
output; its end is the end of the process that started the node, for whatever reason. Then the node goes as well, and
with `--temporary` its data folder goes with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ottla.broker import Node
from ottla.cli import start
from ottla.config import BrokerConfig
from ottla.testing.faults import Cable, FaultyDisk, FaultySockets

STDIN = 0
MAX_COMMAND_BYTES = 4096


class Faults:
    """The ports of the node that a test starts, and the test's hand on them."""

    def __init__(self, *, is_temporary: bool) -> None:
        self._cable = Cable()
        self._disk = FaultyDisk()
        self._is_temporary = is_temporary
        self._folders: Sequence[str] = ()
        self._unread = b""
        self._node: Node
        self._commands: dict[str, Callable[..., object]] = {
            "cut": self._cable.cut,
            "cut-from": lambda *ports: self._cable.cut_from(int(port) for port in ports),
            "heal": self._cable.heal,
            "fill-disk": lambda: self._fill(True),
            "free-disk": lambda: self._fill(False),
            "cluster": self._cluster,
            "partition": self._partition,
        }

    def new_loop(self) -> asyncio.AbstractEventLoop:
        return self._cable.loop

    def new_node(self, config: BrokerConfig, *, new_cluster_id: str | None = None) -> Node:
        self._folders = config.log_directories
        # A test that is killed while its node is stopped orphans it, and the kernel then sends SIGHUP and SIGCONT; what
        # is to be done is said by the end of standard input.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._cable.loop.add_reader(STDIN, self._commanded)
        sockets = FaultySockets(self._cable)
        self._node = Node(config, disk=self._disk, sockets=sockets, new_cluster_id=new_cluster_id)
        return self._node

    def run(self, command: str) -> object:
        """A command word with its arguments; returns the answer, if the command has one."""
        name, *arguments = command.split()
        return self._commands[name](*arguments)

    def _cluster(self) -> dict[str, Any]:
        """This node's view of its cluster; a node that is cut off may be wrong."""
        alive = [broker.id for broker in self._node.ground.image.brokers.values() if not broker.is_fenced]
        return {"brokers": sorted(alive), "controller": self._node.metadata.quorum.leader_id}

    def _partition(self, topic: str, index: str) -> dict[str, Any] | None:
        found = self._node.ground.image.partition(topic, int(index))
        if found is None:
            return None
        return {"leader": found.leader, "epoch": found.leader_epoch, "replicas": found.replicas, "isr": found.isr}

    def _fill(self, is_full: bool) -> None:
        self._disk.is_full = is_full

    def _commanded(self) -> None:
        part = os.read(STDIN, MAX_COMMAND_BYTES)
        if not part:
            self._abandoned()
            return
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            print(json.dumps(self.run(line.decode())), flush=True)

    def _abandoned(self) -> None:
        self._cable.loop.remove_reader(STDIN)
        if self._is_temporary:
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)  # its data will not be read again
        os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="ottla.testing.node", description="`ottla start`, with faults.", add_help=False
    )
    parser.add_argument("--temporary", action="store_true", help="remove the data folder when standard input ends")
    parser.add_argument("--fault", action="append", default=[], help="a command to begin with")
    options, rest = parser.parse_known_args(arguments)
    faults = Faults(is_temporary=options.temporary)
    for command in options.fault:
        faults.run(command)
    return start.main(rest, new_node=faults.new_node, new_loop=faults.new_loop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
