"""`ottla console` as a process, and Debian's Chromium looking at it."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "ottla" / "console" / "page" / "index.html"
AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY_S = 100.0
MAX_WAIT_MS = 90_000
"""For what takes a moment: a busy machine must not fail a test."""


def why_skipped() -> str | None:
    """Why the browser tests cannot run here; None if they can."""
    if not CHROMIUM.exists():
        return "no /usr/bin/chromium: apt-get install chromium"
    if not PAGE.exists() or not AXE.exists():
        return "the console's page is not built: make console (Node 20)"
    return None


class Console:
    """A console on a port of its own."""

    def __init__(self, bootstrap_servers: str, *arguments: str, port: int = 0) -> None:
        command = [sys.executable, "-m", "ottla", "console", "-b", bootstrap_servers, "--port", str(port), *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert self.process.stderr is not None
        self.url = _address(self.process.stderr)
        # what it says later would fill the pipe
        self._reader = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.wait(20)
        for pipe in (self.process.stdin, self.process.stderr):
            assert pipe is not None
            pipe.close()


def _address(stderr: IO[bytes]) -> str:
    end = time.monotonic() + READY_S
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stderr, selectors.EVENT_READ)
        while time.monotonic() < end:
            if not selector.select(1):
                continue
            part = os.read(stderr.fileno(), 65536)
            said += part
            if found := re.search(rb"https?://[\d.]+:\d+", said):
                return found[0].decode()
            if not part:
                break
    raise AssertionError(f"the console did not start:\n{said.decode(errors='replace')}")
