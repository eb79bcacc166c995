"""Real server processes that tests and benchmarks drive from outside: this repository's node, or Apache Kafka 4.3.1.

Both stand behind one `Server`, so that a test can be proved against Apache Kafka before it judges Ottla.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


def kafka_anchor() -> Path | None:
    """The script that runs Apache Kafka and its tools: KAFKA_ANCHOR_SCRIPT, or the one beside the repository."""
    named = os.environ.get("KAFKA_ANCHOR_SCRIPT")
    script = Path(named) if named else REPOSITORY.parent / "shared" / "anchors" / "kafka"
    return script if script.is_file() and shutil.which("java") else None


class Ports:
    """Ports of 127.0.0.1 that are this process's own for as long as it runs.

    They are below those that the system gives to clients: one of these could be a client's by the time a server listens
    there, or while the server is down. A block of them belongs to the process that has bound its first port, so
    that tests that run at the same time never hand out the same one."""

    FIRST, END, BLOCK = 20_000, 32_000, 100

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        self._left: list[int] = []

    def pair(self) -> int:
        """A free port whose successor is free as well (where Kafka's controller listens)."""
        while True:
            if not self._left:
                self._claim()
            port = self._left.pop(0)
            with socket.socket() as first, socket.socket() as second:
                try:
                    first.bind(("127.0.0.1", port))
                    second.bind(("127.0.0.1", port + 1))
                except OSError:
                    continue
            return port

    def _claim(self) -> None:
        for first in range(self.FIRST, self.END, self.BLOCK):
            claim = socket.socket()
            try:
                claim.bind(("127.0.0.1", first))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            self._left = list(range(first + 1, first + self.BLOCK - 1, 2))
            return
        raise RuntimeError(f"no block of free ports between {self.FIRST} and {self.END}")


_PORTS = Ports()


def free_port() -> int:
    """A port of 127.0.0.1 that is free together with its successor, and that no other caller is given."""
    return _PORTS.pair()


def cluster_port() -> int:
    """The first port for `ottla cluster start`. Its controllers listen 1,000 ports further on, and brokers of a secured
    cluster 2,000, where `free_port` may be another process's: all of them lie below the ports that it hands out."""
    return free_port() - 9_000


def read_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
        parts += part
    return bytes(parts)


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """Send one frame (without its size) and return the answer's frame (without its size)."""
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", read_exactly(connection, 4))
    return read_exactly(connection, size)


SINCE_4_4 = (
    "max.decompressed.message.bytes",
    "group.streams.topology.description.plugin.class",
    "group.streams.assignors",
    "group.streams.num.warmup.replicas",
    "group.streams.max.warmup.replicas",
    "group.streams.acceptable.recovery.lag",
    "group.streams.task.offset.interval.ms",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.rack.aware.assignment.tags",
    "streams.assignor.name",
    "streams.num.warmup.replicas",
    "streams.acceptable.recovery.lag",
    "streams.task.offset.interval.ms",
    "streams.rack.aware.assignment.tags",
    "errors.deadletterqueue.topic.name.prefix",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.group.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.copy.record.enable",
)
"""Settings that Kafka 4.3.1 does not have."""
API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 1, -1)
METADATA_V1_NO_TOPICS = struct.pack(">hhihi", 3, 1, 2, -1, 0)
METADATA_V1_ALL_TOPICS = struct.pack(">hhihi", 3, 1, 2, -1, -1)


class ServerFailed(Exception):
    """The process ended, or did not answer in time."""


class Server(ABC):
    """One broker process on 127.0.0.1 and its data folder. `stop` is SIGTERM, `kill` is SIGKILL."""

    name: str

    def __init__(self, data: Path, overrides: Sequence[str] = (), port: int | None = None) -> None:
        self.data = data
        self.overrides = list(overrides)
        self.port = port or free_port()
        self.log = data.with_name(data.name + ".out")
        self.pid = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,)

    @abstractmethod
    def start(self, timeout_seconds: float = 120) -> None: ...

    @abstractmethod
    def is_running(self) -> bool: ...

    def _ended(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while self.is_running():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def stop(self, timeout_seconds: float = 120) -> None:
        if not self.pid:
            return
        if self.is_running():
            os.kill(self.pid, signal.SIGTERM)
        if not self._ended(timeout_seconds):
            self.kill()
            raise ServerFailed(f"{self.name} still runs {timeout_seconds} s after SIGTERM\n{self.output()}")
        self.pid = 0

    def kill(self) -> None:
        if self.pid and self.is_running():
            os.kill(self.pid, signal.SIGKILL)
            self._ended(120)
        self.pid = 0

    def output(self) -> str:
        """The end of what the process printed."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def connect(self, timeout_seconds: float = 120) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout_seconds)

    def answers(self, timeout_seconds: float = 120) -> bool:
        """Whether a new connection gets an answer to ApiVersions and to Metadata."""
        try:
            with self.connect(timeout_seconds) as connection:
                ask(connection, API_VERSIONS_V0)
                return len(ask(connection, METADATA_V1_NO_TOPICS)) > 8
        except OSError:
            return False

    def has_broker(self) -> bool:
        """Whether Metadata names a broker: what a client needs before it can do anything."""
        try:
            with self.connect(30) as connection:
                answer = ask(connection, METADATA_V1_NO_TOPICS)
                return int(struct.unpack_from(">i", answer, 4)[0]) > 0
        except OSError:
            return False

    def wait_until_ready(self, timeout_seconds: float, poll_seconds: float = 0.01) -> None:
        end = time.monotonic() + timeout_seconds
        while not self.has_broker():
            if not self.is_running():
                raise ServerFailed(f"{self.name} ended while starting\n{self.output()}")
            if time.monotonic() > end:
                raise ServerFailed(f"{self.name} did not answer within {timeout_seconds} s\n{self.output()}")
            time.sleep(poll_seconds)

    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_SIZE

    def cpu_seconds(self) -> float:
        """User and system time of the process since it started."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Ottla(Server):
    """This repository's node: `ottla start` in the foreground."""

    name = "Ottla"

    def __init__(
        self,
        data: Path,
        overrides: Sequence[str] = (),
        port: int | None = None,
        arguments: Sequence[str] = (),
        command: Sequence[str] = (sys.executable, "-m", "ottla"),
    ) -> None:
        super().__init__(data, overrides, port)
        self.arguments = list(arguments)
        self.command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout_seconds: float = 120) -> None:
        self.launch()
        self.wait_until_ready(timeout_seconds)

    def launch(self) -> None:
        options = [f"--override={override}" for override in self.overrides]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self.command, "start", *self._listening(), "--data", str(self.data), *options, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=REPOSITORY,
            )
        self.pid = self._process.pid

    def _listening(self) -> list[str]:
        has_listeners = any(override.startswith("listeners=") for override in self.overrides)
        return [] if has_listeners else ["--port", str(self.port)]

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process else None


class Kafka(Server):
    """Apache Kafka 4.3.1 in combined mode with one voter, from the anchor script."""

    name = "Apache Kafka"

    def start(self, timeout_seconds: float = 180) -> None:
        script = kafka_anchor()
        if script is None:
            raise ServerFailed("no Apache Kafka anchor script")
        result = subprocess.run(
            [str(script), "start", str(self.port), str(self.data), *self.overrides],
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        self.log = self.data.with_name(self.data.name + ".log")
        pids = self.data.with_name(self.data.name + ".pid").read_text().split()
        self.pid = int(pids[0]) if pids else 0
        if result.returncode:
            message = f"Apache Kafka did not start: {result.stdout}{result.stderr}\n{self.output()}"
            self.kill()
            raise ServerFailed(message)
        self.wait_until_ready(timeout_seconds)

    def is_running(self) -> bool:
        if not self.pid:
            return False
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state != "Z"
