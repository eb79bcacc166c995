"""Sockets for a program without an event loop: it waits in place.

`Blocking` is the interface: the sockets of `Sockets`, and waiting, sleeping, clocks and random numbers. The simulator
has its own implementation, with which the same code waits on a virtual clock.
"""

from __future__ import annotations

import os
import random
import select
import socket
import time
from math import ceil
from typing import Any, Protocol

from ottla.net.sockets import OsSockets, Socket, Sockets, host_addresses

MAX_PIECE_COUNT = 512
"""Pieces in one system call; the kernel's limit is 1024."""


class Blocking(Protocol):
    """What a program that waits in place uses of the operating system, or of a simulated host."""

    @property
    def sockets(self) -> Sockets: ...
    @property
    def rng(self) -> random.Random: ...

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def clock(self) -> int:
        """Wall clock milliseconds."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def addresses(self, host: str) -> list[str]:
        """All addresses of a host in the order to try them; OSError if it has none."""
        ...

    def wait_readable(self, sock: Socket, seconds: float) -> None:
        """Return when the socket has bytes, has ended or has an error; TimeoutError if that takes longer."""
        ...

    def wait_writable(self, sock: Socket, seconds: float) -> None:
        """Return when the socket takes bytes or has an error; TimeoutError if that takes longer."""
        ...


class OsBlocking:
    def __init__(self) -> None:
        self.sockets: Sockets = OsSockets()
        self.rng: random.Random = random.SystemRandom()

    def now(self) -> float:
        return time.monotonic()

    def clock(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def addresses(self, host: str) -> list[str]:
        if not self.sockets.is_name(host):
            return [host]
        return host_addresses(host)

    def wait_readable(self, sock: Socket, seconds: float) -> None:
        _poll(sock, select.POLLIN, seconds)

    def wait_writable(self, sock: Socket, seconds: float) -> None:
        _poll(sock, select.POLLOUT, seconds)


def _poll(sock: Socket, events: int, seconds: float) -> None:
    waiting = select.poll()
    waiting.register(sock.fileno(), events)
    if not waiting.poll(ceil(seconds * 1000)):
        raise TimeoutError("timed out")


OS_BLOCKING = OsBlocking()


def dial_in_place(blocking: Blocking, host: str, port: int, seconds: float) -> Socket:
    """A connected socket. If none of the addresses accepts within these seconds: the OSError of the first."""
    first_error: OSError | None = None
    for address in blocking.addresses(host):
        try:
            return _connect(blocking, address, port, seconds)
        except OSError as error:
            first_error = first_error or error
    raise first_error or OSError(f"{host} has no address")


def _connect(blocking: Blocking, address: str, port: int, seconds: float) -> Socket:
    sock = blocking.sockets.connect(address, port)
    try:
        blocking.wait_writable(sock, seconds)
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
    except BaseException:
        sock.close()
        raise
    return sock


def fill(blocking: Blocking, sock: Socket, view: memoryview, seconds: float) -> None:
    """Receive as many bytes as the view has room for; TimeoutError if none arrive for so many seconds, ConnectionError
    if the other side closes the connection before.
    """
    filled, size = 0, len(view)
    while filled < size:
        try:
            count = sock.recv_into(view[filled:])
        except (BlockingIOError, InterruptedError):
            blocking.wait_readable(sock, seconds)
            continue
        if count == 0:
            raise ConnectionError("the broker closed the connection")
        filled += count


def send_all(blocking: Blocking, sock: Socket, pieces: list[Any], seconds: float) -> None:
    """Send all pieces; TimeoutError if the socket accepts none for so many seconds."""
    views = [memoryview(piece).cast("B") for piece in pieces]
    start = 0
    while start < len(views):
        try:
            sent = sock.sendmsg(views[start : start + MAX_PIECE_COUNT])
        except (BlockingIOError, InterruptedError):
            blocking.wait_writable(sock, seconds)
            continue
        while start < len(views) and sent >= len(views[start]):
            sent -= len(views[start])
            start += 1
        if sent:
            views[start] = views[start][sent:]
