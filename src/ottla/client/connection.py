"""One connection to a broker: requests out, responses in, each answered through a future.

A broker answers the requests of a connection in their order, so the oldest one that waits is the one an answer belongs
to; the correlation id must agree. When a connection ends, for whatever reason, everyone who waits gets a NetworkError:
whether the broker did what was asked is not known. An answer that does not come within its time ends the connection, as
Kafka's own client does it, since every later answer stands behind it.

A response larger than what has arrived gets a buffer of its own that the socket is read into; a decoded response may
keep views of it (the records of a fetch) for as long as it likes. When nobody has a view of it any more the buffer is
used again: clearing and paging in fresh memory would cost as much as reading the records.

A connection that is secured has its TLS in the transport and logs in before its first request. Where the broker gives a
session a time (KIP-368) it logs in again before that is over: what is asked meanwhile is held back for so long, since a
broker takes nothing else between the handshake and the last token. A connection in the open pays for none of this.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from random import SystemRandom
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from ottla import SOFTWARE_NAME, __version__
from ottla.client.config import ClientConfig
from ottla.client.errors import (
    AuthenticationError,
    KafkaError,
    NetworkError,
    RequestTimedOut,
    UnsupportedByBroker,
    check_error,
)
from ottla.wire import Message, WireError, decode
from ottla.wire.apis import API_VERSIONS, APIS, response_class
from ottla.wire.errors import ErrorCode
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.spares import SpareBuffers

if TYPE_CHECKING:
    from ottla.client.core.authentication import Authentication

_SIZE = Struct(">i")
_ERROR_CODE = Struct(">h")
RECEIVE_BYTES = 64 * 1024
MAX_FRAME_BYTES = 2**31 - 1
FIRST_FRAME_BYTES = 1024 * 1024
"""A buffer is never made larger than this on the word of a peer alone: it grows with what has come."""
SPARE_BYTES = 24 * 1024 * 1024
"""Buffers of so many bytes are kept for the next frames."""


class _Waiting:
    """A request on its way: what the answer is read with, and who waits for it until when."""

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


class _HeldBack:
    """Stands in for a transport while its connection logs in again: keeps what is written, in order, for later."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._pieces: list[bytes | memoryview] = []

    def write(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self._pieces.extend(pieces)

    def release(self) -> None:
        if self._pieces:
            self.transport.writelines(self._pieces)

    def abort(self) -> None:
        self.transport.abort()


class Connection(asyncio.BufferedProtocol):
    """A connection that is made by `connect` and then carries any number of requests at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: ClientConfig, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.versions: dict[int, tuple[int, int]] = {}
        """api key -> first and last version the broker speaks."""
        self.finalized_features: dict[str, int] = {}
        self.used_at = loop.time()
        """When a request was last sent, on the loop's clock in seconds."""
        self.muted_until = 0.0
        """A broker that throttles asks for silence: nothing should be sent before this moment of the loop's clock."""
        self.rtt_ms: float | None = None
        """How long the last answer took; measured for statistics only."""
        self._measures = config.on_statistics is not None
        self._loop = loop
        self._config = config
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = loop.create_future()
        self._error: KafkaError | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._login: asyncio.Task[None] | None = None
        self._is_closed = False
        self._room: asyncio.Future[None] | None = None
        self._small = bytearray(RECEIVE_BYTES)
        self._small_filled = 0
        self._frame: bytearray | None = None
        self._frame_filled = self._frame_size = 0
        self._spares = SpareBuffers(SPARE_BYTES)

    @classmethod
    async def connect(cls, host: str, port: int, config: ClientConfig) -> Connection:
        """A connection that stands, is logged in and knows the broker's versions; NetworkError if there is none to be
        had, AuthenticationError if broker and client do not trust each other."""
        loop = asyncio.get_running_loop()
        connection = cls(loop, config, host, port)
        secured: dict[str, Any] = {}
        if config.has_tls:
            from ottla.client.tls import tls_context

            secured = {"ssl": tls_context(config), "server_hostname": host}
        try:
            async with asyncio.timeout(config.socket_connection_setup_timeout_ms / 1000):
                transport, _ = await loop.create_connection(lambda: connection, host, port, **secured)
        except TimeoutError:
            raise NetworkError(
                f"{host}:{port} took no connection in {config.socket_connection_setup_timeout_ms} ms"
            ) from None
        except OSError as error:
            raise _unconnected(error, connection) from error
        connection._tune(transport)
        try:
            await connection._negotiate()
            if config.has_sasl:
                await connection._log_in()
        except BaseException:
            connection.close()
            raise
        return connection

    def _tune(self, transport: asyncio.Transport) -> None:
        sock = transport.get_extra_info("socket")
        if sock is None:
            return
        with suppress(OSError):  # a connection that has just ended; it is told by what is asked of it
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A size that is set stays: the system would let it grow to what the connection carries.
            if self._config.send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
            if self._config.receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer_bytes)

    async def _negotiate(self) -> None:
        """ApiVersions, newest first (KIP-511): a broker that lacks that version answers in version 0 with its own."""
        version = APIS[API_VERSIONS].max_version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        response: ApiVersionsResponse = await self.request(request, version=version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            spoken = next((api.max_version for api in response.api_keys if api.api_key == API_VERSIONS), 0)
            response = await self.request(request, version=min(version, spoken))
        check_error(response.error_code)
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self.finalized_features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    # Logging in

    async def _log_in(self) -> None:
        """Authenticate by SASL on a connection that carries nothing else; then again before the session is over."""
        exchange = await self._exchange()
        request: Message | None = exchange.begin()
        while request is not None:
            request = self._next_step(exchange, await self.request(request))
        self._plan_login(exchange)

    async def _log_in_again(self) -> None:
        """The same on a connection in use. The first request goes behind those under way; when it is answered they are
        too, so all that waits then is held back, and what follows goes before it."""
        try:
            exchange = await self._exchange()
            assert self._transport is not None
            held = _HeldBack(self._transport)
            answer = self._ask_aside(exchange.begin())
            self._transport = cast(asyncio.Transport, held)
            while (request := self._next_step(exchange, await answer)) is not None:
                self._transport, held_back = held.transport, deque(self._waiting)
                self._waiting.clear()
                answer = self._ask_aside(request)
                self._waiting.extend(held_back)
                self._transport = cast(asyncio.Transport, held)
            self._transport = held.transport
            held.release()
            self._plan_login(exchange)
        except KafkaError as error:
            self._fail(error)

    def _ask_aside(self, request: Message) -> asyncio.Future[Any]:
        """Send what nobody asked for: a connection that only logs in is idle."""
        used_at = self.used_at
        answer = self.request(request)
        self.used_at = used_at
        return answer

    async def _exchange(self) -> Authentication:
        from ottla.client.core.authentication import Authentication
        from ottla.client.logins import new_token

        credentials = self._config.credentials()
        token = ""
        if credentials.token is not None:
            token = await self._loop.run_in_executor(None, new_token, credentials)
        return Authentication(credentials, SystemRandom(), token)

    def _next_step(self, exchange: Authentication, response: Message) -> Message | None:
        try:
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
        api = APIS[api_key]
        last = api.max_version - 1 if api.latest_version_unstable else api.max_version
        if max_version is not None:
            last = min(last, max_version)
        spoken = self.versions.get(api_key)
        if spoken is None or spoken[0] > last or spoken[1] < api.min_version:
            offered = "does not offer it" if spoken is None else f"offers versions {spoken[0]} to {spoken[1]}"
            raise UnsupportedByBroker(f"{api.name}: the broker at {self.host}:{self.port} {offered}")
        return min(last, spoken[1])

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
        correlation_id = self._write(api_key, version, request)
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
        return waiting.answer

    def send_only(self, request: Message, *, version: int | None = None) -> None:
        """Send a request that has no answer (Produce with acks=0)."""
        api_key = type(request).__schema__.api_key
        assert api_key is not None
        self._write(api_key, self.version_of(api_key) if version is None else version, request)

    def _write(self, api_key: int, version: int, request: Message) -> int:
        if self._is_closed or self._transport is None:
            raise self._error or NetworkError(f"the connection to {self.host}:{self.port} is closed")
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        pieces = encode_request(api_key, version, correlation_id, self._config.client_id, request)
        self.used_at = self._loop.time()
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)
        return correlation_id

    @property
    def is_full(self) -> bool:
        """Whether the socket takes no more for now: `room` waits for it."""
        return self._room is not None

    async def room(self) -> None:
        """Wait until the socket takes more, so that a slow broker does not make the send queue grow."""
        if self._room is not None and not self._is_closed:
            await asyncio.shield(self._room)

    def pause_writing(self) -> None:
        if self._room is None:
            self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._room is not None:
            room, self._room = self._room, None
            if not room.done():
                room.set_result(None)

    # Receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1024 * 1024)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_filled : self._frame_size]
        return memoryview(self._small)[self._small_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._frame is not None:
                self._frame_filled += nbytes
                self._frame_grew(self._frame)
            else:
                self._small_filled += nbytes
                self._parse()
        except WireError as error:
            self._fail(NetworkError(f"{self.host}:{self.port} sent what cannot be read: {error}"))

    def _frame_grew(self, frame: bytearray) -> None:
        if self._frame_filled == self._frame_size:
            self._frame = None
            view = memoryview(frame)[: self._frame_size]
            self._spares.keep(frame)
            self._handle(view)
        elif self._frame_filled == len(frame):
            larger = bytearray(_rounded(min(2 * len(frame), self._frame_size)))
            larger[: len(frame)] = frame
            self._frame = larger

    def _frame_buffer(self, size: int) -> bytearray:
        """A spare buffer that holds the whole frame, or a new one that grows with it."""
        spare = self._spares.take(size)
        if spare is not None:
            return spare
        return bytearray(_rounded(max(min(size, FIRST_FRAME_BYTES), self._frame_filled)))

    def _parse(self) -> None:
        view = memoryview(self._small)
        position, end = 0, self._small_filled
        while end - position >= 4 and not self._is_closed:
            (size,) = _SIZE.unpack_from(view, position)
            if not 4 <= size <= MAX_FRAME_BYTES:
                raise WireError(f"a frame of {size} bytes")
            start = position + 4
            stop = start + size
            if stop > end:
                if stop - position <= RECEIVE_BYTES // 4:
                    break
                self._frame_filled, self._frame_size = end - start, size
                self._frame = self._frame_buffer(size)
                self._frame[: self._frame_filled] = view[start:end]
                position = end
                break
            self._handle(memoryview(bytes(view[start:stop])))
            position = stop
        kept = end - position
        if kept and position:
            self._small[:kept] = bytes(view[position:end])
        self._small_filled = kept

    def _handle(self, frame: memoryview) -> None:
        if not self._waiting:
            raise WireError("an answer to nothing")
        waiting = self._waiting[0]
        correlation_id, position = decode_response_header(frame, waiting.api_key, waiting.version)
        if correlation_id != waiting.correlation_id:
            raise WireError(f"answer {correlation_id} where {waiting.correlation_id} was due")
        cls = response_class(waiting.api_key)
        version = waiting.version
        if waiting.api_key == API_VERSIONS and _ERROR_CODE.unpack_from(frame, 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        response: Any = decode(cls, version, frame, position)
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

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            from ottla.client.tls_failures import explain_failure

            self._fail(explain_failure(exc, self.host, self.port))
        answer_count = self._correlation_id - len(self._waiting)
        if answer_count <= 1 and not self._is_closed:
            from ottla.client.tls_failures import explain_end

            first_bytes = bytes(self._small[:2])
            self._fail(explain_end(exc, self.host, self.port, self._config, answer_count, first_bytes))
        reason = f": {exc}" if exc else ""
        self._fail(NetworkError(f"the connection to {self.host}:{self.port} ended{reason}"))
        if not self._closed.done():
            self._closed.set_result(None)

    def eof_received(self) -> bool:
        return False

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
        if self._transport is not None:
            self._transport.abort()
        self._frame = None
        self._spares.clear()
        self.resume_writing()
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(_another(error))


def _unconnected(error: OSError, connection: Connection) -> KafkaError:
    host, port = connection.host, connection.port
    if isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        from ottla.client.tls_failures import explain_failure

        return explain_failure(error, host, port)
    # asyncio's own text names the address again: "[Errno 111] Connect call failed ('127.0.0.1', 9092)".
    is_refused = isinstance(error, ConnectionRefusedError)
    return NetworkError(f"cannot connect to {host}:{port}: {'Connection refused' if is_refused else error}")


def _another(error: KafkaError) -> KafkaError:
    """The same error for another who waits: each is raised in its own place."""
    if isinstance(error, AuthenticationError):
        return type(error)(error.message, error.code)
    return NetworkError(error.message)


def _rounded(size: int) -> int:
    """A little more, so that the next frame fits as well."""
    step = 64 * 1024 if size < 1024 * 1024 else 1024 * 1024
    return size + -size % step
