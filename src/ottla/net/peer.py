"""A connection to another node: requests out, answers in, each to whoever asked.

A new connection first asks which versions the other side knows: during a rolling upgrade, or among brokers of another
make, they differ. What is sent meanwhile waits for that answer, and each request goes out in the newest version that
both know.

An answer is handed over as soon as it is decoded, while its bytes are still in the receive buffer: what is to be kept,
the receiver copies. A connection that breaks tells everyone who waits; the next request makes a new one.

Cython compiles this file (types in peer.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ottla.net.channel import Channel, ReceiveBuffers
from ottla.net.deadlines import Deadline, Deadlines
from ottla.net.sockets import Sockets
from ottla.wire import Message, WireError, decode, decoder, frames
from ottla.wire.apis import API_VERSIONS, APIS, response_class
from ottla.wire.greeting import Greeting, Versions
from ottla.wire.messages.api_versions import ApiVersionsResponse

log = logging.getLogger("ottla.net")

MAX_ANSWER_BYTES = 256 * 1024 * 1024
API_VERSIONS_VERSION = 3
"""Every release with KRaft answers it."""
HANDSHAKE_ID = 0


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is none. `is_closed`: the other side closed or refused the connection."""

    is_closed: bool


OnAnswer = Callable[[Message | NoAnswer], None]


class EncodedRequest:
    """A request whose bytes are made already, in the version that the other side most likely knows. The answer goes to
    `on_frame` first: a message is made of it only if that does not take it. With a side that knows only older versions
    both are messages as always."""

    __slots__ = ("body", "message_class", "on_frame", "version")

    def __init__(
        self, message_class: type[Message], version: int, body: bytes, on_frame: Callable[[memoryview], bool]
    ) -> None:
        self.message_class = message_class
        self.version = version
        self.body = body
        self.on_frame = on_frame


class _Waiting:
    __slots__ = ("api_key", "on_answer", "on_frame", "request", "timer", "version")

    def __init__(self, request: Message | EncodedRequest, api_key: int, on_answer: OnAnswer, timer: Deadline) -> None:
        self.request: Message | EncodedRequest | None = request
        """None once it is sent."""
        self.api_key = api_key
        self.version = -1
        self.on_answer = on_answer
        self.on_frame: Callable[[memoryview], bool] | None = None
        self.timer = timer


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
        self._deadlines = Deadlines(loop)
        self._connection: _Connection | None = None
        self._correlation_id = 0

    def send(self, request: Message | EncodedRequest, on_answer: OnAnswer, *, timeout_ms: int) -> None:
        """Send a request in the newest version that both sides know. `on_answer` is called once, never from in here."""
        connection = self._connection
        if connection is None or connection.is_closed:
            try:
                sock = self._sockets.connect(self._host, self._port)
            except OSError as error:
                # A name that cannot be found, no route or no descriptor left say nothing of the other side.
                is_refused = isinstance(error, ConnectionError)
                self._loop.call_soon(on_answer, NoAnswer(is_closed=is_refused))
                return
            channel = Channel(
                self._loop,
                sock,
                self._buffers,
                max_frame_bytes=MAX_ANSWER_BYTES,
                supports_sendfile=self._sockets.supports_sendfile,
            )
            connection = self._connection = _Connection(
                channel, self._loop, self._deadlines, self._client_id, self._address
            )
        self._correlation_id = self._correlation_id % 0x7FFFFFFF + 1
        connection.ask(self._correlation_id, request, on_answer, timeout_ms)

    @property
    def _address(self) -> str:
        return f"{self._host}:{self._port}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._deadlines.close()


class _Connection:
    def __init__(
        self,
        channel: Channel,
        loop: asyncio.AbstractEventLoop,
        deadlines: Deadlines,
        client_id: str,
        address: str,
    ) -> None:
        self._channel = channel
        self._loop = loop
        self._deadlines = deadlines
        self._client_id = client_id
        self._address = address
        self._versions: dict[int, int] | None = None
        """By API, the version to use; None until the other side has said what it knows."""
        self._waiting: dict[int, _Waiting] = {}
        channel.start(self)
        self._channel.send(
            frames.encode_request(API_VERSIONS, API_VERSIONS_VERSION, HANDSHAKE_ID, client_id, Greeting().request)
        )

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    def ask(self, id: int, request: Message | EncodedRequest, on_answer: OnAnswer, timeout_ms: int) -> None:
        message_class = request.message_class if isinstance(request, EncodedRequest) else type(request)
        api_key = message_class.__schema__.api_key
        assert api_key is not None
        if self.is_closed:  # the connection was refused
            self._loop.call_soon(on_answer, NoAnswer(is_closed=True))
            return
        timer = self._deadlines.call_later(timeout_ms / 1000, self._time_out, id)
        waiting = self._waiting[id] = _Waiting(request, api_key, on_answer, timer)
        if self._versions is not None:
            self._send(id, waiting, self._versions)

    def _send(self, id: int, waiting: _Waiting, versions: dict[int, int]) -> None:
        request, waiting.request = waiting.request, None
        assert request is not None
        version = versions.get(waiting.api_key)
        try:
            if version is None:
                raise WireError("it knows no version of it that this node knows, too")
            sent: Message | bytes
            if not isinstance(request, EncodedRequest):
                sent = request
            elif version == request.version:
                sent = request.body
                waiting.on_frame = request.on_frame
            else:
                sent = decode(request.message_class, request.version, request.body)
            parts = frames.encode_request(waiting.api_key, version, id, self._client_id, sent)
        except WireError as error:
            kind = request.message_class if isinstance(request, EncodedRequest) else type(request)
            log.warning("%s is not sent to %s: %s", kind.__name__, self._address, error)
            del self._waiting[id]
            waiting.timer.cancel()
            self._loop.call_soon(waiting.on_answer, NoAnswer(is_closed=False))
            return
        waiting.version = version
        self._channel.send(parts)

    def close(self) -> None:
        self._channel.close()

    def frame_received(self, frame: memoryview) -> None:
        try:
            correlation_id = int.from_bytes(frame[:4], "big")
            if correlation_id == HANDSHAKE_ID:
                self._take_versions(frame)
                return
            waiting = self._waiting.pop(correlation_id, None)
            if waiting is None:
                return  # its time was up
            waiting.timer.cancel()
            if waiting.on_frame is not None and waiting.on_frame(frame):
                return
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

    def _take_versions(self, frame: memoryview) -> None:
        _, position = frames.decode_response_header(frame, API_VERSIONS, API_VERSIONS_VERSION)
        response = decoder(ApiVersionsResponse, API_VERSIONS_VERSION)(frame, position)[0]
        if response.error_code:
            raise WireError(f"ApiVersions was refused with {response.error_code}")
        versions = Versions.of(response)
        chosen = {api.key: versions.choose(api.key, api.max_version) for api in APIS.values()}
        self._versions = {api_key: version for api_key, version in chosen.items() if version is not None}
        for id, waiting in list(self._waiting.items()):
            self._send(id, waiting, self._versions)

    def channel_closed(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.timer.cancel()
            self._loop.call_soon(one.on_answer, NoAnswer(is_closed=True))

    def _time_out(self, correlation_id: int) -> None:
        """A connection on which an answer is overdue is not used again: its answers come in order."""
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is not None:
            waiting.on_answer(NoAnswer(is_closed=False))
            self._channel.close()
