"""A connection to another node: requests out, answers in, each to whoever asked.

An answer is handed over as soon as it is decoded, while its bytes are still in the receive buffer: what is to be kept,
the receiver copies. A connection that breaks tells everyone who waits; the next request makes a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ottla.net.channel import Channel, ReceiveBuffers
from ottla.net.sockets import Sockets
from ottla.wire import Message, WireError, decoder, frames
from ottla.wire.apis import APIS, response_class

MAX_ANSWER_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is none. `is_closed`: the other side closed or refused the connection."""

    is_closed: bool


OnAnswer = Callable[[Message | NoAnswer], None]


@dataclass(slots=True)
class _Waiting:
    api_key: int
    version: int
    on_answer: OnAnswer
    timer: asyncio.TimerHandle


class Peer:
    """One other node, by its address."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sockets,
        buffers: ReceiveBuffers,
        host: str,
        port: int,
        *,
        client_id: str,
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._buffers = buffers
        self._host, self._port = host, port
        self._client_id = client_id
        self._connection: _Connection | None = None
        self._correlation_id = 0

    def send(self, request: Message, on_answer: OnAnswer, *, timeout_ms: int, version: int | None = None) -> None:
        """Send a request in its latest version, or in this one. `on_answer` is called once, never from in here."""
        api_key = type(request).__schema__.api_key
        assert api_key is not None
        if version is None:
            version = APIS[api_key].max_version
        connection = self._connection
        if connection is None or connection.is_closed:
            try:
                sock = self._sockets.connect(self._host, self._port)
            except OSError:
                self._loop.call_soon(on_answer, NoAnswer(is_closed=True))
                return
            connection = self._connection = _Connection(
                Channel(
                    self._loop,
                    sock,
                    self._buffers,
                    max_frame_bytes=MAX_ANSWER_BYTES,
                    supports_sendfile=self._sockets.supports_sendfile,
                ),
                self._loop,
            )
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        id = self._correlation_id
        timer = self._loop.call_later(timeout_ms / 1000, connection.time_out, id)
        connection.waiting[id] = _Waiting(api_key, version, on_answer, timer)
        connection.send(frames.encode_request(api_key, version, id, self._client_id, request))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection:
    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self._channel = channel
        self._loop = loop
        self.waiting: dict[int, _Waiting] = {}
        channel.start(self)

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    def send(self, parts: list[bytes]) -> None:
        self._channel.send(parts)

    def close(self) -> None:
        self._channel.close()

    def frame_received(self, frame: memoryview) -> None:
        try:
            correlation_id = int.from_bytes(frame[:4], "big")
            waiting = self.waiting.pop(correlation_id, None)
            if waiting is None:
                return  # its time was up
            waiting.timer.cancel()
            try:
                _, position = frames.decode_response_header(frame, waiting.api_key, waiting.version)
                response = decoder(response_class(waiting.api_key), waiting.version)(frame, position)[0]
            except WireError:
                waiting.on_answer(NoAnswer(is_closed=False))
                raise
        except WireError:
            self._channel.close()
            return
        waiting.on_answer(response)

    def channel_closed(self) -> None:
        waiting, self.waiting = self.waiting, {}
        for one in waiting.values():
            one.timer.cancel()
            self._loop.call_soon(one.on_answer, NoAnswer(is_closed=True))

    def time_out(self, correlation_id: int) -> None:
        """A connection on which an answer is overdue is not used again: its answers come in order."""
        waiting = self.waiting.pop(correlation_id, None)
        if waiting is not None:
            waiting.on_answer(NoAnswer(is_closed=False))
            self._channel.close()
