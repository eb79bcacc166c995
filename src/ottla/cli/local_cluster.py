"""`ottla cluster start|status|stop|kill`: a cluster of separate processes on this machine.

Each node is what `ottla start` runs, with a folder of its own below the cluster's; `cluster.json` there remembers which
process is which. The nodes go on when the command has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.cli.output import Column, emit, notice
from ottla.cli.session import CommandError
from ottla.wire.primitives import uuid_text

FILE = "cluster.json"
READY_S = 60.0
STOP_S = 60.0
CONTROLLER_PORT_STEP = 1000
MAX_NODES = 9
LIFE = [Column("id", "NODE"), Column("address", "ADDRESS"), Column("pid", "PID"), Column("state", "STATE")]


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--data", metavar="DIR", default="cluster-data", help="the cluster's folder (./cluster-data)")
    if command == "start":
        parser.add_argument("--nodes", type=int, metavar="N", default=3, help="how many (3)")
        parser.add_argument("--port", type=int, metavar="PORT", default=9092, help="of the first node (9092)")
        parser.add_argument(
            "--override", metavar="KEY=VALUE", action="append", default=[], help="a setting of all nodes"
        )
    elif command == "kill":
        parser.add_argument("node", type=int, help="the node to end at once, as kill -9 does")


def node_settings(node_id: int, ports: Mapping[int, int], controller_ports: Mapping[int, int]) -> list[str]:
    """What makes a node of 127.0.0.1 one of a cluster: where it and its kind listen, and how many copies there are of
    everything."""
    voters = ",".join(f"{one}@127.0.0.1:{port}" for one, port in controller_ports.items())
    copies = min(3, len(ports))
    return [
        f"node.id={node_id}",
        "process.roles=broker,controller",
        f"listeners=PLAINTEXT://127.0.0.1:{ports[node_id]},CONTROLLER://127.0.0.1:{controller_ports[node_id]}",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters={voters}",
        f"default.replication.factor={copies}",
        f"offsets.topic.replication.factor={copies}",
        f"transaction.state.log.replication.factor={copies}",
        f"transaction.state.log.min.isr={min(2, copies)}",
    ]


class LocalCluster:
    """What `cluster.json` says, and what its processes do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / FILE
        self._said: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    @classmethod
    def existing(cls, folder: Path) -> LocalCluster:
        cluster = cls(folder)
        if not cluster._said:
            raise CommandError(f"there is no cluster in {folder}: `ottla cluster start --data {folder}` makes one")
        return cluster

    @property
    def node_ids(self) -> list[int]:
        return list(range(1, self._said["nodes"] + 1))

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{self._said['port'] + node_id - 1}"

    def pid(self, node_id: int) -> int | None:
        """Of a node that runs: a process of that number which is not that node counts as none."""
        pid = self._said["pids"].get(str(node_id))
        if pid is None:
            return None
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return None
        return pid if str(self.folder / str(node_id)).encode() in command else None

    def make(self, nodes: int, port: int, overrides: list[str]) -> None:
        if not 1 <= nodes <= MAX_NODES:
            raise CommandError(f"--nodes {nodes}: from 1 to {MAX_NODES} run on one machine")
        if not 1 <= port <= 65535 - CONTROLLER_PORT_STEP - nodes:
            raise CommandError(f"--port {port}: the nodes and their controllers need ports up to 65535")
        self._said = {
            "cluster_id": uuid_text(os.urandom(16)).replace("-", "_"),
            "nodes": nodes,
            "port": port,
            "overrides": overrides,
            "pids": {},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self._save()

    def _save(self) -> None:
        (self.folder / FILE).write_text(json.dumps(self._said, indent=2) + "\n")

    def start(self) -> list[int]:
        """Start every node that does not run, and wait until they are ready; which were started."""
        started = {}
        for node_id in self.node_ids:
            if self.pid(node_id) is None:
                started[node_id] = self._spawn(node_id)
        self._save()
        for node_id, process in started.items():
            self._wait_for(node_id, process)
        return list(started)

    def _spawn(self, node_id: int) -> subprocess.Popen[bytes]:
        said = self._said
        ports = {one: said["port"] + one - 1 for one in self.node_ids}
        controllers = {one: port + CONTROLLER_PORT_STEP for one, port in ports.items()}
        settings = [*node_settings(node_id, ports, controllers), *said["overrides"]]
        data = self.folder / str(node_id)
        command = [sys.executable, "-m", "ottla", "start", "--data", str(data), "--cluster-id", said["cluster_id"]]
        for setting in settings:
            command += ["--override", setting]
        with open(self.folder / f"{node_id}.log", "ab") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, start_new_session=True
            )
        said["pids"][str(node_id)] = process.pid
        return process

    def _wait_for(self, node_id: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        end = time.monotonic() + READY_S
        line = b""
        with process.stdout, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise CommandError(f"node {node_id} was not ready within {READY_S:.0f} s; {self._log(node_id)}")
                part = os.read(process.stdout.fileno(), 4096)
                if not part:
                    raise CommandError(f"node {node_id} ended; {self._log(node_id)}")
                line += part

    def _log(self, node_id: int) -> str:
        path = self.folder / f"{node_id}.log"
        said = path.read_text(errors="replace").strip().splitlines()[-3:]
        return f"the end of {path}:\n" + "\n".join(said)

    def stop(self) -> list[int]:
        """Stop all nodes cleanly, the last started first."""
        stopped = {node_id: pid for node_id in reversed(self.node_ids) if (pid := self.pid(node_id)) is not None}
        for node_id, pid in stopped.items():
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + STOP_S
            while self.pid(node_id) is not None:
                if time.monotonic() > end:
                    raise CommandError(f"node {node_id} (pid {pid}) still runs {STOP_S:.0f} s after SIGTERM")
                time.sleep(0.02)
        return list(stopped)

    def kill(self, node_id: int) -> None:
        pid = self.pid(node_id) if node_id in self.node_ids else None
        if pid is None:
            raise CommandError(f"node {node_id} does not run; `ottla cluster status` says which do")
        os.kill(pid, signal.SIGKILL)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "id": node_id,
                "address": self.address(node_id),
                "pid": self.pid(node_id),
                "state": "running" if self.pid(node_id) is not None else "stopped",
            }
            for node_id in self.node_ids
        ]


def act(command: str, options: argparse.Namespace) -> int:
    folder = Path(options.data).resolve()
    if command == "start":
        cluster = LocalCluster(folder)
        began = time.monotonic()
        if not (folder / FILE).exists():
            cluster.make(options.nodes, options.port, options.override)
        started = cluster.start()
        seconds = time.monotonic() - began
        notice(f"{len(started)} of {len(cluster.node_ids)} nodes started in {seconds:.2f} s; data in {folder}")
    elif command == "stop":
        stopped = LocalCluster.existing(folder).stop()
        notice(f"{len(stopped)} nodes stopped; their data stays in {folder}")
        return 0
    elif command == "kill":
        LocalCluster.existing(folder).kill(options.node)
        notice(f"node {options.node} is killed; `ottla cluster start --data {options.data}` brings it back")
        return 0
    emit(options.output, LocalCluster.existing(folder).rows(), LIFE)
    return 0
