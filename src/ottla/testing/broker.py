"""A node of one's own: a process on a free port of 127.0.0.1 with a folder that goes when it goes.

It is the shipped node, not a stand-in: whatever an application does to Kafka it can do here, and what a test does to
the broker (kill it, freeze it, cut it off, fill its disk) happens to a real process.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import IO, Any, Self

from ottla.config.own import REGISTRY_URL
from ottla.testing.lifetime import Lifetime
from ottla.testing.registry import TestRegistry
from ottla.testing.reserved_port import ReservedPort
from ottla.testing.secured import SecuredClients, TestSecurity
from ottla.testing.temporary_folder import TemporaryFolder

READY_TIMEOUT_S = 100.0
STOP_TIMEOUT_S = 100.0
ANSWER_TIMEOUT_S = 100.0
OUTPUT_BYTES_TOLD = 4000

QUICK: dict[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Settings that differ from Kafka's defaults so that tests need not wait: a group's first members are served at once,
and internal topics have one partition each. `Broker(config={...})` sets them to anything else."""


class BrokerFailed(Exception):
    """The broker ended, was not ready in time, or is not in a state to do what was asked; the message has what it
    printed."""


class Broker(SecuredClients, Lifetime):
    """One node. Starts when it is entered (or by `start`), and leaves nothing behind.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    `config` is Kafka's settings by Kafka's names. `data` is a folder to keep; without it the folder is a temporary one.
    `secure` gives it TLS, logins by SCRAM and ACLs: `client_settings()` and `librdkafka_settings()` are those of
    clients that log in as admin, `add_user` adds others (`pip install 'ottla[security]'`).

    What a test can do to it: `stop` and `kill` it and `start` it again, `pause` and `resume` it, `cut` it off from all
    clients and `heal` that, `fill_disk` and `free_disk`. A restart changes neither a cut nor a full disk.
    """

    def __init__(
        self,
        config: Mapping[str, str | int | bool] | None = None,
        *,
        data: str | None = None,
        secure: bool = False,
    ) -> None:
        self._config = dict(QUICK)
        for name, value in (config or {}).items():
            self._config[name] = str(value).lower() if isinstance(value, bool) else str(value)
        self._data = data
        self._is_secure = secure
        self._folder: TemporaryFolder | None = None
        self._reserved: ReservedPort | None = None
        self._registry: TestRegistry | None = None
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._output_start = 0
        self._is_paused = self._is_cut = self._is_full = False
        self._cut_ports: list[int] = []

    # Where it is

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients. It stays the same over `restart`."""
        if not self._port:
            raise BrokerFailed("the broker has not been started: use it as a context manager, or call start()")
        return f"127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def registry_url(self) -> str:
        """The URL of a schema registry on this broker, which starts when it is asked for the first time and ends with
        the broker. Topics with `confluent.value.schema.validation` use it (`pip install 'ottla[registry]'`)."""
        if self._registry is None or not self.is_running:
            raise BrokerFailed("the broker does not run: its schema registry cannot be started")
        login = None if self._security is None else str(self._security.folder.client_properties)
        return self._registry.start(self.bootstrap_servers, login)

    @property
    def data(self) -> str:
        """The folder with its logs."""
        if self._folder is not None:
            return self._folder.path
        if self._data is None:
            raise BrokerFailed("the broker has not been started and has no folder yet")
        return self._data

    @property
    def _name(self) -> str:
        """Its name in error messages."""
        return "the broker"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_reachable(self) -> bool:
        """Whether the process runs and is neither paused nor cut off."""
        return self.is_running and not self._is_paused and not self._is_cut

    def output(self) -> str:
        """The end of what the node printed since it was last started."""
        if self._output is None:
            return ""
        start = max(self._output_start, os.fstat(self._output.fileno()).st_size - OUTPUT_BYTES_TOLD)
        return os.pread(self._output.fileno(), OUTPUT_BYTES_TOLD, start).decode(errors="replace")

    # Its life

    def start(self) -> Self:
        """Start it, or start it again on the same port with the data it has. Returns when it answers."""
        if not self.is_running:
            self.launch()
            self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start its process; `wait_until_ready` has to follow. So several start at once."""
        self._close_pipes()
        if self._data is None and self._folder is None:
            self._folder = TemporaryFolder()
        if self._is_secure and self._security is None:
            self._security = TestSecurity()
        if self._output is None:
            self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._output_start = os.fstat(self._output.fileno()).st_size
        self.reserve_port()
        if self._registry is None:
            self._registry = TestRegistry()
        self._prepare_data()
        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            # A process group of its own: Ctrl-C in the terminal interrupts the test, not the node. But the session of
            # the test: if the test dies while the node is paused, the kernel continues the node, and it can end.
            process_group=0,
        )
        self._is_paused = False

    def _prepare_data(self) -> None:
        """Prepare a data folder before its node is started."""

    def wait_until_ready(self) -> None:
        assert self._process is not None
        self._line(self._process, "ready", READY_TIMEOUT_S)

    def reserve_port(self) -> int:
        """The port it listens on, from now on until it is closed."""
        if self._reserved is None:
            self._reserved = ReservedPort()
            self._port = self._reserved.number
        return self._port

    def _command(self) -> list[str]:
        # -P: files of the test's working folder are not the node's modules.
        command = [sys.executable, "-P", "-m", "ottla.testing.node", "--data", self.data, *self._listening()]
        if self._folder is not None:
            command.append("--temporary")
        faults = (("cut", self._is_cut), (self._cut_from(), bool(self._cut_ports)), ("fill-disk", self._is_full))
        for fault, is_on in faults:
            if is_on:
                command += ["--fault", fault]
        if self._registry is not None and REGISTRY_URL not in self._config:
            command += ["--override", f"{REGISTRY_URL}={self._registry.url}"]
        for name, value in self._config.items():
            command += ["--override", f"{name}={value}"]
        return command

    def _listening(self) -> list[str]:
        listening = ["--port", str(self._port)]
        return listening if self._security is None else [*listening, "--secure", str(self._security.folder.path)]

    def _line(self, process: subprocess.Popen[bytes], what: str, timeout_s: float) -> str:
        """The next line that the node prints. BrokerFailed if the process ends or stays silent."""
        assert process.stdout is not None
        end = time.monotonic() + timeout_s
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    self.kill()
                    raise BrokerFailed(f"{self._name} was not {what} within {timeout_s:.0f} s\n{self.output()}")
                part = os.read(process.stdout.fileno(), 4096)
                if not part:
                    code = process.wait()
                    raise BrokerFailed(f"{self._name} ended with exit code {code}\n{self.output()}")
                line += part
        return line.decode()

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does. The data stays until the broker is closed."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.resume()
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(
                f"{self._name} still ran {STOP_TIMEOUT_S:.0f} s after SIGTERM\n{self.output()}"
            ) from None

    def kill(self) -> None:
        """Kill the process, as kill -9 does: acknowledged records must still be there after a `start`."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        self._is_paused = False

    def restart(self) -> None:
        """Stop it, if it runs, and start it on the same port with its data."""
        self.stop()
        self.start()

    # More faults

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers, as in a long pause of a machine."""
        if self._process is not None and self.is_running:
            os.kill(self._process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # it takes a moment
            self._is_paused = True

    def resume(self) -> None:
        if self._is_paused and self._process is not None and self.is_running:
            os.kill(self._process.pid, signal.SIGCONT)
        self._is_paused = False

    def cut(self) -> None:
        """Cut it off from all clients: connections stay open and nothing passes, nothing is refused. Unlike a paused
        broker it goes on by itself: it gives up members of groups that it does not hear of, and transactions that take
        too long."""
        self._is_cut = True
        self._tell("cut")

    def heal(self) -> None:
        """End `cut`: what was sent meanwhile arrives."""
        self._is_cut = False
        self._cut_ports = []
        self._tell("heal")

    def cut_from(self, ports: list[int]) -> None:
        """Nothing passes on connections that it opens to these ports; see `Cluster.partition`."""
        self._cut_ports = ports
        self._tell(self._cut_from())

    def _cut_from(self) -> str:
        return " ".join(["cut-from", *map(str, self._cut_ports)])

    def fill_disk(self) -> None:
        """The disk is full: writes are refused with KAFKA_STORAGE_ERROR (which clients retry), reads continue."""
        self._is_full = True
        self._tell("fill-disk")

    def free_disk(self) -> None:
        """The disk has room again, and the broker takes writes without a restart."""
        self._is_full = False
        self._tell("free-disk")

    def _tell(self, command: str) -> None:
        """Have the node do it, now if it runs, otherwise when it is started."""
        if self.is_running:
            self.ask(command)

    def ask(self, command: str) -> Any:
        """The answer of a running node to a command of `ottla.testing.node`."""
        process = self._process
        assert process is not None and process.stdin is not None
        if self._is_paused:
            raise BrokerFailed(f"a paused broker cannot be told to {command}: resume() it first")
        try:
            process.stdin.write(f"{command}\n".encode())
            process.stdin.flush()
        except BrokenPipeError:
            raise BrokerFailed(f"{self._name} ended with exit code {process.wait()}\n{self.output()}") from None
        return json.loads(self._line(process, command, ANSWER_TIMEOUT_S))

    def close(self) -> None:
        """End it and remove its folder, if that was a temporary one."""
        if self._registry is not None:
            self._registry.close()
            self._registry = None
        if self._folder is not None:
            self.kill()  # its data will not be read again
        else:
            self.stop()
        self._close_pipes()
        if self._output is not None:
            self._output.close()
            self._output = None
        if self._folder is not None:
            self._folder.remove()
            self._folder = None
        if self._security is not None:
            self._security.remove()
            self._security = None
        if self._reserved is not None:
            self._reserved.release()
            self._reserved = None

    def _close_pipes(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def __repr__(self) -> str:
        state = "paused" if self._is_paused else "running" if self.is_running else "stopped"
        faults = "".join([", cut off" if self._is_cut else "", ", disk full" if self._is_full else ""])
        return f"Broker({self._port or 'no port yet'}, {state}{faults})"
