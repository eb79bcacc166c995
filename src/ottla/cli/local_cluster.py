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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.cli.output import Column, counted, emit, notice
from ottla.cli.security_folder_name import DEFAULT as SECURITY
from ottla.cli.session import CommandError
from ottla.wire.primitives import uuid_text

if TYPE_CHECKING:
    from ottla.cli.security_folder import SecurityFolder

FILE = "cluster.json"
READY_S = 120.0
STOP_S = 60.0
UNDO_S = 10.0
FIRST_REPORT_S = 3.0
REPORT_S = 10.0
LOG_LINES = 3
ERROR_PREFIX = "ottla start: "
"""The error of a node that does not start; it logs further lines while it stops."""
DEFAULT_NODES = 3
DEFAULT_PORT = 9092
CONTROLLER_PORT_STEP = 1000
INTERNAL_PORT_STEP = 2000
"""Added to the port of a broker: the listener for other brokers of a secured cluster."""
MAX_NODES = 9
LIFE = [Column("id", "NODE"), Column("address", "ADDRESS"), Column("pid", "PID"), Column("state", "STATE")]


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--data", metavar="DIR", default="cluster-data", help="the cluster's folder (./cluster-data)")
    if command == "start":
        parser.add_argument(
            "--nodes", type=int, metavar="N", help="how many (3); a cluster that is there keeps its own"
        )
        parser.add_argument(
            "--port", type=int, metavar="PORT", help="of the first node (9092); of a stopped cluster it can be changed"
        )
        parser.add_argument(
            "--secure",
            metavar="DIR",
            nargs="?",
            const=SECURITY,
            help="a new cluster gets TLS, logins by SCRAM and ACLs, with the files of 'ottla security init' in DIR "
            f"(./{SECURITY}), which are made if they are missing",
        )
        parser.add_argument(
            "--override",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help="a setting of all nodes of a new cluster",
        )
    elif command == "kill":
        parser.add_argument("node", type=int, help="the node to end at once, as kill -9 does")


def node_settings(node_id: int, ports: Mapping[int, int], controller_ports: Mapping[int, int]) -> list[str]:
    """Settings that make a node of 127.0.0.1 part of a cluster: the listeners, and the number of replicas."""
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
        f"share.coordinator.state.topic.replication.factor={copies}",
        f"share.coordinator.state.topic.min.isr={min(2, copies)}",
    ]


def printed_error(lines: list[str]) -> str:
    """The error among the lines of a node; empty if there is none."""
    return next((line for line in reversed(lines) if line.startswith(ERROR_PREFIX)), "")


class LocalCluster:
    """The content of `cluster.json`, and the state of its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / FILE
        self._said: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self._log_starts: dict[int, int] = {}
        """Where in its log a node that was started here begins."""

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
        """The process of a running node; a process with that number which is not the node counts as none."""
        pid = self._said["pids"].get(str(node_id))
        if pid is None:
            return None
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return None
        return pid if str(self.folder / str(node_id)).encode() in command else None

    @property
    def security(self) -> SecurityFolder | None:
        """The certificates and the first user of a secured cluster."""
        path = self._said.get("security")
        if path is None:
            return None
        from ottla.cli.secured_node import security_folder

        return security_folder(path, self._said["nodes"])

    @property
    def brokers(self) -> str:
        return ",".join(self.address(node_id) for node_id in self.node_ids)

    def make(self, nodes: int, port: int, overrides: list[str], secure: str | None = None) -> None:
        if not 1 <= nodes <= MAX_NODES:
            raise CommandError(f"--nodes {nodes}: from 1 to {MAX_NODES} run on one machine")
        _check_port(port, nodes)
        self._said = {
            "cluster_id": uuid_text(os.urandom(16)).replace("-", "_"),
            "nodes": nodes,
            "port": port,
            "overrides": overrides,
            "pids": {},
        }
        if secure is not None:
            self._said["security"] = str(Path(secure).resolve())
        self.folder.mkdir(parents=True, exist_ok=True)
        self._save()

    def use(self, nodes: int | None, port: int | None, overrides: list[str], secure: str | None = None) -> None:
        """Start a cluster that is there with other options, as far as they can be changed."""
        if secure is not None and str(Path(secure).resolve()) != self._said.get("security"):
            made_with = self._said.get("security")
            was = "without --secure" if made_with is None else f"with --secure={made_with}"
            raise CommandError(
                f"--secure: the cluster in {self.folder} was made {was}; choose another folder with --data"
            )
        if nodes is not None and nodes != self._said["nodes"]:
            raise CommandError(
                f"--nodes {nodes}: the cluster in {self.folder} has {self._said['nodes']}; choose another folder with "
                "--data"
            )
        if overrides and overrides != self._said["overrides"]:
            made_with = " ".join(self._said["overrides"]) or "none"
            raise CommandError(
                f"--override: the cluster in {self.folder} was made with {made_with}; choose another folder with "
                "--data, or change settings with `ottla configs`"
            )
        if port is not None and port != self._said["port"]:
            if any(self.pid(node_id) is not None for node_id in self.node_ids):
                raise CommandError(
                    f"--port {port}: the cluster in {self.folder} runs with --port {self._said['port']}; "
                    "`ottla cluster stop` stops it"
                )
            _check_port(port, self._said["nodes"])
            self._said["port"] = port
            self._save()

    def _save(self) -> None:
        """Only the owner may read the file: overrides may hold passwords."""
        descriptor = os.open(self.folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(self._said, indent=2) + "\n")

    def start(self) -> list[int]:
        """Start every node that does not run, and wait until they are ready; which were started. If one of them fails,
        or the wait is interrupted, those that were started here are stopped again."""
        started: dict[int, subprocess.Popen[bytes]] = {}
        try:
            for node_id in self.node_ids:
                if self.pid(node_id) is None:
                    started[node_id] = self._spawn(node_id)
            self._save()
            self._wait_for(started)
        except BaseException:
            self._undo(started)
            raise
        finally:
            for process in started.values():
                assert process.stdout is not None
                process.stdout.close()
        return list(started)

    def _undo(self, started: dict[int, subprocess.Popen[bytes]]) -> None:
        """Stop nodes that are not to stay, at the latest by SIGKILL."""
        for process in started.values():
            process.terminate()
        end = time.monotonic() + UNDO_S
        try:
            for process in started.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end - time.monotonic()))
        finally:  # a second Ctrl-C ends this wait, too
            for node_id, process in started.items():
                process.kill()
                process.wait()
                self._said["pids"].pop(str(node_id), None)
            self._save()

    def _spawn(self, node_id: int) -> subprocess.Popen[bytes]:
        said = self._said
        ports = {one: said["port"] + one - 1 for one in self.node_ids}
        controllers = {one: port + CONTROLLER_PORT_STEP for one, port in ports.items()}
        data = self.folder / str(node_id)
        settings = node_settings(node_id, ports, controllers)
        security = self.security
        if security is not None:
            from ottla.cli.secured_node import cluster_settings, write_first_user

            write_first_user(security, str(data))
            internal = {one: port + INTERNAL_PORT_STEP for one, port in ports.items()}
            secured = cluster_settings(security, node_id, ports, internal, controllers)
            settings += [f"{name}={value}" for name, value in secured.items()]
        settings += said["overrides"]
        command = [sys.executable, "-m", "ottla", "start", "--data", str(data), "--cluster-id", said["cluster_id"]]
        for setting in settings:
            command += ["--override", setting]
        with open(self._log_path(node_id), "ab") as output:
            self._log_starts[node_id] = output.tell()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, start_new_session=True
            )
        said["pids"][str(node_id)] = process.pid
        return process

    def _wait_for(self, started: dict[int, subprocess.Popen[bytes]]) -> None:
        """Wait until each node has printed the line that it is ready."""
        began, report_at = time.monotonic(), FIRST_REPORT_S
        with selectors.DefaultSelector() as selector:
            for node_id, process in started.items():
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, node_id)
            while waiting := {key.data: key.fileobj for key in selector.get_map().values()}:
                for key, _ in selector.select(0.2):
                    selector.unregister(key.fileobj)
                    if not os.read(key.fd, 4096):
                        code = started[key.data].wait()
                        raise CommandError(f"node {key.data} ended with exit code {code}; {self._reason(key.data)}")
                waited_s = time.monotonic() - began
                if waited_s > READY_S:
                    logs = "\n".join(self._log(node_id) for node_id in waiting)
                    raise CommandError(f"{_nodes(waiting)}: not ready within {READY_S:.0f} s; {logs}")
                if waited_s > report_at:
                    report_at += REPORT_S
                    notice(f"waiting for {_nodes(waiting)} for {waited_s:.0f} s; {self._log(min(waiting), 1)}")

    def _log_path(self, node_id: int) -> Path:
        return self.folder / f"{node_id}.log"

    def _reason(self, node_id: int) -> str:
        """Why a node ended: its error if it printed one, else the end of its log."""
        error = printed_error(self._logged(node_id))
        return f"{self._log_path(node_id)} has:\n{error}" if error else self._log(node_id)

    def _log(self, node_id: int, line_count: int = LOG_LINES) -> str:
        """The end of what a node logged since it was started here."""
        path, lines = self._log_path(node_id), self._logged(node_id)[-line_count:]
        return f"the end of {path}:\n" + "\n".join(lines) if lines else f"nothing in {path}"

    def _logged(self, node_id: int) -> list[str]:
        """The lines that a node logged since it was started here."""
        said = self._log_path(node_id).read_bytes()[self._log_starts.get(node_id, 0) :]
        return said.decode(errors="replace").strip().splitlines()

    def stop(self) -> list[int]:
        """Stop all nodes cleanly, and at the same time: a node that went on alone would wait for the others."""
        pids = {node_id: pid for node_id in self.node_ids if (pid := self.pid(node_id)) is not None}
        for pid in pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_S
        while running := [node_id for node_id in pids if self.pid(node_id) is not None]:
            if time.monotonic() > end:
                processes = ", ".join(str(pids[node_id]) for node_id in running)
                raise CommandError(
                    f"{_nodes(running)}: not stopped {STOP_S:.0f} s after SIGTERM (pid {processes}); "
                    "`ottla cluster kill NODE` ends a node at once"
                )
            time.sleep(0.02)
        return list(pids)

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


def _check_port(port: int, nodes: int) -> None:
    if not 1 <= port <= 65535 - INTERNAL_PORT_STEP - nodes:
        raise CommandError(
            f"--port {port}: the nodes need ports up to {INTERNAL_PORT_STEP} above it, and 65535 is the last"
        )


def _nodes(node_ids: Iterable[int]) -> str:
    ids = sorted(node_ids)
    return f"{'node' if len(ids) == 1 else 'nodes'} {', '.join(map(str, ids))}"


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def act(command: str, options: argparse.Namespace) -> int:
    folder = Path(options.data).resolve()
    if command == "start":
        cluster = LocalCluster(folder)
        began = time.monotonic()
        if (folder / FILE).exists():
            cluster.use(options.nodes, options.port, options.override, options.secure)
        else:
            cluster.make(
                DEFAULT_NODES if options.nodes is None else options.nodes,
                DEFAULT_PORT if options.port is None else options.port,
                options.override,
                options.secure,
            )
        before = signal.signal(signal.SIGTERM, _end)  # as at Ctrl-C, the nodes started here are stopped again
        try:
            started = cluster.start()
        finally:
            signal.signal(signal.SIGTERM, before)
        seconds = time.monotonic() - began
        notice(f"{len(started)} of {len(cluster.node_ids)} nodes started in {seconds:.2f} s; data in {folder}")
        security = cluster.security
        if security is not None:
            from ottla.cli.secured_node import connecting

            security.announce(cluster.brokers)
            notice(connecting(security, cluster.brokers))
    elif command == "stop":
        cluster = LocalCluster.existing(folder)
        stopped = cluster.stop()
        security = cluster.security
        if security is not None:
            security.retract(cluster.brokers)
        notice(f"{counted(len(stopped), 'node')} stopped; data stays in {folder}" if stopped else "no node was running")
        return 0
    elif command == "kill":
        LocalCluster.existing(folder).kill(options.node)
        notice(f"node {options.node} is killed; `ottla cluster start --data {options.data}` brings it back")
        return 0
    emit(options.output, LocalCluster.existing(folder).rows(), LIFE)
    return 0
