"""Accepts connections on one address, within Kafka's limits, and ends those that have been idle for too long.

On a listener with TLS a connection first has its handshake, beside all others: it counts as a connection, must end
within HANDSHAKE_S, and its costly steps run in threads.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable

from ottla.net.channel import Channel, FrameReceiver, FrameTooLarge, ReceiveBuffers
from ottla.net.sockets import ListenSocket, Socket, Sockets
from ottla.net.tls import Handshake, HandshakeTurns, TlsSocket

log = logging.getLogger("ottla.net")

HANDSHAKE_S = 10.0
"""A TLS handshake that takes longer is ended."""
ACCEPTS_PER_TURN = 64
IDLE_SWEEP_S = 15.0
OUT_OF_DESCRIPTORS_PAUSE_S = 0.2


TLS_HANDSHAKE_RECORD = 0x1603
"""The first bytes of a TLS client, as a frame's length."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNEXPECTED_MESSAGE", "NOT_SSL_RECORD")
_NO_TLS_RECORD = ("PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "BAD_RECORD_TYPE", "RECORD_TOO_SMALL")


class ConnectionRefused(Exception):
    """Raised by `accept`: the connection is closed for this reason."""


class NodeConnections:
    """The connections of all listeners of a node, which share one limit (Kafka's max.connections). The listener for
    other brokers is protected: beyond the limit it still accepts, and the longest idle connection of another listener
    is closed.
    """

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self.listeners: list[Listener] = []

    def has_room(self, listener: Listener) -> bool:
        if sum(one.connection_count for one in self.listeners) < self.max_connections:
            return True
        if listener.is_protected:
            others = [channel for one in self.listeners if one is not listener for channel in one.channels]
            if others:
                min(others, key=_active_at).close()
            return True
        return False


def _active_at(channel: Channel) -> float:
    return channel.active_at


class Listener:
    """`accept(channel, host, port, tls)` makes the receiver of a new connection; `tls` is None without TLS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sockets,
        accept: Callable[[Channel, str, int, TlsSocket | None], FrameReceiver],
        *,
        max_frame_bytes: int,
        max_connections: int,
        max_connections_per_ip: int,
        idle_ms: int,
        buffers: ReceiveBuffers | None = None,
        hold_ms: Callable[[str], int] = lambda host: 0,
        pause_ms: Callable[[], int] = lambda: 0,
        node: NodeConnections | None = None,
        name: str = "",
        is_protected: bool = False,
        tls: ssl.SSLContext | None = None,
        on_refused: Callable[[str, str], None] = lambda host, reason: None,
    ) -> None:
        """`on_refused(host, reason)`: a TLS handshake failed, or `accept` refused a connection.
        `hold_ms(host)`: how long a connection that comes too soon is held before it is closed, 0 to take it.
        `pause_ms()`: asked for each connection: how long it and those after it wait."""
        self.name = name
        self.is_protected = is_protected
        self.tls = tls
        """The TLS context of new connections; replaced when a key store is loaded again."""
        self._turns = HandshakeTurns(loop)
        self._handshakes: dict[Handshake, tuple[Socket, str]] = {}
        self._node = node if node is not None else NodeConnections(max_connections)
        self._node.listeners.append(self)
        self._pause_ms = pause_ms
        self._loop = loop
        self._sockets = sockets
        self._accept = accept
        self._on_refused = on_refused
        self._max_frame_bytes = max_frame_bytes
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.connections_per_ip: dict[str, int] = {}
        """Limits of single addresses."""
        self._idle_ms = idle_ms
        self._hold_ms = hold_ms
        self._held = 0
        self._late: tuple[Socket, str, int] | None = None
        """The connection that arrived too soon, its host and port: it is accepted when the pause is over."""
        self._buffers = buffers if buffers is not None else ReceiveBuffers()
        self._listening: ListenSocket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.channels: dict[Channel, str] = {}
        self._per_ip: dict[str, int] = {}
        self.accepted = 0
        self.refused = 0

    def open(self, host: str, port: int, backlog: int = 1024) -> int:
        """Listen on the address. Returns the real port (0 asks for any). Clients wait in the backlog."""
        self._listening = self._sockets.listen(host, port, backlog)
        taken: int = self._listening.getsockname()[1]
        return taken

    def start_accepting(self) -> None:
        assert self._listening is not None
        self._loop.add_reader(self._listening, self._acceptable)
        self._sweep = self._loop.call_later(IDLE_SWEEP_S, self._end_idle)

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
            if self._late is not None:
                self._late[0].close()
                self._late = None

    def close(self) -> None:
        self.stop_accepting()
        if self._sweep is not None:
            self._sweep.cancel()
        for handshake, (sock, host) in list(self._handshakes.items()):
            handshake.cancel()
            self._drop(handshake, sock, host)
        for channel in list(self.channels):
            channel.close()

    def _acceptable(self) -> None:
        assert self._listening is not None
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    # Out of descriptors: open connections continue; new ones wait in the backlog.
                    self._pause(OUT_OF_DESCRIPTORS_PAUSE_S)
                    return
                raise
            host = address[0]
            allowed = self.connections_per_ip.get(host, self.max_connections_per_ip)
            if (
                self.connection_count >= self.max_connections
                or self._per_ip.get(host, 0) >= allowed
                or not self._node.has_room(self)
            ):
                self.refused += 1
                sock.close()
                continue
            hold_ms = self._hold_ms(host)
            if hold_ms:
                self.refused += 1
                self._held += 1
                self._loop.call_later(hold_ms / 1000, self._let_go, sock)
                continue
            pause_ms = self._pause_ms()
            if pause_ms:
                # More often than max.connection.creation.rate: this one waits, and the others in the backlog.
                self._late = sock, host, address[1]
                self._pause(pause_ms / 1000)
                return
            self._admit(sock, host, address[1])

    def _admit(self, sock: Socket, host: str, port: int) -> None:
        self.accepted += 1
        self._per_ip[host] = self._per_ip.get(host, 0) + 1
        if self.tls is None:
            self._take(sock, host, port, None)
        else:
            self._shake(sock, host, port, self.tls)

    @property
    def connection_count(self) -> int:
        """Connections that are open, in their handshake or held, and the late one."""
        return len(self.channels) + len(self._handshakes) + self._held + (self._late is not None)

    def _take(self, sock: Socket, host: str, port: int, tls: TlsSocket | None) -> None:
        channel = Channel(
            self._loop,
            sock if tls is None else tls,
            self._buffers,
            max_frame_bytes=self._max_frame_bytes,
            supports_sendfile=self._sockets.supports_sendfile and tls is None,
        )
        try:
            receiver = self._accept(channel, host, port, tls)
        except ConnectionRefused as refusal:
            log.info("listener %s: closing the connection of %s: %s", self.name, host, refusal)
            self._on_refused(host, str(refusal))
            self._uncount(host)
            (sock if tls is None else tls).close()
            return
        self.channels[channel] = host
        channel.start(_Counted(self, channel, receiver))

    def _shake(self, sock: Socket, host: str, port: int, context: ssl.SSLContext) -> None:
        tls = TlsSocket(sock, context, is_server=True)

        def done(error: OSError | None) -> None:
            if error is None:
                del self._handshakes[handshake]
                self._take(sock, host, port, tls)
            else:
                self._explain(host, error)
                self.refused += 1
                self._drop(handshake, sock, host)

        handshake = Handshake(self._loop, self._turns, sock, tls, done, HANDSHAKE_S, begins=False)
        self._handshakes[handshake] = (sock, host)

    def _drop(self, handshake: Handshake, sock: Socket, host: str) -> None:
        del self._handshakes[handshake]
        self._uncount(host)
        sock.close()

    def _explain(self, host: str, error: OSError) -> None:
        if isinstance(error, TimeoutError):
            reason = f"the TLS handshake was not done within {HANDSHAKE_S:.0f} s"
        elif not isinstance(error, ssl.SSLError):
            log.debug("listener %s: %s ended its connection in the TLS handshake", self.name, host)
            return
        elif error.reason in _NO_TLS or error.reason in _NO_TLS_RECORD:
            reason = f"this listener speaks TLS, and the client does not ({error.reason})"
        elif isinstance(error, ssl.SSLCertVerificationError):
            reason = f"the client's certificate is refused: {error.verify_message}"
        else:
            reason = f"the TLS handshake failed: {error.reason or error}"
        log.info("listener %s: closing the connection of %s: %s", self.name, host, reason)
        self._on_refused(host, reason)

    def _pause(self, seconds: float) -> None:
        assert self._listening is not None
        self._loop.remove_reader(self._listening)
        self._loop.call_later(seconds, self._listen_again)

    def _let_go(self, sock: Socket) -> None:
        self._held -= 1
        sock.close()

    def _listen_again(self) -> None:
        if self._listening is not None:
            late, self._late = self._late, None
            if late is not None:
                self._admit(*late)
            self._loop.add_reader(self._listening, self._acceptable)

    def _end_idle(self) -> None:
        self._sweep = self._loop.call_later(IDLE_SWEEP_S, self._end_idle)
        if self._idle_ms < 0:
            return
        oldest = self._loop.time() - self._idle_ms / 1000
        for channel in [channel for channel in self.channels if channel.active_at < oldest]:
            channel.close()

    def forget(self, channel: Channel) -> None:
        host = self.channels.pop(channel, None)
        if host is None:
            return
        self._uncount(host)
        error = channel.error
        if isinstance(error, FrameTooLarge):
            reason = f"it sent {error}"
            if error.size >> 16 == TLS_HANDSHAKE_RECORD and self.tls is None:
                reason = "it speaks TLS, and this listener does not"
            log.info("listener %s: closed the connection of %s: %s", self.name, host, reason)

    def _uncount(self, host: str) -> None:
        left = self._per_ip[host] - 1
        if left:
            self._per_ip[host] = left
        else:
            del self._per_ip[host]


class _Counted:
    """Wraps a receiver, and removes its channel from the listener's count when the channel closes."""

    __slots__ = ("_channel", "_listener", "_receiver", "frame_received")

    def __init__(self, listener: Listener, channel: Channel, receiver: FrameReceiver) -> None:
        self._listener = listener
        self._channel = channel
        self._receiver = receiver
        self.frame_received = receiver.frame_received

    def channel_closed(self) -> None:
        self._listener.forget(self._channel)
        self._receiver.channel_closed()
