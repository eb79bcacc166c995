"""A node of one's own: a process on a free port of 127.0.0.1 with a folder that goes when it goes.

It is the shipped node, not a stand-in: whatever an application does to Kafka it can do here, and what a test does to
the broker (kill it, stop it, freeze it) happens to a real process.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import IO

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
OUTPUT_BYTES_TOLD = 4000

QUICK: dict[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Settings that differ from Kafka's defaults so that tests need not wait: a group's first members are served at once,
and internal topics have one partition each. `Broker(config={...})` sets them to anything else."""


class BrokerFailed(Exception):
    """The broker ended, or was not ready in time; the message has what it printed."""


class Broker:
    """One node. Starts when it is entered (or by `start`), and leaves nothing behind.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    `config` is Kafka's settings by Kafka's names. `data` is a folder to keep; without it the folder is a temporary one.
    """

    def __init__(self, config: Mapping[str, str | int | bool] | None = None, *, data: str | None = None) -> None:
        self._config = dict(QUICK)
        for name, value in (config or {}).items():
            self._config[name] = str(value).lower() if isinstance(value, bool) else str(value)
        self._is_temporary = data is None
        self._data = data
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._is_paused = False

    # Where it is

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to. It stays the same over `restart`."""
        if not self._port:
            raise BrokerFailed("the broker has not been started: use it as a context manager, or call start()")
        return f"127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def data(self) -> str:
        """The folder with its logs."""
        if self._data is None:
            raise BrokerFailed("the broker has not been started and has no folder yet")
        return self._data

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """The end of what the node printed."""
        if self._output is None:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        start = max(0, size - OUTPUT_BYTES_TOLD)
        return os.pread(self._output.fileno(), OUTPUT_BYTES_TOLD, start).decode(errors="replace")

    # What a test does to it

    def start(self) -> Broker:
        """Start it, or start it again on the same port with the data it has. Returns when it answers."""
        if self.is_running:
            return self
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        if self._data is None:
            self._data = tempfile.mkdtemp(prefix="ottla-")
        if self._output is None:
            self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `stop`)
        command = [sys.executable, "-m", "ottla", "start", "--port", str(self._port), "--data", self._data]
        for name, value in self._config.items():
            command += ["--override", f"{name}={value}"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._output, start_new_session=True
        )
        self._is_paused = False
        line = self._first_line(self._process)
        self._port = int(line.partition(" ready on 127.0.0.1:")[2].split()[0])
        return self

    def _first_line(self, process: subprocess.Popen[bytes]) -> str:
        """The ready line. A process that ends, or stays silent, is a failure that says why."""
        assert process.stdout is not None
        end = time.monotonic() + READY_TIMEOUT_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    self.kill()
                    raise BrokerFailed(f"the broker was not ready within {READY_TIMEOUT_S:.0f} s\n{self.output()}")
                part = os.read(process.stdout.fileno(), 4096)
                if not part:
                    code = process.wait()
                    raise BrokerFailed(f"the broker ended with exit code {code}\n{self.output()}")
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
            raise BrokerFailed(f"the broker still ran {STOP_TIMEOUT_S:.0f} s after SIGTERM\n{self.output()}") from None

    def kill(self) -> None:
        """End it at once, as kill -9 does: what was acknowledged must still be there after a `restart`."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Stop it, if it runs, and start it on the same port with its data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers, as in a long pause of a machine."""
        if self._process is not None and self.is_running:
            os.kill(self._process.pid, signal.SIGSTOP)
            self._is_paused = True

    def resume(self) -> None:
        if self._is_paused and self._process is not None and self.is_running:
            os.kill(self._process.pid, signal.SIGCONT)
        self._is_paused = False

    def close(self) -> None:
        """End it and remove its folder, if that was a temporary one."""
        if self._is_temporary:
            self.kill()  # nobody will read its data again
        else:
            self.stop()
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        if self._output is not None:
            self._output.close()
            self._output = None
        if self._is_temporary and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None

    def __enter__(self) -> Broker:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "paused" if self._is_paused else "running" if self.is_running else "stopped"
        return f"Broker({self._port or 'no port yet'}, {state})"
