"""Processes that a node starts beside itself (`ottla start --registry-port`, `--console-port`) and that end with it.

A companion ends also with a node that is killed: its standard input is a pipe that only the node holds open. If it ends
by itself it is started again, after a pause.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ottla.config import ConfigError

if TYPE_CHECKING:
    from ottla.broker import Node
    from ottla.cli.security_folder import SecurityFolder

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
STOP_S = 5.0
ENDS_WITH_STDIN = "--ends-with-stdin"


def companion_command(command: str, port: int, bootstrap_servers: str, *more: str) -> list[str]:
    """Arguments for a Python that runs a command and ends when its standard input ends. -P: files of the working folder
    are no modules."""
    ottla = [sys.executable, "-P", "-m", "ottla", command, ENDS_WITH_STDIN]
    return [*ottla, "--port", str(port), "-b", bootstrap_servers, *more]


def end_with_stdin(stopping: asyncio.Event) -> None:
    """Stop when the process that started this one closes the pipe, or ends, however that comes."""
    loop = asyncio.get_running_loop()
    stdin = sys.stdin.fileno()

    def read() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            stopping.set()

    loop.add_reader(stdin, read)


class Companion:
    """`ottla COMMAND` beside a node. `port` 0 is any free one. ConfigError: it cannot be started here."""

    def __init__(self, command: str, title: str, port: int) -> None:
        if not 0 <= port <= 65535:
            raise ConfigError(f"--{command}-port {port}: a port is a number from 0 to 65535")
        if find_spec("aiohttp") is None:
            raise ConfigError(f"--{command}-port needs aiohttp: pip install 'ottla[{command}]'")
        # This socket never listens: it keeps the port for us while the companion is started again.
        self._reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._reserved.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConfigError(f"--{command}-port {port}: {error.strerror}") from None
        self.port: int = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = command
        self._title = title
        self._log = logging.getLogger(f"ottla.{command}")
        self._more: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    def add_arguments(self, *more: str) -> None:
        self._more += more

    def start(self, node: Node, folder: SecurityFolder | None) -> None:
        config = node.ground.config
        listener = next(
            (one for one in config.broker_listeners if folder is not None or one.security_protocol == "PLAINTEXT"), None
        )
        if listener is None:
            self._log.error(
                "--%s-port: no %s is started, since no listener of this node takes clients without TLS or login; "
                "start one with 'ottla %s --command-config FILE'",
                self._command,
                self._title,
                self._command,
            )
            return
        host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "127.0.0.1"
        place = f"[{host}]:{node.port(listener.name)}" if ":" in host else f"{host}:{node.port(listener.name)}"
        login = [] if folder is None else ["--command-config", str(folder.client_properties)]
        arguments = companion_command(self._command, self.port, place, *login, *self._more)
        self._watching = asyncio.ensure_future(self._keep_running(arguments))

    async def _keep_running(self, arguments: list[str]) -> None:
        pause_s = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            started_at = loop.time()
            self._process = await asyncio.create_subprocess_exec(
                *arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
            await self._process.wait()
            pause_s = FIRST_PAUSE_S if loop.time() - started_at > MAX_PAUSE_S else min(2 * pause_s, MAX_PAUSE_S)
            self._log.error(
                "the %s ended with exit code %d: it is started again in %.0f s",
                self._title,
                self._process.returncode,
                pause_s,
            )
            await asyncio.sleep(pause_s)

    async def stop(self) -> None:
        """End it; before the node stops, so that it leaves its cluster in good order."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        process = self._process
        if process is not None and process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        self._reserved.close()
