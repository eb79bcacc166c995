"""The ports of a node that a test can break: a disk that can be full, and a network that can be cut.

Everything else is the shipped node's: `FaultyDisk` is `OsDisk`, and `FaultySockets` hands out the operating system's
sockets, until a test says otherwise.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from typing import Any

from ottla.net import OsSockets, new_event_loop
from ottla.net.sockets import ListenSocket, Socket
from ottla.storage import OsDisk
from ottla.storage.disk import Buffer, OsFile

Watch = tuple[Callable[..., Any], tuple[Any, ...]]


class FaultyFile(OsFile):
    """A file that cannot grow while the disk is full; what it has can be overwritten, as on any disk."""

    __slots__ = ()
    _disk: FaultyDisk

    def write(self, position: int, data: Buffer) -> None:
        if self._disk.is_full and position + len(data) > self.size():
            raise no_room(self.path)
        super().write(position, data)


class FaultyDisk(OsDisk):
    """The operating system's files on a disk without room, as long as `is_full` says so."""

    is_full = False

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        if create and self.is_full and not os.path.exists(path):
            raise no_room(path)
        file = FaultyFile(self, path, os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))
        self.remember(file)
        return file

    def make_directory(self, path: str) -> None:
        if self.is_full and not os.path.isdir(path):
            raise no_room(path)
        super().make_directory(path)

    def free_bytes(self, path: str) -> int:
        return 0 if self.is_full else super().free_bytes(path)


def no_room(path: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class Cable:
    """What connects a node with all others. While it is cut nothing passes in either direction, and nothing is
    refused or closed: open connections wait, and new ones wait as well.

    A part of it is what this node opens to some ports. Between two nodes of a cluster each connection is opened by one
    of them: when both cut what they open to the other, nothing passes between the two, and clients reach them both."""

    def __init__(self) -> None:
        self.is_cut = False
        self._cut_ports: frozenset[int] = frozenset()
        self._loop: Any = new_cuttable_loop(self)
        self.readers: dict[Cuttable, Watch] = {}
        self.writers: dict[Cuttable, Watch] = {}

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The node's event loop: it does not see what happens on sockets behind a cut."""
        loop: asyncio.AbstractEventLoop = self._loop
        return loop

    def holds_up(self, sock: Cuttable) -> bool:
        """Whether nothing passes on a socket."""
        return self.is_cut or sock.port in self._cut_ports

    def cut(self) -> None:
        self._change(True, self._cut_ports)

    def cut_from(self, ports: Iterable[int]) -> None:
        """Cut what is opened to these ports, and heal what was opened to others."""
        self._change(self.is_cut, frozenset(ports))

    def heal(self) -> None:
        self._change(False, frozenset())

    def _change(self, is_cut: bool, cut_ports: frozenset[int]) -> None:
        held_up = [sock for sock in (*self.readers, *self.writers) if self.holds_up(sock)]
        self.is_cut, self._cut_ports = is_cut, cut_ports
        for sock in list(self.readers):
            if self.holds_up(sock):
                self._loop.stop_reading(sock)
        for sock in list(self.writers):
            if self.holds_up(sock):
                self._loop.stop_writing(sock)
        for sock in dict.fromkeys(held_up):
            if not self.holds_up(sock):
                self._watch_again(sock)

    def _watch_again(self, sock: Cuttable) -> None:
        if sock in self.readers:
            callback, args = self.readers[sock]
            self._loop.add_reader(sock, callback, *args)
        if sock in self.writers:
            callback, args = self.writers[sock]
            self._loop.add_writer(sock, callback, *args)


class CuttableSocket:
    """A socket at the end of a cable. What the loop does not report is not read, so only sending has to be held up."""

    __slots__ = ("_sock", "cable", "close", "fileno", "getsockopt", "port", "recv_into", "setsockopt")

    def __init__(self, cable: Cable, sock: Socket, port: int) -> None:
        self.cable = cable
        self.port = port
        """To which it was opened; 0 if it was opened by the other side."""
        self._sock = sock
        self.close = sock.close
        self.fileno = sock.fileno
        self.recv_into = sock.recv_into
        self.getsockopt = sock.getsockopt
        self.setsockopt = sock.setsockopt

    def send(self, data: Any, /) -> int:
        if self.cable.holds_up(self):
            raise BlockingIOError
        return self._sock.send(data)

    def sendmsg(self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, /) -> int:
        if self.cable.holds_up(self):
            raise BlockingIOError
        return self._sock.sendmsg(buffers, ancdata, flags)


class CuttableListenSocket:
    """A listening socket at the end of a cable: connections made while that is cut wait in the backlog."""

    __slots__ = ("_listening", "cable", "close", "fileno", "getsockname")
    port = 0

    def __init__(self, cable: Cable, listening: ListenSocket) -> None:
        self.cable = cable
        self._listening = listening
        self.close = listening.close
        self.fileno = listening.fileno
        self.getsockname = listening.getsockname

    def accept(self) -> tuple[Socket, Any]:
        accepted, address = self._listening.accept()
        return CuttableSocket(self.cable, accepted, 0), address


Cuttable = CuttableSocket | CuttableListenSocket


class FaultySockets(OsSockets):
    """The operating system's sockets, all at the end of one cable."""

    shares_ports = True  # the test process holds them while the node is down

    def __init__(self, cable: Cable) -> None:
        self._cable = cable

    def listen(self, host: str, port: int, backlog: int) -> ListenSocket:
        return CuttableListenSocket(self._cable, super().listen(host, port, backlog))

    def connect(self, host: str, port: int) -> Socket:
        return CuttableSocket(self._cable, super().connect(host, port), port)


def new_cuttable_loop(cable: Cable) -> Any:
    """The event loop a node runs on (uvloop's, where it is installed), with one difference: it knows which sockets are
    behind the cable, and does not watch them while that is cut. (A socket that only pretended to have nothing to read
    would keep the loop turning.)"""
    shipped = new_event_loop()
    shipped.close()
    loop_class: Any = type(shipped)

    class CuttableLoop(loop_class):  # type: ignore[misc]
        def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
            if isinstance(fd, Cuttable):
                cable.readers[fd] = callback, args
                if cable.holds_up(fd):
                    return
            super().add_reader(fd, callback, *args)

        def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
            if isinstance(fd, Cuttable):
                cable.writers[fd] = callback, args
                if cable.holds_up(fd):
                    return
            super().add_writer(fd, callback, *args)

        def remove_reader(self, fd: Any) -> Any:
            cable.readers.pop(fd, None)
            return super().remove_reader(fd)

        def remove_writer(self, fd: Any) -> Any:
            cable.writers.pop(fd, None)
            return super().remove_writer(fd)

        def stop_reading(self, sock: Cuttable) -> None:
            super().remove_reader(sock)

        def stop_writing(self, sock: Cuttable) -> None:
            super().remove_writer(sock)

    return CuttableLoop()
