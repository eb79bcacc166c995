"""Nodes as processes: what they say while they wait, and how they end, in every phase of a start and of a stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.interop.servers import cluster_port, free_port

CLUSTER_ID = "abcdefghijklmnopqrstuA"
LIMIT_S = 120
STOP_S = 60
"""A node that waits stops within a second; a slow machine gets a minute. Without the signal it would wait for ever."""


class NodeProcess:
    """`ottla start`, and the lines that it writes to stderr."""

    def __init__(self, data: Path, *settings: str, cluster_id: str = CLUSTER_ID) -> None:
        overrides = [word for setting in settings for word in ("--override", setting)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "start", "--data", str(data), "--cluster-id", cluster_id, *overrides],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._is_ended = False
        self._news = threading.Condition()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._is_ended = True
            self._news.notify_all()

    def wait_for(self, *texts: str) -> str:
        """The first line with all of the texts."""

        def found() -> str | None:
            return next((line for line in self.lines if all(text in line for text in texts)), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._is_ended, LIMIT_S)
            line = found()
        assert line is not None, f"not within {LIMIT_S} s: {texts}; {self.lines}"
        return line

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert "ready on" in self.process.stdout.readline(), self.lines

    def end(self, number: int) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


class Quorum:
    """Settings of nodes with three controllers on 127.0.0.1; a port is followed by that of its controller."""

    def __init__(self, *, is_dynamic: bool = False) -> None:
        self.ports = {node_id: free_port() for node_id in (1, 2, 3)}
        self._is_dynamic = is_dynamic

    def controller(self, node_id: int) -> str:
        return f"127.0.0.1:{self.ports[node_id] + 1}"

    def settings(self, node_id: int, roles: str = "broker,controller") -> list[str]:
        listeners = {"broker": f"PLAINTEXT://127.0.0.1:{self.ports[node_id]}"}
        listeners["controller"] = f"CONTROLLER://{self.controller(node_id)}"
        addresses = [self.controller(one) for one in self.ports]
        voters = ",".join(f"{one}@{address}" for one, address in zip(self.ports, addresses, strict=True))
        return [
            f"node.id={node_id}",
            f"process.roles={roles}",
            f"listeners={','.join(listeners[role] for role in roles.split(','))}",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.bootstrap.servers={','.join(addresses)}"
            if self._is_dynamic
            else f"controller.quorum.voters={voters}",
        ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_without_its_quorum_says_which_controllers_it_waits_for_and_stops_at_once(
    tmp_path: Path, number: int
) -> None:
    quorum = Quorum()
    with NodeProcess(tmp_path, *quorum.settings(1)) as node:
        line = node.wait_for("waiting for controllers")
        assert f"2 at {quorum.controller(2)}, 3 at {quorum.controller(3)}: connection refused" in line
        assert "1 of 3 is up, 2 are needed" in line
        assert node.end(number) == 0
        assert not any("Traceback" in line for line in node.lines)


@pytest.mark.parametrize(
    ("roles", "is_dynamic", "expected"),
    [
        ("broker", False, "waiting for controllers 1 at"),
        ("controller", False, "waiting for controllers 1 at"),
        ("broker", True, "waiting for a controller at"),
    ],
)
def test_brokers_and_controllers_alone_say_what_they_wait_for(
    tmp_path: Path, roles: str, is_dynamic: bool, expected: str
) -> None:
    quorum = Quorum(is_dynamic=is_dynamic)
    node_id = "node.id=4" if roles == "broker" else "node.id=3"
    with NodeProcess(tmp_path, *quorum.settings(3, roles), node_id) as node:
        line = node.wait_for(expected)
        assert quorum.controller(1) in line and quorum.controller(2) in line and "connection refused" in line
        assert node.end(signal.SIGTERM) == 0


def test_reasons_are_named_and_the_end_of_the_wait_too(tmp_path: Path) -> None:
    """A name without an address, a controller of another cluster, and a wait that ends."""
    quorum = Quorum()
    settings = [setting.replace(quorum.controller(3), "no-such-host.invalid:1") for setting in quorum.settings(1)]
    with NodeProcess(tmp_path / "1", *settings) as first:
        first.wait_for("waiting for controllers", "3 at no-such-host.invalid:1: name not found")
        with NodeProcess(tmp_path / "other", *quorum.settings(2), cluster_id=CLUSTER_ID[::-1]) as other:
            other.wait_for("waiting for controllers", f"1 at {quorum.controller(1)}: its cluster id differs")
            assert other.end(signal.SIGTERM) == 0
        with NodeProcess(tmp_path / "2", *quorum.settings(2)) as second:
            second.wait_until_ready()
            first.wait_until_ready()
            first.wait_for("leads the quorum", ", after ")
            # Together, as `cluster stop` does: the last one finds no majority and does not wait for it.
            second.process.send_signal(signal.SIGTERM)
            assert first.end(signal.SIGTERM) == 0
            assert second.process.wait(STOP_S) == 0


def test_a_broker_whose_id_is_taken_says_so_and_stops_at_once(tmp_path: Path) -> None:
    quorum = Quorum()
    controller = [setting for setting in quorum.settings(1) if not setting.startswith("controller.quorum")]
    voters = f"controller.quorum.voters=1@{quorum.controller(1)}"
    with NodeProcess(tmp_path / "1", *controller, voters) as first:
        first.wait_until_ready()
        brokers = [[*quorum.settings(node_id, "broker"), "node.id=7", voters] for node_id in (2, 3)]
        with NodeProcess(tmp_path / "2", *brokers[0]) as second, NodeProcess(tmp_path / "3", *brokers[1]) as third:
            second_line = "another broker with node.id 7 is registered and alive"
            wait_until(lambda: any(second_line in line for line in (*second.lines, *third.lines)))
            impatient = [
                *brokers[0],
                "listeners=PLAINTEXT://127.0.0.1:0",
                "initial.broker.registration.timeout.ms=1000",
            ]
            with NodeProcess(tmp_path / "4", *impatient) as fourth:
                assert fourth.process.wait(LIMIT_S) == 1
                line = fourth.wait_for("ottla start: node 7 could not be registered")
                assert "give this node a node.id of its own" in line
                assert not any("Traceback" in line for line in fourth.lines)
            assert second.end(signal.SIGINT) == 0
            assert third.end(signal.SIGINT) == 0
        assert first.end(signal.SIGTERM) == 0


def test_a_broker_without_a_controller_stops_all_the_same(tmp_path: Path) -> None:
    quorum = Quorum()
    voters = f"controller.quorum.voters=1@{quorum.controller(1)}"
    with (
        NodeProcess(tmp_path / "1", *quorum.settings(1, "controller"), voters) as controller,
        NodeProcess(tmp_path / "2", *quorum.settings(2, "broker"), voters) as broker,
    ):
        controller.wait_until_ready()
        broker.wait_until_ready()
        controller.process.kill()
        controller.process.wait()
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_for("waiting for the active controller to move the partitions", "a second signal")
        assert broker.end(signal.SIGINT) == 0
        broker.wait_for("the controlled shutdown was given up")


def test_a_stop_during_the_start_costs_no_recovery(tmp_path: Path) -> None:
    quorum = Quorum()
    alone = [setting for setting in quorum.settings(1) if not setting.startswith("controller.quorum")]
    with NodeProcess(tmp_path, *alone) as node:
        node.wait_until_ready()
        assert node.end(signal.SIGTERM) == 0
    marker = tmp_path / ".kafka_cleanshutdown"
    clean = marker.read_bytes()
    with NodeProcess(tmp_path, *quorum.settings(1)) as node:
        node.wait_for("waiting for controllers")
        assert not marker.exists()
        assert node.end(signal.SIGTERM) == 0
    assert marker.read_bytes() == clean


def test_the_third_signal_ends_a_process_that_is_busy() -> None:
    """Before the loop runs, or while it is held up, nothing but the count of signals can end it."""
    program = (
        "import time; from ottla.cli.start import Signals; signals = Signals(); before = -1\n"
        "while True:\n"
        "    if signals.count != before: before = signals.count; print(before, flush=True)\n"
        "    time.sleep(0.01)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for count in range(3):
            assert process.stdout.readline() == f"{count}\n"
            process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 128 + signal.SIGINT


def test_a_node_whose_output_is_closed_goes_on(tmp_path: Path) -> None:
    """`ottla start | true`, or a parent that is gone."""
    port = free_port()
    read, write = os.pipe()
    os.close(read)
    with (
        (tmp_path / "stderr").open("w+b") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "ottla", "start", "--port", str(port), "--data", str(tmp_path / "data")],
            stdout=write,
            stderr=errors,
        ) as node,
    ):
        os.close(write)
        topics = [sys.executable, "-m", "ottla", "topics", "list", "--broker", f"127.0.0.1:{port}"]
        wait_until(lambda: subprocess.run(topics, capture_output=True).returncode == 0)
        node.send_signal(signal.SIGTERM)
        assert node.wait(STOP_S) == 0
        errors.seek(0)
        assert all(b" INFO ottla" in line for line in errors), "only INFO lines were logged"


# --- ottla cluster


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "nodes"
    ottla_cluster("stop", tmp_path / "nodes")


def ottla_cluster(command: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "ottla", "cluster", command, "--data", str(folder), *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)


def running(folder: Path) -> list[str]:
    """Command lines of nodes with data in the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "start" in words and any(word.startswith(f"{folder}/") for word in words):
            found.append(" ".join(words))
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end, f"not within {LIMIT_S} s"
        time.sleep(0.05)


def test_a_failed_cluster_start_names_the_node_and_the_port_and_leaves_no_process(folder: Path) -> None:
    port = cluster_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1001))
        taken.listen()
        failed = ottla_cluster("start", folder, "--port", str(port))
        assert failed.returncode == 1
        assert "node 2 ended with exit code 1" in failed.stderr
        assert f"127.0.0.1:{port + 1001} is taken by another program" in failed.stderr
        assert f"127.0.0.1:{port + 1}," not in failed.stderr
        assert running(folder) == []
    assert ottla_cluster("start", folder).returncode == 0
    refused = ottla_cluster("start", folder, "--port", str(port + 10))
    assert refused.returncode == 1 and "ottla cluster stop`" in refused.stderr
    stopped = ottla_cluster("stop", folder)
    assert (stopped.returncode, running(folder)) == (0, [])
    assert "3 nodes stopped" in stopped.stderr
    assert "no node was running" in ottla_cluster("stop", folder).stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_cluster_start_stops_what_it_started(folder: Path, number: int, code: int) -> None:
    port = cluster_port()
    command = [sys.executable, "-m", "ottla", "cluster", "start", "--data", str(folder), "--port", str(port)]
    # The nodes wait for a controller that is not one of them.
    voters = ",".join(f"{id}@127.0.0.1:{at}" for id, at in ((1, port + 1000), (8, port + 50), (9, port + 51)))
    command += ["--nodes", "1", "--override", f"controller.quorum.voters={voters}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "waiting for node 1" in process.stderr.readline()
        assert len(running(folder)) == 1
        process.send_signal(number)
        assert process.wait(STOP_S) == code
    assert running(folder) == []
