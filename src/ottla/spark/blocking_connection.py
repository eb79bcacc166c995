"""One connection to a broker that waits in place: requests out, each answer to the request it belongs to.

It stands on the port `net.Blocking`, whose sockets are those of the house's other connections: the simulator hands in
its own, and the same code runs there.

A Spark worker does one thing at a time, so nothing here waits in a loop: `send` puts a request on the way and returns a
ticket, `receive` blocks for the answer of that ticket. Several requests may be under way, which is how the next fetch
travels while the last one is decoded. An answer that arrives before the one a caller waits for is kept for its own
ticket, so no caller can take an answer of another request.

All answers of a connection are read into one buffer that grows as needed: what an answer holds of it (records) is good
until the next `receive`. So a connection with requests under way is lent to one conversation (`BlockingCluster.lend`).
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from math import inf
from struct import Struct
from typing import Any, NamedTuple

from ottla.client.config import ClientConfig
from ottla.client.connection import MAX_FRAME_BYTES, MAX_LOGIN_FRAME_BYTES
from ottla.client.errors import KafkaError, NetworkError, RequestTimedOut, UnsupportedByBroker, check_error
from ottla.net import Socket
from ottla.net.blocking import OS_BLOCKING, Blocking, dial_in_place, fill, send_all
from ottla.wire import Message, WireError
from ottla.wire.apis import API_VERSIONS, APIS
from ottla.wire.frames import encode_request
from ottla.wire.greeting import Greeting, Versions, decode_answer
from ottla.wire.messages.api_versions import ApiVersionsResponse

_SIZE = Struct(">i")
RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
"""The bytes that the kernel may buffer while the last answer is decoded: a whole fetch."""
FIRST_FRAME_BYTES = 64 * 1024
TRUSTED_FRAME_BYTES = 1024 * 1024
"""Room for a frame of up to this size is made at once: a first fetch, without copying it as its room grows."""


class _Asked(NamedTuple):
    """A request whose answer is under way."""

    ticket: int
    """Its correlation id."""
    api_key: int
    version: int


class BlockingConnection:
    """A connection with the broker's versions; NetworkError if none can be made within the limit."""

    def __init__(
        self,
        host: str,
        port: int,
        config: ClientConfig,
        limit_seconds: float = inf,
        *,
        blocking: Blocking = OS_BLOCKING,
    ) -> None:
        self.host = host
        self.port = port
        self.versions = Versions()
        self.is_closed = False
        self._config = config
        self._blocking = blocking
        self._waiting: deque[_Asked] = deque()
        """The requests under way, the oldest first: a broker answers in the order of the requests."""
        self._early: dict[int, Any] = {}
        """Answers that arrived before their caller asked for them, by ticket."""
        self._correlation_id = 0
        self._max_frame_bytes = MAX_LOGIN_FRAME_BYTES
        self._buffer = bytearray(FIRST_FRAME_BYTES)
        self._size = memoryview(bytearray(4))
        setup_seconds = min(config.socket_connection_setup_timeout_ms / 1000, limit_seconds)
        try:
            self._socket = dial_in_place(blocking, host, port, setup_seconds)
        except OSError as error:
            raise NetworkError(f"cannot connect to {host}:{port}: {error}") from error
        try:
            with suppress(OSError):  # a connection that has just ended; the next request reports it
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            self._socket = self._secure(self._socket, setup_seconds)
            self.limit(limit_seconds)
            self._negotiate()
            self._log_in()
            self._max_frame_bytes = MAX_FRAME_BYTES
        except BaseException:
            self.close()
            raise

    def _secure(self, plain: Socket, setup_seconds: float) -> Socket:
        """The socket that requests go through."""
        return plain

    def _log_in(self) -> None:
        """Authenticate, if the listener requires it."""

    def _negotiate(self) -> None:
        greeting = Greeting()
        versions = None
        while versions is None:
            ticket = self._write(API_VERSIONS, greeting.version, greeting.request)
            response: ApiVersionsResponse = self.receive(ticket)
            versions = greeting.handle(response)
        check_error(response.error_code)
        self.versions = versions

    @property
    def in_flight_count(self) -> int:
        """Requests whose answer no caller has received yet."""
        return len(self._waiting) + len(self._early)

    def version_of(self, api_key: int, max_version: int | None = None) -> int:
        """The highest version that both sides speak; UnsupportedByBroker if there is none."""
        version = self.versions.choose(api_key, max_version)
        if version is None:
            name, reason = APIS[api_key].name, self.versions.why_not(api_key)
            raise UnsupportedByBroker(f"{name}: the broker at {self.host}:{self.port} {reason}")
        return version

    def limit(self, seconds: float) -> None:
        """From now on an answer may take so long, and request.timeout.ms at most."""
        self._timeout_seconds = min(seconds, self._config.request_timeout_ms / 1000)

    def request(self, request: Message, *, max_version: int | None = None) -> Any:
        """The answer to one request."""
        return self.receive(self.send(request, max_version=max_version))

    def send(self, request: Message, *, max_version: int | None = None, has_answer: bool = True) -> int:
        """Send a request; returns the ticket for its answer. Produce without acks has none."""
        api_key = type(request).__schema__.api_key
        assert api_key is not None, "requests have an api key, and callers send nothing but requests"
        return self._write(api_key, self.version_of(api_key, max_version), request, has_answer)

    def _write(self, api_key: int, version: int, request: Message, has_answer: bool = True) -> int:
        ticket = self._correlation_id
        self._correlation_id = (ticket + 1) & 0x7FFFFFFF
        pieces = encode_request(api_key, version, ticket, self._config.client_id, request)
        try:
            self._send(pieces)
        except OSError as error:
            raise self._failed(error) from error
        except BaseException:
            self.close()  # a part of the request may have been sent
            raise
        if has_answer:
            self._waiting.append(_Asked(ticket, api_key, version))
        return ticket

    def _send(self, pieces: list[Any]) -> None:
        send_all(self._blocking, self._socket, pieces, self._timeout_seconds)

    def receive(self, ticket: int) -> Any:
        """The answer to the request of this ticket. Its records are views that the next `receive` overwrites."""
        while self._waiting and self._waiting[0].ticket != ticket and ticket not in self._early:
            self._receive_early()
        if ticket in self._early:
            return self._early.pop(ticket)
        if not self._waiting:
            raise NetworkError(f"the connection to {self.host}:{self.port} ended before an answer came")
        return self._receive_next()

    def _receive_early(self) -> None:
        """Read the oldest answer under way and keep it until `receive` asks for its ticket. It gets its own buffer: the
        caller of the last `receive` may still read the shared one."""
        in_use = self._buffer
        self._buffer = bytearray(FIRST_FRAME_BYTES)
        ticket = self._waiting[0].ticket
        self._early[ticket] = self._receive_next()
        self._buffer = in_use

    def _receive_next(self) -> Any:
        expected, api_key, version = self._waiting[0]
        try:
            self._fill(self._size)
            (size,) = _SIZE.unpack(self._size)
            if not 4 <= size <= self._max_frame_bytes:
                raise WireError(f"a frame of {size} bytes")
            frame = self._frame(size)
            response = decode_answer(frame, expected, api_key, version)
        except TimeoutError as error:
            self.close()
            name, timeout_ms = APIS[api_key].name, round(self._timeout_seconds * 1000)
            raise RequestTimedOut(f"{self.host}:{self.port} did not answer {name} within {timeout_ms} ms") from error
        except (OSError, WireError) as error:
            raise self._failed(error) from error
        except BaseException:
            self.close()  # a part of the answer may have been read
            raise
        self._waiting.popleft()
        return response

    def _frame(self, size: int) -> memoryview:
        """A frame's bytes. Above TRUSTED_FRAME_BYTES the buffer grows with what has come, never on the word of a peer
        alone."""
        filled = 0
        while filled < size:
            if len(self._buffer) == filled:
                grown = bytearray(min(max(2 * filled, TRUSTED_FRAME_BYTES), size))
                grown[:filled] = self._buffer
                self._buffer = grown
            end = min(len(self._buffer), size)
            self._fill(memoryview(self._buffer)[filled:end])
            filled = end
        return memoryview(self._buffer)[:size]

    def _fill(self, view: memoryview) -> None:
        fill(self._blocking, self._socket, view, self._timeout_seconds)

    def _failed(self, error: Exception) -> KafkaError:
        answer_count = self._correlation_id - len(self._waiting)
        self.close()
        if answer_count <= 1:
            from ottla.client.tls_failures import explain_end

            return explain_end(error, self.host, self.port, self._config, answer_count, bytes(self._size[:2]))
        return NetworkError(f"the connection to {self.host}:{self.port} ended: {error}")

    def close(self) -> None:
        self.is_closed = True
        self._waiting.clear()
        self._early.clear()
        self._socket.close()
