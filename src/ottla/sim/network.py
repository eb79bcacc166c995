"""In-memory TCP between simulated hosts, seen through non-blocking sockets.

What holds as in TCP: the bytes of one direction arrive in order or not at all; buffers are bounded, so a sender blocks
when its peer does not read; closing delivers what was sent before; a kill closes sockets as the kernel does, a power
loss leaves the peer in the dark. What chance decides: how long each segment takes, how much of a buffer `send` takes
and how much `recv_into` returns (fewer bytes than possible: this is what finds framing bugs).
"""

from __future__ import annotations

import errno
import heapq
import os
import random
import socket as stdlib_socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ottla.sim.loop import Loop

Address = tuple[str, int]

BUFFER_BYTES = 64 * 1024
LOCAL_NAMES = ("", "0.0.0.0", "127.0.0.1", "localhost", "::", "::1")


class Weather:
    """How the network behaves: delays in seconds, and how often a call moves fewer bytes than it could."""

    def __init__(
        self,
        delay_s: tuple[float, float] = (0.000_1, 0.003),
        partial_probability: float = 0.1,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.delay_s = delay_s
        self.partial_probability = partial_probability
        self.buffer_bytes = buffer_bytes


class Network:
    """All hosts, their listeners and connections, and which pairs are cut."""

    def __init__(self, loop: Loop, rng: random.Random, weather: Weather | None = None) -> None:
        self.loop = loop
        self.rng = rng
        self.weather = weather or Weather()
        self._listeners: dict[Address, Socket] = {}
        self._sockets: dict[int, Socket] = {}
        self._free_fds: list[int] = []
        self._next_fd = 1_000
        self._next_port = 40_000
        self._cut: dict[tuple[str, str], None] = {}
        self._slow: dict[tuple[str, str], float] = {}
        self._dark: dict[str, None] = {}
        self.holding: dict[Socket, None] = {}
        """Sockets with segments that a cut holds back. They may be closed: the kernel sends on for those, too, so that
        what a client gave up arrives when it has long said the same again elsewhere."""
        self.delivered_count = 0

    def host(self, name: str) -> Sockets:
        """The sockets of one host: what a simulated program gets as its network."""
        return Sockets(self, name)

    # Disturbances

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Segments from source to target are held back until `heal`, as TCP's retransmissions would deliver them."""
        self._cut.setdefault((source, target))
        if both_ways:
            self._cut.setdefault((target, source))
        self.loop.trace.note("network", f"cut {source} {'<->' if both_ways else '->'} {target}")

    def slow(self, first: str, second: str, delay_s: float) -> None:
        """Everything between two hosts takes up to so much longer, both ways; 0 ends it."""
        for pair in ((first, second), (second, first)):
            if delay_s:
                self._slow[pair] = delay_s
            else:
                self._slow.pop(pair, None)
        self.loop.trace.note("network", f"slow {first} <-> {second} {delay_s:g}")

    def heal(self) -> None:
        self._cut.clear()
        self._slow.clear()
        self.loop.trace.note("network", "heal")
        held, self.holding = self.holding, {}
        for sock in held:
            sock._release_held()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def reset(self, first: str, second: str) -> None:
        """Every connection between two hosts breaks."""
        self.loop.trace.note("network", f"reset {first} <-> {second}")
        for sock in list(self._sockets.values()):
            if sock.remote is not None and {sock.local[0], sock.remote[0]} == {first, second}:
                sock._break(errno.ECONNRESET)

    def kill(self, name: str) -> None:
        """The program on this host died: its kernel closes its sockets."""
        for sock in self._of_host(name):
            sock._forget()
            sock.close()

    def power_loss(self, name: str) -> None:
        """The host is gone without closing connections: its peers notice only when it is back and does not know
        them."""
        self._dark.setdefault(name)
        for sock in self._of_host(name):
            sock._forget()
            sock._vanish()

    def power_on(self, name: str) -> None:
        self._dark.pop(name, None)

    def is_dark(self, name: str) -> bool:
        return name in self._dark

    def _of_host(self, name: str) -> list[Socket]:
        return [sock for sock in self._sockets.values() if sock.local[0] == name]

    # What sockets use

    def delay(self, source: str = "", target: str = "") -> float:
        delay_s = self.rng.uniform(*self.weather.delay_s)
        slow_s = self._slow.get((source, target))
        return delay_s if slow_s is None else delay_s + self.rng.uniform(0.0, slow_s)

    def some_of(self, size: int) -> int:
        """How many of size bytes this call moves."""
        if size > 1 and self.rng.random() < self.weather.partial_probability:
            return self.rng.randint(1, size - 1)
        return size

    def at(self, when: float, callback: Callable[..., object], *args: object) -> None:
        """Schedule for the network itself: outlives the process that caused it."""
        self.loop.call_at(when, callback, *args, context=self.loop.neutral)

    def new_fd(self, sock: Socket) -> int:
        if self._free_fds:
            fd = heapq.heappop(self._free_fds)  # the lowest free number, as the kernel does: stale maps by fd show
        else:
            fd, self._next_fd = self._next_fd, self._next_fd + 1
        self._sockets[fd] = sock
        return fd

    def free_fd(self, fd: int) -> None:
        del self._sockets[fd]
        self.loop.set_readable(fd, False)
        self.loop.set_writable(fd, False)
        heapq.heappush(self._free_fds, fd)

    def new_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def listener(self, address: Address) -> Socket | None:
        return self._listeners.get(address)

    def bind(self, address: Address, sock: Socket) -> None:
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._listeners[address] = sock

    def unbind(self, address: Address) -> None:
        self._listeners.pop(address, None)


class Sockets:
    """The port `ottla.net.Sockets` as one simulated host sees it."""

    supports_sendfile = False

    def __init__(self, network: Network, host: str) -> None:
        self._network = network
        self.host = host

    def listen(self, host: str, port: int, backlog: int = 128) -> Socket:
        name = self.host if host in LOCAL_NAMES else host
        if name != self.host:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        sock = Socket(self._network, (self.host, port or self._network.new_port()))
        try:
            sock._listen(backlog)
        except OSError:
            sock.close()
            raise
        return sock

    def is_name(self, host: str) -> bool:
        return False

    async def look_up(self, host: str) -> str:
        return host

    async def addresses(self, host: str) -> list[str]:
        return [host]

    def connect(self, host: str, port: int) -> Socket:
        """Non-blocking: the socket turns writable when the connection is open or failed (SO_ERROR has the result)."""
        name = self.host if host in LOCAL_NAMES else host
        sock = Socket(self._network, (self.host, self._network.new_port()))
        sock._connect((name, port))
        return sock


class Socket:
    """One end of a simulated TCP connection, or a listening socket; always non-blocking."""

    family = stdlib_socket.AF_INET
    type = stdlib_socket.SOCK_STREAM

    def __init__(self, network: Network, local: Address) -> None:
        self._network = network
        self._loop = network.loop
        self.local = local
        self.remote: Address | None = None
        self._fd = network.new_fd(self)
        self._peer: Socket | None = None
        self._error = 0
        self._is_connecting = False
        self._is_listening = False
        self._accepting: deque[Socket] = deque()
        self._backlog = 0
        # this direction's segments on their way to the peer; None is the FIN
        self._arrives_at = 0.0
        self._in_flight_bytes = 0
        self._segments: deque[bytes | None] = deque()
        self._held: deque[bytes | None] = deque()
        self._is_write_closed = False
        # what arrived and was not read
        self._received = bytearray()
        self._is_ended = False
        self._is_vanished = False

    def __repr__(self) -> str:
        return f"<sim.Socket fd={self._fd} {self.local} -> {self.remote}>"

    # What socket.socket offers and the net layer uses

    def fileno(self) -> int:
        return self._fd

    def setblocking(self, flag: bool) -> None:
        assert not flag, "simulated sockets never block"

    def setsockopt(self, *args: object) -> None:
        self._check_open()

    def getsockopt(self, level: int, option: int, buflen: int = 0) -> int:
        self._check_open()
        if (level, option) == (stdlib_socket.SOL_SOCKET, stdlib_socket.SO_ERROR):
            return self._error
        return self._network.weather.buffer_bytes

    def getsockname(self) -> Address:
        self._check_open()
        return self.local

    def getpeername(self) -> Address:
        self._check_open()
        if self.remote is None or self._is_connecting:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self.remote

    def accept(self) -> tuple[Socket, Address]:
        self._check_open()
        if not self._accepting:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        sock = self._accepting.popleft()
        self._update()
        assert sock.remote is not None
        return sock, sock.remote

    def recv_into(self, buffer: Any, nbytes: int = 0, /) -> int:
        self._check_readable()
        view = memoryview(buffer).cast("B")
        size = min(len(view), nbytes or len(view))
        data = self._take(size)
        view[: len(data)] = data
        return len(data)

    def recv(self, size: int, /) -> bytes:
        self._check_readable()
        return self._take(size)

    def send(self, data: Any, /) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, /) -> int:
        self._check_open()
        if self._is_connecting:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if self._error:
            error, self._error = self._error, errno.EPIPE
            raise _failure(error)
        if self._is_write_closed:
            raise _failure(errno.EPIPE)
        if self.remote is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        data = b"".join(bytes(memoryview(buffer).cast("B")) for buffer in buffers)
        if not data:
            return 0
        room = self._room()
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = data[: self._network.some_of(min(room, len(data)))]
        self._in_flight_bytes += len(data)
        self._send_segment(data)
        self._update()
        return len(data)

    def shutdown(self, how: int) -> None:
        self._check_open()
        if self.remote is None or self._is_connecting:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if how in (stdlib_socket.SHUT_WR, stdlib_socket.SHUT_RDWR) and not self._is_write_closed:
            self._is_write_closed = True
            self._send_segment(None)
        if how in (stdlib_socket.SHUT_RD, stdlib_socket.SHUT_RDWR):
            self._is_ended = True
            self._update()

    def close(self) -> None:
        if self._fd < 0:
            return
        assert not self._loop.is_registered(self._fd), f"{self!r} closed while the loop still watches it"
        if self._is_listening:
            self._network.unbind(self.local)
            while self._accepting:
                self._accepting.popleft().close()
        unread = bool(self._received)
        self._network.free_fd(self._fd)
        self._fd = -1
        if self._peer is not None and not self._error:
            if unread:
                self._send_reset()  # as in Linux, a peer is notified if its bytes were not read
            elif not self._is_write_closed:
                self._is_write_closed = True
                self._send_segment(None)

    # Connecting

    def _listen(self, backlog: int) -> None:
        self._network.bind(self.local, self)
        self._is_listening = True
        self._backlog = max(1, backlog)

    def _connect(self, address: Address) -> None:
        self.remote = address
        self._is_connecting = True
        self._network.at(self._loop.time() + self._network.delay(), self._syn)

    def _syn(self) -> None:
        if self._fd < 0:
            return
        assert self.remote is not None
        network, there = self._network, self.remote[0]
        is_unreachable = network.is_cut(self.local[0], there) or network.is_cut(there, self.local[0])
        listener = network.listener(self.remote)
        if is_unreachable or network.is_dark(there) or (listener and len(listener._accepting) >= listener._backlog):
            network.at(self._loop.time() + 1.0, self._syn)  # the kernel sends its SYN again
        elif listener is None:
            self._error = errno.ECONNREFUSED
            self._is_connecting = False
            self._update()
        else:
            peer = Socket(network, self.remote)
            peer.remote = self.local
            peer._peer, self._peer = self, peer
            peer._update()
            listener._accepting.append(peer)
            listener._update()
            network.at(self._loop.time() + network.delay(), self._established)

    def _established(self) -> None:
        self._is_connecting = False
        self._update()

    # Segments

    def _room(self) -> int:
        peer = self._peer
        return self._network.weather.buffer_bytes - self._in_flight_bytes - (len(peer._received) if peer else 0)

    def _send_segment(self, data: bytes | None) -> None:
        assert self.remote is not None
        delay_s = self._network.delay(self.local[0], self.remote[0])
        self._arrives_at = max(self._arrives_at, self._loop.time() + delay_s)
        self._segments.append(data)
        self._network.at(self._arrives_at, self._arrive)

    def _arrive(self) -> None:
        assert self.remote is not None
        data = self._segments.popleft()  # timers of one moment may fire in any order, segments may not
        if self._held or self._network.is_cut(self.local[0], self.remote[0]):
            self._held.append(data)
            self._network.holding[self] = None
        else:
            self._deliver(data)

    def _release_held(self) -> None:
        while self._held:
            self._deliver(self._held.popleft())

    def _deliver(self, data: bytes | None) -> None:
        peer, self._in_flight_bytes = self._peer, self._in_flight_bytes - len(data or b"")
        if peer is None or self._is_vanished or self._error:
            return
        if peer._is_vanished:
            if not self._network.is_dark(peer.local[0]):
                self._network.at(self._loop.time() + self._network.delay(), self._break, errno.ECONNRESET)
        elif peer._fd < 0:
            if data is not None:
                self._network.at(self._loop.time() + self._network.delay(), self._break, errno.ECONNRESET)
        elif data is None:
            peer._is_ended = True
            peer._update()
        else:
            self._network.delivered_count += 1
            self._loop.trace.note(
                "network", f"{self.local[0]}:{self.local[1]} -> {peer.local[0]}:{peer.local[1]} {len(data)}"
            )
            peer._received += data
            peer._update()
        self._update()

    def _send_reset(self) -> None:
        peer = self._peer
        if peer is not None:
            self._arrives_at = max(self._arrives_at, self._loop.time() + self._network.delay())
            self._network.at(self._arrives_at, peer._break, errno.ECONNRESET)

    def _break(self, error: int) -> None:
        if self._fd >= 0 and not self._is_listening:
            self._error = error
            self._received.clear()
            self._update()

    def _vanish(self) -> None:
        if self._is_listening:
            self._network.unbind(self.local)
            for sock in self._accepting:
                sock._vanish()
        self._is_vanished = True
        if self._fd >= 0:
            self._network.free_fd(self._fd)
            self._fd = -1

    def _forget(self) -> None:
        """The process is dead: its loop registrations die with it."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)

    # Reading

    def _check_open(self) -> None:
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _check_readable(self) -> None:
        self._check_open()
        if self._error and not self._is_ended:
            self._is_ended = True  # reported once; then the socket reads as ended
            raise _failure(self._error)
        if not self._received and not self._is_ended:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _take(self, size: int) -> bytes:
        count = self._network.some_of(min(size, len(self._received)))
        data = bytes(self._received[:count])
        del self._received[:count]
        self._update()
        if self._peer is not None:
            self._peer._update()
        return data

    def _update(self) -> None:
        """Tell the loop what epoll would now report."""
        if self._fd < 0:
            return
        if self._is_listening:
            self._loop.set_readable(self._fd, bool(self._accepting))
            return
        self._loop.set_readable(self._fd, bool(self._received or self._is_ended or self._error))
        is_up = self._peer is not None and not self._is_connecting
        self._loop.set_writable(self._fd, bool(self._error) or (is_up and self._room() > 0))


def _failure(error: int) -> OSError:
    return OSError(error, os.strerror(error))  # OSError picks ConnectionResetError, BrokenPipeError, ... by itself
