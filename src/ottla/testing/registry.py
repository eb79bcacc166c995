"""The schema registry of a test's broker: a process that starts when a test asks for it."""

from __future__ import annotations

import selectors
import subprocess
import time

from ottla.cli.companion import companion_command
from ottla.testing.reserved_port import ReservedPort

READY_TIMEOUT_S = 100.0
STOP_TIMEOUT_S = 10.0


class RegistryFailed(Exception):
    """The registry ended, or was not ready in time; the message has its output."""


class TestRegistry:
    """Its port is fixed from the beginning, so that the broker's settings can name it."""

    __test__ = False

    def __init__(self) -> None:
        self._reserved = ReservedPort()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._reserved.number}"

    def start(self, bootstrap_servers: str, login: str | None = None) -> str:
        """The URL of the registry, which runs and answers. `login`: a file with settings of its clients."""
        if self._process is not None and self._process.poll() is None:
            return self.url
        arguments = [] if login is None else ["--command-config", login]
        self._process = subprocess.Popen(
            companion_command("registry", self._reserved.number, bootstrap_servers, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self._wait_until_ready(self._process)
        return self.url

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        end = time.monotonic() + READY_TIMEOUT_S
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stderr, selectors.EVENT_READ)
            while self.url.encode() not in said:
                part = process.stderr.read1(4096) if selector.select(max(0.0, end - time.monotonic())) else b""  # type: ignore[attr-defined]
                if not part:
                    process.kill()
                    code = process.wait()
                    raise RegistryFailed(f"the schema registry ended with exit code {code}\n{said.decode()}")
                said += part

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stderr is not None
            process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stderr.close()
        self._reserved.release()
