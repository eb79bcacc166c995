"""TCP as non-blocking sockets. The simulator implements the same interface, and callers cannot tell the difference."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

from ottla.net.beside import beside_loop

MAX_RETRANSMISSION_MS = 1_000
"""TCP doubles its wait after each retransmission: after a link was down for 6 s, up to 6 s more would pass. 1 s is the
least that Linux allows (from 6.15 on).
"""
_TCP_RTO_MAX_MS = 44


class Socket(Protocol):
    """The part of a non-blocking `socket.socket` that Ottla uses; every call may raise BlockingIOError or OSError."""

    def recv_into(self, buffer: Any, /) -> int: ...
    def send(self, data: Any, /) -> int: ...
    def sendmsg(self, buffers: Iterable[Any], ancdata: Iterable[Any] = ..., flags: int = ..., /) -> int: ...
    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...
    def getsockopt(self, level: int, option: int, /) -> int: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class ListenSocket(Protocol):
    def accept(self) -> tuple[Socket, Any]: ...
    def getsockname(self) -> Any: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class Sockets(Protocol):
    """Where sockets come from: the operating system, or a simulated network."""

    supports_sendfile: bool
    """Whether `fileno()` is a real descriptor that os.sendfile can write to."""

    def listen(self, host: str, port: int, backlog: int) -> ListenSocket: ...
    def is_name(self, host: str) -> bool:
        """Whether a host must be looked up before connecting."""
        ...

    async def look_up(self, host: str) -> str:
        """The address of a name, without keeping the loop waiting; OSError if it has none."""
        ...

    async def addresses(self, host: str) -> list[str]:
        """All addresses of a host in the order to try them, without keeping the loop waiting; OSError if it has
        none."""
        ...

    def connect(self, host: str, port: int) -> Socket:
        """A socket that is connecting: it is writable once connected; the first send or receive raises if it was
        refused.
        """
        ...


class _OsListenSocket:
    __slots__ = ("_listening", "close", "fileno", "getsockname")

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.fileno = listening.fileno
        self.getsockname = listening.getsockname
        self.close = listening.close

    def accept(self) -> tuple[Socket, Any]:
        accepted, address = self._listening.accept()
        _prepare(accepted)
        return accepted, address


class OsSockets:
    supports_sendfile = hasattr(os, "sendfile")
    shares_ports = False
    """Whether several sockets of this user may listen on one port, if all of them allow it."""

    def listen(self, host: str, port: int, backlog: int) -> ListenSocket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.shares_ports:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listening.bind((host, port))
        except OSError:
            listening.close()
            raise
        listening.listen(backlog)
        listening.setblocking(False)
        return _OsListenSocket(listening)

    def is_name(self, host: str) -> bool:
        for family in (socket.AF_INET, socket.AF_INET6):
            with suppress(OSError, ValueError):
                socket.inet_pton(family, host)
                return False
        return True

    async def look_up(self, host: str) -> str:
        # The family is what `connect` takes a name for.
        return (await beside_loop(lambda: host_addresses(host, socket.AF_INET)))[0]

    async def addresses(self, host: str) -> list[str]:
        if not self.is_name(host):
            return [host]
        return await beside_loop(lambda: host_addresses(host))

    def connect(self, host: str, port: int) -> Socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connecting = socket.socket(family, socket.SOCK_STREAM)
        _prepare(connecting)
        try:
            connecting.connect((host, port))
        except BlockingIOError:
            pass
        except OSError:
            connecting.close()
            raise
        except OverflowError:  # a broker may advertise any port number
            connecting.close()
            raise OSError(errno.EADDRNOTAVAIL, f"{port} is no port") from None
        return connecting


def host_addresses(host: str, family: int = socket.AF_UNSPEC) -> list[str]:
    """The addresses of a host, each once; blocks. OSError if it has none, or if the name is invalid, such as a..b."""
    try:
        found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, f"no host can have the name {host!r}") from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def _prepare(connection: socket.socket) -> None:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        with suppress(OSError):  # an older kernel does not know it
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, MAX_RETRANSMISSION_MS)
