"""Accepts connections on one address, within Kafka's limits, and ends those that have been idle for too long."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from ottla.net.channel import Channel, FrameReceiver, ReceiveBuffers
from ottla.net.sockets import ListenSocket, Socket, Sockets

ACCEPTS_PER_TURN = 64
IDLE_SWEEP_S = 15.0
OUT_OF_DESCRIPTORS_PAUSE_S = 0.2


class Listener:
    """`accept(channel, host, port)` makes the receiver of a new connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sockets,
        accept: Callable[[Channel, str, int], FrameReceiver],
        *,
        max_frame_bytes: int,
        max_connections: int,
        max_connections_per_ip: int,
        idle_ms: int,
        buffers: ReceiveBuffers | None = None,
        hold_ms: Callable[[str], int] = lambda host: 0,
    ) -> None:
        """`hold_ms(host)`: how long a connection that comes too soon is held before it is closed, 0 to take it."""
        self._loop = loop
        self._sockets = sockets
        self._accept = accept
        self._max_frame_bytes = max_frame_bytes
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.connections_per_ip: dict[str, int] = {}
        """Addresses that may have more or fewer connections than others."""
        self._idle_ms = idle_ms
        self._hold_ms = hold_ms
        self._held = 0
        self._buffers = buffers if buffers is not None else ReceiveBuffers()
        self._listening: ListenSocket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.channels: dict[Channel, str] = {}
        self._per_ip: dict[str, int] = {}
        self.accepted = 0
        self.refused = 0

    def open(self, host: str, port: int, backlog: int = 1024) -> int:
        """Take the address; the port is the one that was really taken (0 asks for any). Clients wait in the backlog."""
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

    def close(self) -> None:
        self.stop_accepting()
        if self._sweep is not None:
            self._sweep.cancel()
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
                    # Out of descriptors: those who are connected go on; new ones wait in the backlog.
                    self._loop.remove_reader(self._listening)
                    self._loop.call_later(OUT_OF_DESCRIPTORS_PAUSE_S, self._listen_again)
                    return
                raise
            host = address[0]
            allowed = self.connections_per_ip.get(host, self.max_connections_per_ip)
            if len(self.channels) + self._held >= self.max_connections or self._per_ip.get(host, 0) >= allowed:
                self.refused += 1
                sock.close()
                continue
            hold_ms = self._hold_ms(host)
            if hold_ms:
                self.refused += 1
                self._held += 1
                self._loop.call_later(hold_ms / 1000, self._let_go, sock)
                continue
            self.accepted += 1
            channel = Channel(
                self._loop,
                sock,
                self._buffers,
                max_frame_bytes=self._max_frame_bytes,
                supports_sendfile=self._sockets.supports_sendfile,
            )
            self.channels[channel] = host
            self._per_ip[host] = self._per_ip.get(host, 0) + 1
            channel.start(_Counted(self, channel, self._accept(channel, host, address[1])))

    def _let_go(self, sock: Socket) -> None:
        self._held -= 1
        sock.close()

    def _listen_again(self) -> None:
        if self._listening is not None:
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
        if host is not None:
            left = self._per_ip[host] - 1
            if left:
                self._per_ip[host] = left
            else:
                del self._per_ip[host]


class _Counted:
    """A receiver whose channel is taken off the listener's books when it closes."""

    __slots__ = ("_channel", "_listener", "_receiver", "frame_received")

    def __init__(self, listener: Listener, channel: Channel, receiver: FrameReceiver) -> None:
        self._listener = listener
        self._channel = channel
        self._receiver = receiver
        self.frame_received = receiver.frame_received

    def channel_closed(self) -> None:
        self._listener.forget(self._channel)
        self._receiver.channel_closed()
