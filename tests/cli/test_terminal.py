"""Commands on a terminal: they ask before they destroy, fit its width, and escape control characters of records."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Ottla
from tests.interop.servers import Server

COLUMNS = 40
LIMIT_S = 120


class Terminal:
    """A command whose stdin, stdout and stderr are one terminal."""

    def __init__(self, process: subprocess.Popen[bytes], side: int) -> None:
        self._process = process
        self._side = side
        self.shown = b""

    def type(self, keys: bytes) -> None:
        os.write(self._side, keys)

    def wait_for(self, text: bytes) -> None:
        ends_at = time.monotonic() + LIMIT_S
        while text not in self.shown:
            assert time.monotonic() < ends_at, f"{text!r} was not shown: {self.shown!r}"
            if not self._read(1.0):
                raise AssertionError(f"{text!r} was not shown: {self.shown!r}")

    def end(self) -> int:
        """The exit code, when everything has been shown."""
        ends_at = time.monotonic() + LIMIT_S
        while self._read(1.0):
            assert time.monotonic() < ends_at, self.shown
        return self._process.wait(LIMIT_S)

    @property
    def lines(self) -> list[str]:
        return self.shown.decode().replace("\r\n", "\n").split("\n")

    def _read(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._side], [], [], timeout_s)
        if not ready:
            return True
        try:
            data = os.read(self._side, 65536)
        except OSError:  # Linux: the other side is closed
            return False
        self.shown += data
        return bool(data)


@contextmanager
def terminal(cluster: Server, *arguments: str) -> Iterator[Terminal]:
    side, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments],
        stdin=other,
        stdout=other,
        stderr=other,
        env={**environment, "OTTLA_BROKER": cluster.bootstrap},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(other)
    try:
        yield Terminal(process, side)
    finally:
        process.kill()
        process.wait(LIMIT_S)
        os.close(side)


@pytest.mark.parametrize(
    ("keys", "code", "is_there"), [(b"n\n", 1, True), (b"\n", 1, True), (b"\x03", 130, True), (b"y\n", 0, False)]
)
def test_a_topic_is_deleted_only_after_yes(
    cluster: Server, ottla: Ottla, topic: str, keys: bytes, code: int, is_there: bool
) -> None:
    ottla("topics", "create", topic)
    with terminal(cluster, "topics", "delete", topic) as shown:
        shown.wait_for(b"[y/N] ")
        shown.type(keys)
        assert shown.end() == code
    assert (topic in ottla("topics", "list").out.split()) is is_there


def test_records_and_offsets_are_changed_after_yes(cluster: Server, ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"a\nb\n")
    ottla("consume", topic, "-g", f"g-{topic}", "-e")
    with terminal(cluster, "groups", "reset", f"g-{topic}", "--to-earliest") as shown:
        shown.wait_for(b"[y/N] ")
        shown.type(b"y\n")
        assert shown.end() == 0
    assert ottla("consume", topic, "-g", f"g-{topic}", "-e").out == "a\nb\n"
    with terminal(cluster, "records", "delete", topic, "--before", "1") as shown:
        shown.wait_for(b"[y/N] ")
        shown.type(b"y\n")
        assert shown.end() == 0
    assert ottla("consume", topic, "-e").out == "b\n"


def test_control_characters_of_records_do_not_reach_a_terminal(cluster: Server, ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    value = b"\x1b[2J\x1b[31mred\x07\r\xc2\x9b1m\x7f \xff \xc3\xa4\ttab"
    ottla("produce", topic, "-k", "\x1b]0;title\x07", stdin=value)
    with terminal(cluster, "consume", topic, "-e", "-f", "%k %v\\e[0m\\n") as shown:
        assert shown.end() == 0
    # The escape sequence of the format itself stays.
    assert shown.shown.decode() == (
        "\\x1b]0;title\\x07 \\x1b[2J\\x1b[31mred\\x07\\x0d\\x9b1m\\x7f \\xff ä\ttab\x1b[0m\r\n"
    )
    for output in ("json", "yaml"):
        with terminal(cluster, "consume", topic, "-e", "-o", output) as shown:
            assert shown.end() == 0
        assert not any(byte < 32 and byte not in b"\r\n" for byte in shown.shown) and b"\xc2\x9b" not in shown.shown
    piped = subprocess.run(
        [sys.executable, "-m", "ottla", "consume", topic, "-e", "-b", cluster.bootstrap],
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_S,
    )
    assert piped.stdout == value + b"\n"


def test_tables_and_the_doctor_fit_a_narrow_terminal(cluster: Server, ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "3", "-c", "retention.ms=123456789", "-c", "segment.bytes=64MiB")
    ottla("produce", topic, stdin=b"a\nb\n")
    ottla("consume", topic, "-g", f"g-{topic}", "-n", "1")
    for arguments in (
        ["topics", "describe", topic],
        ["topics", "list"],
        ["groups", "describe", f"g-{topic}"],
        ["cluster", "brokers"],
        ["doctor", "--wait", "0"],
    ):
        with terminal(cluster, *arguments) as shown:
            assert shown.end() in (0, 1)
        wide = [line for line in shown.lines if len(line) > COLUMNS]
        # A word that is longer than the terminal is wide is left to it: a path, or a cluster's address.
        assert [line for line in wide if len(line.split()) > 1] == [], shown.lines


def test_produce_says_where_a_record_went(cluster: Server, ottla: Ottla, topic: str) -> None:
    ottla("topics", "create", topic, "-p", "1")
    for number in range(2):
        with terminal(cluster, "produce", topic, "-m", "x") as shown:
            assert shown.end() == 0
        assert shown.lines[0] == f"written to {topic}-0 at offset {number}"
    with terminal(cluster, "produce", topic, "-m", "x", "-m", "y") as shown:
        assert shown.end() == 0
    assert shown.lines[0] == f"2 records written to {topic}"
