"""One connection to a broker: requests out, responses in, each answered through a future.

A broker answers the requests of a connection in their order, so the oldest one that waits is the one an answer belongs
to; the correlation id must agree. When a connection ends, for whatever reason, every waiting request gets a
NetworkError: the broker may or may not have done it. An answer that does not come within its time ends the connection,
as Kafka's own client does it, since every later answer stands behind it.

It stands on `net.Channel` and the `net.Sockets` port: the simulator hands in its own, and the same code runs there. A
response larger than what has arrived gets a buffer of its own that the socket is read into; a decoded response may
keep views of it (the records of a fetch) for as long as it likes. When no view of it is left the buffer is
used again: clearing and paging in fresh memory would cost as much as reading the records.

A connection that is secured has its TLS in the socket (`net.tls`) and logs in before its first request. Where the
broker gives a session a time (KIP-368) it logs in again before that is over: requests are held back
meanwhile, since a broker takes nothing else between the handshake and the last token. A plain connection has none of
this cost.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from contextlib import suppress
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.config import ClientConfig
from ottla.client.errors import (
    AuthenticationError,
    KafkaError,
    NetworkError,
    RequestTimedOut,
    UnsupportedByBroker,
    check_error,
)
from ottla.net import Channel, FrameTooLarge, OsSockets, ReceiveBuffers, Socket, Sockets, dial
from ottla.wire import Message, WireError
from ottla.wire.apis import APIS
from ottla.wire.frames import encode_request
from ottla.wire.greeting import ANY_NODE, Greeting, Versions, decode_answer
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.spares import SpareBuffers

if TYPE_CHECKING:
    from ottla.security.authentication import Authentication

RECEIVE_BYTES = 64 * 1024
MAX_FRAME_BYTES = 2**31 - 1
"""The limit of an answer, which may hold a whole batch. Memory is allocated as bytes arrive, not when a size is
announced."""
MAX_LOGIN_FRAME_BYTES = 1024 * 1024
"""The limit for an answer before the versions and the login are done: the peer may not be a broker."""
TLS_ALERT_SIZE = 0x1503
"""The beginning of a TLS alert, read as that of a size: a listener with TLS was asked in the open."""
SMALL_FRAME_BYTES = 16 * 1024
"""Buffers up to this size are not kept: a small response must not hold on to a large buffer."""
FULL_BYTES = 1024 * 1024
"""A connection with so much in its send queue is full."""
SPARE_BYTES = 24 * 1024 * 1024
"""Buffers of so many bytes are kept for the next frames."""


class _Waiting:
    """A request under way: how to read its answer, the future that waits for it, and its deadline."""

    __slots__ = ("answer", "api_key", "correlation_id", "expires_at", "timeout_ms", "version")

    def __init__(
        self, api_key: int, version: int, correlation_id: int, expires_at: float, timeout_ms: int, answer: Any
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.expires_at = expires_at
        self.timeout_ms = timeout_ms
        self.answer: asyncio.Future[Any] = answer


class _Outlet(Protocol):
    """The part of a channel that requests leave by."""

    def send(self, parts: list[Any]) -> None: ...
    def close(self) -> None: ...


class _HeldBack:
    """Takes the place of a channel while its connection logs in again: keeps what is sent, in order."""

    def __init__(self, outlet: _Outlet) -> None:
        self.outlet = outlet
        self._pieces: list[Any] = []

    def send(self, parts: list[Any]) -> None:
        self._pieces.extend(parts)

    def release(self) -> None:
        if self._pieces:
            self.outlet.send(self._pieces)

    def close(self) -> None:
        self.outlet.close()


class _KeptBuffers(ReceiveBuffers):
    """Buffers of one connection whose frames may be looked at for as long as anything has a view of them."""

    def __init__(self) -> None:
        super().__init__(RECEIVE_BYTES)
        self._kept = SpareBuffers(SPARE_BYTES)

    def take(self, size: int) -> bytearray | None:
        return None if size <= SMALL_FRAME_BYTES else self._kept.take(size)

    def make(self, size: int) -> bytearray:
        return bytearray(size if size <= SMALL_FRAME_BYTES else _rounded(size))

    def give(self, buffer: bytearray) -> None:
        if len(buffer) > SMALL_FRAME_BYTES:
            self._kept.keep(buffer)

    def clear(self) -> None:
        self._kept.clear()


OS_SOCKETS = OsSockets()


class Connection:
    """A connection that is made by `connect` and then takes any number of requests at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: ClientConfig, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.versions = Versions()
        """The APIs and versions that the broker supports."""
        self.used_at = loop.time()
        """When a request was last sent, on the loop's clock in seconds."""
        self.muted_until = 0.0
        """Set by a broker that throttles: no request should leave before this time of the loop's clock."""
        self.rtt_ms: float | None = None
        """How long the last answer took; measured for statistics only."""
        self._measures = config.on_statistics is not None
        self._loop = loop
        self._config = config
        self._buffers = _KeptBuffers()
        self._channel: Channel | None = None
        self._outlet: _Outlet | None = None
        """Where requests go: the channel, or what holds them back during a login."""
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._greeting_count = 1
        """The requests that it took to learn the broker's versions: two, if the broker does not speak our newest."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = loop.create_future()
        self._error: KafkaError | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._login: asyncio.Task[None] | None = None
        self._is_closed = False
        self._room: asyncio.Future[None] | None = None

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        config: ClientConfig,
        *,
        sockets: Sockets = OS_SOCKETS,
        cluster_id: str | None = None,
        node_id: int = ANY_NODE,
    ) -> Connection:
        """A connection that is logged in and has the broker's versions; NetworkError if none can be made,
        AuthenticationError if broker and client do not trust each other, REBOOTSTRAP_REQUIRED if the broker says that
        it is not this node of this cluster."""
        loop = asyncio.get_running_loop()
        connection = cls(loop, config, host, port)
        context: ssl.SSLContext | None = None
        if config.has_tls:
            from ottla.client.tls import tls_context

            context = tls_context(config)
        try:
            async with asyncio.timeout(config.socket_connection_setup_timeout_ms / 1000):
                sock = await dial(sockets, host, port)
                connection._tune(sock)
                if context is not None:
                    sock = await _secured(sock, context, host)
        except TimeoutError:
            raise NetworkError(
                f"{host}:{port} took no connection in {config.socket_connection_setup_timeout_ms} ms"
            ) from None
        except OSError as error:
            raise _unconnected(error, connection) from error
        connection.start(sock, max_frame_bytes=MAX_LOGIN_FRAME_BYTES)
        try:
            await connection._negotiate(cluster_id, node_id)
            if config.has_sasl:
                await connection._log_in()
            if connection._channel is not None:
                connection._channel.limit_frames(MAX_FRAME_BYTES)
        except BaseException:
            connection.close()
            raise
        return connection

    def start(self, sock: Socket, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Carry requests over this socket from now on."""
        self._channel = Channel(
            self._loop, sock, self._buffers, max_frame_bytes=max_frame_bytes, supports_sendfile=False
        )
        self._outlet = self._channel
        self._channel.start(self)

    def _tune(self, sock: Socket) -> None:
        with suppress(OSError):  # a connection that has just ended; the next request reports it
            # A size that is set is fixed: the system would otherwise grow the buffer with the traffic.
            if self._config.send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
            if self._config.receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer_bytes)

    async def _negotiate(self, cluster_id: str | None = None, node_id: int = ANY_NODE) -> None:
        greeting = Greeting(cluster_id, node_id)
        versions = None
        while versions is None:
            response: ApiVersionsResponse = await self.request(greeting.request, version=greeting.version)
            versions = greeting.handle(response)
        self._greeting_count = self._correlation_id
        check_error(response.error_code)
        self.versions = versions

    # Logging in

    async def _log_in(self) -> None:
        """Authenticate by SASL while no other request is under way, and again before the session expires."""
        exchange = await self._exchange()
        request: Message | None = exchange.begin()
        while request is not None:
            request = await self._next_step(exchange, await self.request(request))
        self._plan_login(exchange)

    async def _log_in_again(self) -> None:
        """Log in again on a connection in use. The login's first request is queued behind the requests under way: when
        it is answered, they are too. New requests are held back until the login has ended."""
        try:
            exchange = await self._exchange()
            assert self._outlet is not None
            held = _HeldBack(self._outlet)
            answer = self._ask_aside(exchange.begin())
            self._outlet = held
            while (request := await self._next_step(exchange, await answer)) is not None:
                self._outlet, held_back = held.outlet, deque(self._waiting)
                self._waiting.clear()
                answer = self._ask_aside(request)
                self._waiting.extend(held_back)
                self._outlet = held
            self._outlet = held.outlet
            held.release()
            self._plan_login(exchange)
        except KafkaError as error:
            self._fail(error)

    def _ask_aside(self, request: Message) -> asyncio.Future[Any]:
        """Send a request of the client's own: a connection that only logs in is idle."""
        used_at = self.used_at
        answer = self.request(request)
        self.used_at = used_at
        return answer

    async def _exchange(self) -> Authentication:
        from ottla.client.logins import new_token
        from ottla.security.authentication import Authentication

        credentials = self._config.credentials()
        token = ""
        if credentials.token is not None:
            token = await self._loop.run_in_executor(None, new_token, credentials)
        return Authentication(credentials, SystemRandom(), token, self.host)

    async def _next_step(self, exchange: Authentication, response: Message) -> Message | None:
        try:
            if exchange.is_slow:
                return await self._loop.run_in_executor(None, exchange.handle, response)
            return exchange.handle(response)
        except AuthenticationError as error:
            raise AuthenticationError(f"{self.host}:{self.port}: {error.message}", error.code) from None

    def _plan_login(self, exchange: Authentication) -> None:
        after_ms = exchange.reauthenticate_after_ms()
        if after_ms is not None and not self._is_closed:
            self._login_timer = self._loop.call_later(after_ms / 1000, self._begin_login)

    def _begin_login(self) -> None:
        if not self._is_closed:
            self._login = self._loop.create_task(self._log_in_again())

    # Sending

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def in_flight_count(self) -> int:
        """Requests that wait for their answer."""
        return len(self._waiting)

    def version_of(self, api_key: int, max_version: int | None = None) -> int:
        """The highest version that both sides speak; UnsupportedByBroker if there is none."""
        version = self.versions.choose(api_key, max_version)
        if version is None:
            name, reason = APIS[api_key].name, self.versions.why_not(api_key)
            raise UnsupportedByBroker(f"{name}: the broker at {self.host}:{self.port} {reason}")
        return version

    def request(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> asyncio.Future[Any]:
        """Send now; the future has the response, or the NetworkError of a connection that ended.

        A future that is cancelled leaves its place in the line: the answer is dropped when it comes.
        """
        api_key = type(request).__schema__.api_key
        assert api_key is not None
        if version is None:
            version = self.version_of(api_key)
        outlet, correlation_id, pieces = self._encoded(api_key, version, request)
        now = self._loop.time()
        if timeout_ms is None:
            timeout_ms = self._config.request_timeout_ms
        waiting = _Waiting(
            api_key, version, correlation_id, now + timeout_ms / 1000, timeout_ms, self._loop.create_future()
        )
        self._waiting.append(waiting)
        if self._timer is None or self._timer.when() > waiting.expires_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(waiting.expires_at, self._expire)
        outlet.send(pieces)  # may end the connection: then this request fails with the others
        return waiting.answer

    def send_only(self, request: Message, *, version: int | None = None) -> None:
        """Send a request that has no answer (Produce with acks=0)."""
        api_key = type(request).__schema__.api_key
        assert api_key is not None
        version = self.version_of(api_key) if version is None else version
        outlet, _, pieces = self._encoded(api_key, version, request)
        outlet.send(pieces)

    def _encoded(self, api_key: int, version: int, request: Message) -> tuple[_Outlet, int, list[Any]]:
        if self._is_closed or self._outlet is None:
            raise self._error or NetworkError(f"the connection to {self.host}:{self.port} is closed")
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        pieces = encode_request(api_key, version, correlation_id, self._config.client_id, request)
        self.used_at = self._loop.time()
        return self._outlet, correlation_id, pieces

    @property
    def is_full(self) -> bool:
        """Whether the socket takes no more for now: `room` waits for it."""
        return self._channel is not None and self._channel.out_bytes > FULL_BYTES

    async def room(self) -> None:
        """Wait until the socket takes more, so that a slow broker does not make the send queue grow."""
        if self.is_full and not self._is_closed:
            assert self._channel is not None
            if self._room is None:
                self._room = self._loop.create_future()
                self._channel.when_drained(self._drained)
            await asyncio.shield(self._room)

    def _drained(self) -> None:
        if self._room is not None:
            room, self._room = self._room, None
            if not room.done():
                room.set_result(None)

    # Receiving

    def frame_received(self, frame: memoryview) -> None:
        if self._is_closed:
            return
        try:
            if len(frame) < 4:
                raise WireError(f"a frame of {len(frame)} bytes")
            # Of a buffer that the next read overwrites a copy; a frame that came into its own is looked at there.
            is_shared = frame.obj is self._buffers.shared
            self._handle(memoryview(bytes(frame)) if is_shared else frame)
        except WireError as error:
            self._fail(NetworkError(f"{self.host}:{self.port} sent what cannot be read: {error}"))

    def _handle(self, frame: memoryview) -> None:
        if not self._waiting:
            raise WireError("an answer to nothing")
        waiting = self._waiting[0]
        response = decode_answer(frame, waiting.correlation_id, waiting.api_key, waiting.version)
        self._waiting.popleft()
        if self._measures:
            sent_at = waiting.expires_at - waiting.timeout_ms / 1000
            self.rtt_ms = round((self._loop.time() - sent_at) * 1000, 3)
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self.muted_until = self._loop.time() + throttle_time_ms / 1000
        if not waiting.answer.done():
            waiting.answer.set_result(response)

    # Ending

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for waiting in self._waiting:
            if waiting.expires_at <= now:
                name = APIS[waiting.api_key].name
                message = f"{self.host}:{self.port} did not answer {name} within {waiting.timeout_ms} ms"
                if not waiting.answer.done():
                    waiting.answer.set_exception(RequestTimedOut(message))
                self._fail(NetworkError(message))
                return
        if self._waiting:
            next_at = min(waiting.expires_at for waiting in self._waiting)
            self._timer = self._loop.call_at(next_at, self._expire)

    def channel_closed(self) -> None:
        assert self._channel is not None
        error = self._channel.error
        if isinstance(error, FrameTooLarge) and error.size >> 16 != TLS_ALERT_SIZE:
            self._fail(NetworkError(f"{self.host}:{self.port} sent what cannot be read: {error}"))
        if isinstance(error, ssl.SSLError):
            from ottla.client.tls_failures import explain_failure

            self._fail(explain_failure(error, self.host, self.port))
        answer_count = self._correlation_id - len(self._waiting)
        if answer_count <= self._greeting_count and not self._is_closed:
            from ottla.client.tls_failures import explain_end

            first_bytes = bytes(self._buffers.shared[:2])
            self._fail(explain_end(error, self.host, self.port, self._config, answer_count, first_bytes))
        reason = f": {error}" if error else ""
        self._fail(NetworkError(f"the connection to {self.host}:{self.port} ended{reason}"))
        if not self._closed.done():
            self._closed.set_result(None)

    def close(self) -> None:
        self._fail(NetworkError(f"the connection to {self.host}:{self.port} was closed"))

    async def closed(self) -> None:
        """Wait until the connection has ended and its socket is closed."""
        await asyncio.shield(self._closed)

    def _fail(self, error: KafkaError) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._login_timer is not None:
            self._login_timer.cancel()
        if self._login is not None:
            self._login.cancel()
        waiting, self._waiting = self._waiting, deque()
        if self._channel is not None:
            self._channel.close()
        self._buffers.clear()
        self._drained()
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(_another(error))


async def _secured(sock: Socket, context: ssl.SSLContext, host: str) -> Socket:
    from ottla.net.tls import TlsSocket

    secured = TlsSocket(sock, context, server_hostname=host)
    try:
        await secured.handshake()
    except BaseException:
        sock.close()
        raise
    return secured


def _unconnected(error: OSError, connection: Connection) -> KafkaError:
    host, port = connection.host, connection.port
    if isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        from ottla.client.tls_failures import explain_failure

        return explain_failure(error, host, port)
    is_refused = isinstance(error, ConnectionRefusedError)
    return NetworkError(f"cannot connect to {host}:{port}: {'Connection refused' if is_refused else error}")


def _another(error: KafkaError) -> KafkaError:
    """A copy of the error for each waiting request, so that each raises its own."""
    if isinstance(error, AuthenticationError):
        return type(error)(error.message, error.code)
    return NetworkError(error.message)


def _rounded(size: int) -> int:
    """A little more, so that the next frame fits as well."""
    step = 64 * 1024 if size < 1024 * 1024 else 1024 * 1024
    return size + -size % step
