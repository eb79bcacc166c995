"""A connection to another node: sends requests and returns each answer to its caller.

A new connection first sends ApiVersions: during a rolling upgrade, or with Apache Kafka's brokers, the two sides
support different versions. Requests wait for that answer, and each is sent in the newest version that both sides
support.

A secured connection begins with the TLS handshake, and logs in by SASL after ApiVersions; requests wait for that, too.
A login that expires is renewed before its end, and requests wait meanwhile.

An answer is handed over as soon as it is decoded, while its bytes are still in the receive buffer: the caller copies
what it keeps. When a connection breaks, all waiting requests fail; the next request opens a new one.

Cython compiles this file (types in peer.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ottla.net.channel import Channel, ReceiveBuffers
from ottla.net.deadlines import Deadline, Deadlines
from ottla.net.sockets import Socket, Sockets
from ottla.net.tls import Handshake, HandshakeTurns, TlsSocket
from ottla.security.authentication import Authentication
from ottla.security.errors import AuthenticationError
from ottla.wire import Message, WireError, decode, decoder, frames
from ottla.wire.apis import API_VERSIONS, APIS, response_class
from ottla.wire.errors import KafkaError
from ottla.wire.greeting import Greeting, Versions
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

log = logging.getLogger("ottla.net")

MAX_ANSWER_BYTES = 256 * 1024 * 1024
API_VERSIONS_VERSION = 3
"""Every release with KRaft supports this version."""
HANDSHAKE_ID = 0
"""The correlation id of ApiVersions and of a login's requests: only one of them is in flight at a time."""
TLS_HANDSHAKE_S = 30.0
LOGIN_S = 30.0
"""A renewed login that takes longer ends the connection."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is no answer. `is_closed`: the other side closed or refused the connection."""

    is_closed: bool
    is_there: bool = False
    """Whether a process certainly listens there: it spoke TLS, or refused the login."""


class PeerSecurity(Protocol):
    """How connections to other nodes are secured; called for each new connection."""

    def context(self) -> ssl.SSLContext | None:
        """None without TLS; KafkaError if the settings make no valid context."""
        ...

    def authentication(self, host: str) -> Authentication | None:
        """A new login to a host; None without SASL, KafkaError if the settings make no valid login."""
        ...

    def failed(self, address: str, error: Exception) -> None:
        """TLS or the login failed: a certificate, a password or a setting is wrong on one of the sides."""
        ...

    def opened(self, address: str) -> None: ...


OnAnswer = Callable[[Message | NoAnswer], None]


class EncodedRequest:
    """A request that is encoded already, in the version that the other side most likely supports. `on_frame` gets the
    answer's bytes first; they are decoded only if it returns False. If the other side supports only older versions,
    request and answer are ordinary messages.
    """

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
        """None once it was sent."""
        self.api_key = api_key
        self.version = -1
        self.on_answer = on_answer
        self.on_frame: Callable[[memoryview], bool] | None = None
        self.timer = timer


class Peer:
    """One other node, by its address. `name` is the host name that the node advertises, which its certificate must
    contain.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sockets,
        buffers: ReceiveBuffers,
        host: str,
        port: int,
        *,
        client_id: str,
        name: str = "",
        security: PeerSecurity | None = None,
        turns: HandshakeTurns | None = None,
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._buffers = buffers
        self._host, self._port = host, port
        self._name = name or host
        self._client_id = client_id
        self._security = security
        self._turns = turns if turns is not None or security is None else HandshakeTurns(loop)
        self._deadlines = Deadlines(loop)
        self._connection: _Connection | None = None
        self._correlation_id = 0

    def send(self, request: Message | EncodedRequest, on_answer: OnAnswer, *, timeout_ms: int) -> None:
        """Send a request in the newest version that both sides support. `on_answer` is called once, never from inside
        `send`.
        """
        connection = self._connection
        if connection is None or connection.is_closed:
            connection = self._connect(on_answer)
            if connection is None:
                return
        self._correlation_id = self._correlation_id % 0x7FFFFFFF + 1
        connection.ask(self._correlation_id, request, on_answer, timeout_ms)

    def look(self, on_answer: OnAnswer, *, timeout_ms: int) -> None:
        """Open a connection only to see whether the other side listens: the answer is that of the first ApiVersions
        request, and no login follows. The caller then closes the peer. Do not use its content: that request's version
        leaves out features whose minimum is 0.
        """
        assert self._connection is None, "a look has a connection of its own"
        connection = self._connect(on_answer)
        if connection is not None:
            connection.look(on_answer, timeout_ms)

    def _connect(self, on_answer: OnAnswer) -> _Connection | None:
        """A new connection; None if it cannot be made, and `on_answer` is then called with the reason."""
        try:
            context = None if self._security is None else self._security.context()
            sock = self._sockets.connect(self._host, self._port)
        except KafkaError as error:
            assert self._security is not None
            self._security.failed(self._address, error)
            self._loop.call_soon(on_answer, NoAnswer(is_closed=False))
            return None
        except OSError as error:
            # An unknown name, no route or no free descriptor prove nothing about the other side.
            is_refused = isinstance(error, ConnectionError)
            self._loop.call_soon(on_answer, NoAnswer(is_closed=is_refused))
            return None
        connection = self._connection = _Connection(
            self._loop, self._deadlines, self._client_id, self._address, self._security
        )
        if context is None:
            connection.open(self._channel(sock, is_tls=False))
        else:
            self._shake(connection, sock, context)
        return connection

    def _channel(self, sock: Socket, *, is_tls: bool) -> Channel:
        return Channel(
            self._loop,
            sock,
            self._buffers,
            max_frame_bytes=MAX_ANSWER_BYTES,
            supports_sendfile=self._sockets.supports_sendfile and not is_tls,
        )

    def _shake(self, connection: _Connection, sock: Socket, context: ssl.SSLContext) -> None:
        assert self._turns is not None
        tls = TlsSocket(sock, context, server_hostname=self._name)

        def done(error: OSError | None) -> None:
            if error is None:
                connection.open(self._channel(tls, is_tls=True))
            else:
                sock.close()
                connection.unshaken(error, has_spoken=tls.has_received)

        connection.handshake = Handshake(self._loop, self._turns, sock, tls, done, TLS_HANDSHAKE_S, begins=True)
        connection.shaking_sock = sock

    @property
    def _address(self) -> str:
        return f"{self._name}:{self._port}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._deadlines.close()


class _Connection:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deadlines: Deadlines,
        client_id: str,
        address: str,
        security: PeerSecurity | None,
    ) -> None:
        self._channel: Channel | None = None
        """None during the TLS handshake."""
        self.handshake: Handshake | None = None
        self.shaking_sock: Socket | None = None
        self._loop = loop
        self._deadlines = deadlines
        self._client_id = client_id
        self._address = address
        self._security = security
        self._known: dict[int, int] = {}
        """API key -> version to use."""
        self._versions: dict[int, int] | None = None
        """`_known` once requests may be sent; None until ApiVersions was answered and the login accepted."""
        self._login: Authentication | None = None
        """The login under way."""
        self._login_version = self._login_key = 0
        self._login_timer: Deadline | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._is_tls = False
        self._is_refused = False
        """Whether TLS or login failed, which shows that the other side is running."""
        self.is_closed = False

    def open(self, channel: Channel) -> None:
        """The connection is open, as far as that can be known: send ApiVersions."""
        self._is_tls = self.handshake is not None
        self.handshake = self.shaking_sock = None
        self._channel = channel
        channel.start(self)
        channel.send(
            frames.encode_request(API_VERSIONS, API_VERSIONS_VERSION, HANDSHAKE_ID, self._client_id, Greeting().request)
        )

    def unshaken(self, error: OSError, *, has_spoken: bool) -> None:
        """The TLS handshake failed."""
        self.handshake = self.shaking_sock = None
        is_gone = isinstance(error, ConnectionError) and not isinstance(error, ssl.SSLError)
        if not is_gone and self._security is not None and not isinstance(error, TimeoutError):
            self._security.failed(self._address, error)
        self._end(NoAnswer(is_closed=is_gone, is_there=has_spoken))

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

    def look(self, on_answer: OnAnswer, timeout_ms: int) -> None:
        """Return only the answer to ApiVersions, which `open` sends."""
        if self.is_closed:  # the connection was refused
            self._loop.call_soon(on_answer, NoAnswer(is_closed=True))
            return
        timer = self._deadlines.call_later(timeout_ms / 1000, self._time_out, HANDSHAKE_ID)
        self._waiting[HANDSHAKE_ID] = _Waiting(Greeting().request, API_VERSIONS, on_answer, timer)

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
        channel = self._channel
        assert channel is not None
        channel.send(parts)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        elif self.handshake is not None:
            self.handshake.cancel()
            if self.shaking_sock is not None:
                self.shaking_sock.close()
            self.handshake = self.shaking_sock = None
            self._end(NoAnswer(is_closed=False))

    def frame_received(self, frame: memoryview) -> None:
        try:
            correlation_id = int.from_bytes(frame[:4], "big")
            if correlation_id == HANDSHAKE_ID:
                if self._login is None:
                    self._take_versions(frame)
                else:
                    self._take_login(frame)
                return
            waiting = self._waiting.pop(correlation_id, None)
            if waiting is None:
                return  # it has timed out
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
            self.close()
            return
        waiting.on_answer(response)

    def _take_versions(self, frame: memoryview) -> None:
        _, position = frames.decode_response_header(frame, API_VERSIONS, API_VERSIONS_VERSION)
        response = decoder(ApiVersionsResponse, API_VERSIONS_VERSION)(frame, position)[0]
        look = self._waiting.pop(HANDSHAKE_ID, None)
        if look is not None:
            look.timer.cancel()
            look.on_answer(response)
            return
        if response.error_code:
            raise WireError(f"ApiVersions was refused with {response.error_code}")
        versions = Versions.of(response)
        chosen = {api.key: versions.choose(api.key, api.max_version) for api in APIS.values()}
        self._known = {api_key: version for api_key, version in chosen.items() if version is not None}
        self._log_in()

    def _begin(self) -> None:
        """Send the requests that waited for versions and login; later ones are sent at once."""
        self._versions = self._known
        if self._security is not None:
            self._security.opened(self._address)
        for id, waiting in list(self._waiting.items()):
            if waiting.request is not None:
                self._send(id, waiting, self._known)

    # Logging in

    def _log_in(self) -> None:
        try:
            login = None if self._security is None else self._security.authentication(self._address.rpartition(":")[0])
        except KafkaError as error:
            self._refuse(error)
            return
        if login is None:
            self._begin()
            return
        self._versions = None  # requests wait
        self._login = login
        self._send_login(login.begin())

    def _log_in_again(self) -> None:
        if not self.is_closed:
            self._login_timer = self._deadlines.call_later(LOGIN_S, self.close)
            self._log_in()

    def _send_login(self, request: Message) -> None:
        key = type(request).__schema__.api_key
        assert key is not None
        version = self._known.get(key)
        if version is None:
            self._refuse(AuthenticationError("the listener does not offer SASL; it has another security protocol"))
            return
        self._login_key, self._login_version = key, version
        channel = self._channel
        assert channel is not None
        channel.send(frames.encode_request(key, version, HANDSHAKE_ID, self._client_id, request))

    def _take_login(self, frame: memoryview) -> None:
        _, position = frames.decode_response_header(frame, self._login_key, self._login_version)
        response = decoder(response_class(self._login_key), self._login_version)(frame, position)[0]
        if isinstance(response, SaslAuthenticateResponse):
            response.auth_bytes = bytes(response.auth_bytes)  # the buffer is reused for other connections
        login = self._login
        assert login is not None
        assert isinstance(response, SaslHandshakeResponse | SaslAuthenticateResponse)
        if response.error_code:
            # At once: the other side closes the connection behind this answer, and would look gone.
            try:
                login.handle(response)
            except KafkaError as error:
                self._refuse(error)
            return
        # In a thread: SCRAM hashes the password thousands of times.
        handling = self._loop.run_in_executor(None, login.handle, response)
        handling.add_done_callback(partial(self._handled, login))

    def _handled(self, login: Authentication, handling: asyncio.Future[Message | None]) -> None:
        if handling.cancelled():
            return
        error = handling.exception()  # retrieved even if the connection is closed, or asyncio logs it
        if self.is_closed:
            return
        if error is not None:
            self._refuse(error if isinstance(error, Exception) else AuthenticationError(str(error)))
            return
        request = handling.result()
        if request is not None:
            self._send_login(request)
            return
        self._login = None
        if self._login_timer is not None:
            self._login_timer.cancel()
            self._login_timer = None
        renew_ms = login.reauthenticate_after_ms()
        if renew_ms is not None:
            self._renewal = self._loop.call_later(renew_ms / 1000, self._log_in_again)
        self._begin()

    def _refuse(self, error: Exception) -> None:
        self._is_refused = True
        if self._security is not None:
            self._security.failed(self._address, error)
        self.close()

    # The end

    def channel_closed(self) -> None:
        error = None if self._channel is None else self._channel.error
        if isinstance(error, ssl.SSLError) and self._security is not None:
            # With TLS 1.3 a node refuses this one's certificate after the handshake.
            self._security.failed(self._address, error)
            self._is_refused = True
        # Closed after the handshake and before the first answer: with TLS 1.3 that is how a certificate is refused if
        # the alert gets lost. A stopped process would not have completed a handshake.
        is_there = self._is_refused or (self._is_tls and not self._known)
        self._end(NoAnswer(is_closed=not self._is_refused, is_there=is_there))

    def _end(self, reason: NoAnswer) -> None:
        self.is_closed = True
        if self._renewal is not None:
            self._renewal.cancel()
        if self._login_timer is not None:
            self._login_timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.timer.cancel()
            self._loop.call_soon(one.on_answer, reason)

    def _time_out(self, correlation_id: int) -> None:
        """Close a connection with an overdue answer: answers come in order, so no later one could arrive."""
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is not None:
            waiting.on_answer(NoAnswer(is_closed=False))
            self.close()
