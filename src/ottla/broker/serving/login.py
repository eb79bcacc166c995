"""The gate of a connection on a SASL listener: shut until the login is complete, and again when its session is over.

`Connection` asks `takes` for every frame while it has a gate. Before the login only ApiVersions, SaslHandshake and
SaslAuthenticate pass; any other frame closes the connection. What a login decides is in `security.exchange`; here are
its clock, its limits, the delay of a refusal, metrics and audit. After the login the connection has no gate, so that
later frames pass at no cost, until it authenticates again or its session ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.broker.audit import AuditEvent
from ottla.broker.caller import Caller, Client
from ottla.broker.serving.jwks import Jwks
from ottla.broker.serving.kerberos_server import KerberosServer
from ottla.broker.serving.sasl_settings import PLAIN, SaslSettings, read_sasl_settings
from ottla.config import BrokerConfig, ConfigError
from ottla.security.authentication import GSSAPI, OAUTHBEARER
from ottla.security.bearer_server import BearerServer
from ottla.security.exchange import Exchange, Exchanging, LoggedIn, Login, Refused, Terms
from ottla.security.jwt import UnknownKey, validate
from ottla.security.login import Identity, LoginRefused, ServerMechanism
from ottla.security.plain_server import PlainServer
from ottla.security.scram_server import ScramServer
from ottla.wire.apis import API_VERSIONS, APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.frames import encode_response
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.access import Access
    from ottla.broker.ground import Ground
    from ottla.broker.serving.scram_credentials import ScramCredentials
    from ottla.security.principal import Principal

log = logging.getLogger("ottla.serving")

SASL_HANDSHAKE_KEY = 17
SASL_AUTHENTICATE_KEY = 36
LOGIN_TIMEOUT_MS = 30_000
"""The time from the connection to the end of its login. Kafka allows connections.max.idle.ms, ten minutes."""
CHECKS_AT_ONCE = 4
"""Kerberos tickets that are checked in threads at the same time; threads must remain for reads of the disk."""
REFUSAL_TIMEOUT_MS = 5_000
"""How long a client may take to receive that its login failed."""
MIN_REAUTHENTICATION_INTERVAL_MS = 1_000
MAX_LOGGED_NAME = 100
REQUEST_HEADER_SIZE = 8
"""Up to the correlation id."""

Response = TypeVar("Response", SaslHandshakeResponse, SaslAuthenticateResponse)


class GatedChannel(Protocol):
    """The part of a channel that a gate uses."""

    def send(self, parts: list[bytes]) -> None: ...
    def close(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def limit_frames(self, max_frame_bytes: int) -> None: ...


class GatedConnection(Protocol):
    client: Client
    gate: Any


class ListenerLogins:
    """What the logins of one listener share. ConfigError if the listener's settings contradict each other."""

    def __init__(
        self,
        ground: Ground,
        listener: str,
        credentials: ScramCredentials,
        access: Callable[[Principal, str, str], Access],
    ) -> None:
        self.ground = ground
        self.listener = listener
        self.access = access
        self.meter = ground.metrics.logins(listener)
        self._credentials = credentials
        self._config = ground.static_config
        settings = self._settings = read_sasl_settings(ground.static_config, listener)
        self._jwks = Jwks(ground, settings.bearer) if settings.bearer is not None else None
        """The settings at the start: the source of keys never changes at run time."""
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)

    def terms(self) -> Terms:
        settings = self._current(self.ground.config)
        return Terms(
            settings.mechanisms,
            lambda mechanism: self._new_server(mechanism, settings),
            lambda mechanism: settings.max_reauth_ms[mechanism],
        )

    @property
    def max_receive_bytes(self) -> int:
        return self._current(self.ground.config).max_receive_bytes

    def _current(self, config: BrokerConfig) -> SaslSettings:
        """The present settings: users of PLAIN can be changed while the node runs."""
        if config is not self._config:
            self._config = config
            try:
                self._settings = read_sasl_settings(config, self.listener)
            except ConfigError as error:
                log.error("listener %s keeps its previous SASL settings: %s", self.listener, error)
        return self._settings

    def _new_server(self, mechanism: str, settings: SaslSettings) -> ServerMechanism:
        if mechanism == PLAIN:
            return PlainServer(settings.plain_users)
        if mechanism == OAUTHBEARER:
            return BearerServer(partial(self._validate, settings))
        if mechanism == GSSAPI:
            assert settings.kerberos is not None
            return KerberosServer(settings.kerberos)
        credentials = self._credentials
        return ScramServer(
            mechanism,
            lambda name, is_token: credentials.find(mechanism, name, is_token),
            credentials.decoys(mechanism),
            self.ground.rng,
        )

    def preparing(self, exchange: Exchange, token: bytes) -> Awaitable[None] | None:
        """Work that must end before this token is answered, if any: deriving the keys of a delegation token, or
        checking a Kerberos ticket; both run on a thread.
        """
        state = exchange.state
        if isinstance(state, Exchanging) and isinstance(state.server, KerberosServer):
            return self._check_ticket(state.server, token)
        if not isinstance(state, Exchanging) or not isinstance(state.server, ScramServer):
            return None
        token_id = state.server.wanted_token(token)
        return None if token_id is None else self._credentials.tokens.prepare(state.mechanism, token_id)

    async def _check_ticket(self, server: KerberosServer, token: bytes) -> None:
        async with self._checks:
            await self.ground.loop.run_in_executor(None, server.prepare, token)

    def _validate(self, settings: SaslSettings, token: str, timestamp: int) -> Identity:
        if self._jwks is None or settings.bearer is None:
            raise LoginRefused("OAUTHBEARER was enabled while the node ran; its keys are read at the start")
        try:
            return validate(token, self._jwks.keys, settings.bearer.rules, timestamp)
        except UnknownKey:
            self._jwks.want_refresh()
            raise


class ConnectionLogin:
    """The login of one connection, and its session if that expires."""

    __slots__ = (
        "_channel",
        "_connection",
        "_ends_at",
        "_exchange",
        "_login",
        "_logins",
        "_reauthenticated_at",
        "_supports_reauthentication",
        "_timer",
    )

    def __init__(self, logins: ListenerLogins, connection: GatedConnection, channel: GatedChannel) -> None:
        self._logins = logins
        self._connection = connection
        self._channel = channel
        self._exchange: Exchange | None = Exchange(logins.terms())
        """None between the login and a re-authentication."""
        self._login: Login | None = None
        self._ends_at = 0
        """When the session ends."""
        self._reauthenticated_at: int | None = None
        self._supports_reauthentication = False
        self._timer: asyncio.TimerHandle | None = None
        self._limit_frames(is_logged_in=False)
        self._call_after(LOGIN_TIMEOUT_MS, self._timed_out)

    # --- Called by the connection

    def takes(self, frame: memoryview) -> bool:
        """Whether the gate handles this frame; the connection handles the others."""
        exchange = self._exchange
        key = frame[0] << 8 | frame[1] if len(frame) >= REQUEST_HEADER_SIZE else -1
        if exchange is None:
            return self._is_over(key)
        if isinstance(exchange.state, Refused):
            return True
        if exchange.is_bare:
            self._take_token(exchange, bytes(frame))
            return True
        if key in (SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY):
            return False
        close = self._channel.close
        if key == API_VERSIONS:
            version = frame[2] << 8 | frame[3]
            if version > APIS[API_VERSIONS].max_version or exchange.versions():
                return False
            if isinstance(exchange.state, Exchanging):
                close = partial(self._answer_versions, bytes(frame[:REQUEST_HEADER_SIZE]))
        name = APIS[key].name if key in APIS else "unknown"
        exchange.refuse(f"a request ({name}) before the end of the login")
        self._refused(exchange.state)
        self._call_after(self._delay_ms, close)
        return True

    def closed(self) -> None:
        """The connection is closed."""
        self._stop_timer()
        exchange = self._exchange
        if exchange is not None and not isinstance(exchange.state, Refused):
            exchange.abandon()
            if isinstance(exchange.state, Refused):
                self._refused(exchange.state)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- Called by the handlers of SaslHandshake and SaslAuthenticate

    def handshake(
        self, request: SaslHandshakeRequest, caller: Caller
    ) -> SaslHandshakeResponse | Awaitable[SaslHandshakeResponse | None]:
        if self._exchange is None:
            if not self._may_reauthenticate():
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._reauthenticated_at = self._logins.ground.now()
            self._exchange = Exchange(self._logins.terms(), self._login)
            self._connection.gate = self
            self._call_after(LOGIN_TIMEOUT_MS, self._timed_out)
            self._limit_frames(is_logged_in=False)
        return self._checked(self._exchange, self._exchange.handshake(request, caller.api_version), caller)

    def authenticate(
        self, request: SaslAuthenticateRequest, caller: Caller
    ) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse | None]:
        exchange = self._exchange
        if exchange is None:
            return after_authentication()
        self._supports_reauthentication = self._supports_reauthentication or caller.api_version > 0
        preparing = self._logins.preparing(exchange, bytes(request.auth_bytes))
        if preparing is not None:
            self._channel.pause_reading()  # at once: the next message may have arrived with this one
            return self._authenticate_after(preparing, exchange, request, caller)
        return self._checked(exchange, exchange.authenticate(request, self._logins.ground.clock()), caller)

    async def _authenticate_after(
        self, preparing: Awaitable[None], exchange: Exchange, request: SaslAuthenticateRequest, caller: Caller
    ) -> SaslAuthenticateResponse | None:
        if not await self._is_prepared(preparing, exchange):
            return None
        answer = self._checked(exchange, exchange.authenticate(request, self._logins.ground.clock()), caller)
        return answer if answer is None or isinstance(answer, SaslAuthenticateResponse) else await answer

    async def _is_prepared(self, preparing: Awaitable[None], exchange: Exchange) -> bool:
        """Whether the login continues: it may have timed out meanwhile."""
        await preparing
        if isinstance(exchange.state, Refused):
            return False
        self._channel.resume_reading()
        return True

    def _checked(
        self, exchange: Exchange, response: Response | None, caller: Caller
    ) -> Response | Awaitable[Response | None]:
        if isinstance(exchange.state, Refused):
            self._refused(exchange.state)
            self._call_after(self._delay_ms + REFUSAL_TIMEOUT_MS, self._channel.close)
            caller.is_refused = True
            return self._later(response)
        if isinstance(exchange.state, LoggedIn):
            self._logged_in(exchange.state.login)
        assert response is not None
        return response

    async def _later(self, response: Response | None) -> Response | None:
        await asyncio.sleep(self._delay_ms / 1000)
        return response

    def _take_token(self, exchange: Exchange, token: bytes) -> None:
        preparing = self._logins.preparing(exchange, token)
        if preparing is None:
            self._answer_token(exchange, token)
        else:
            self._channel.pause_reading()
            self._logins.ground.spawn(self._take_token_after(preparing, exchange, token))

    async def _take_token_after(self, preparing: Awaitable[None], exchange: Exchange, token: bytes) -> None:
        if await self._is_prepared(preparing, exchange):
            self._answer_token(exchange, token)

    def _answer_token(self, exchange: Exchange, token: bytes) -> None:
        answer = exchange.token(token, self._logins.ground.clock())
        if isinstance(exchange.state, Refused):
            self._refused(exchange.state)
            self._call_after(self._delay_ms, self._channel.close)
            return
        assert answer is not None
        self._channel.send([len(answer).to_bytes(4, "big"), answer])
        if isinstance(exchange.state, LoggedIn):
            self._logged_in(exchange.state.login)

    def _answer_versions(self, header: bytes) -> None:
        """Kafka's answer to ApiVersions between the tokens of a login, before it closes the connection."""
        version, correlation_id = int.from_bytes(header[2:4], "big"), int.from_bytes(header[4:8], "big", signed=True)
        answer = ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        self._channel.send(encode_response(API_VERSIONS, version, correlation_id, answer))
        self._channel.close()

    # --- The end of a login

    def _logged_in(self, login: Login) -> None:
        client, logins = self._connection.client, self._logins
        meter = logins.meter
        is_first = self._login is None
        if is_first:
            client.access = logins.access(login.identity.principal, client.host, client.listener)
            meter.successful_authentication += 1
            meter.successful_authentication_no_reauth += not self._supports_reauthentication
        else:
            meter.successful_reauthentication += 1
        self._stop_timer()
        self._login = login
        self._exchange = None
        self._limit_frames(is_logged_in=True)
        self._connection.gate = None
        if login.session_lifetime_ms is not None:
            self._ends_at = logins.ground.now() + login.session_lifetime_ms
            self._call_after(login.session_lifetime_ms, self._shut)
        else:
            client.login = None
        self._record(login.mechanism, str(login.identity.principal), is_success=True, is_first=is_first)

    def _refused(self, state: object) -> None:
        assert isinstance(state, Refused)
        is_first = self._login is None
        meter = self._logins.meter
        if is_first:
            meter.failed_authentication += 1
        else:
            meter.failed_reauthentication += 1
        client = self._connection.client
        self._channel.pause_reading()
        claimed = state.claimed[:MAX_LOGGED_NAME]
        log.info(
            "%s of %s on listener %s failed%s%s: %s",
            "login" if is_first else "re-authentication",
            client.host,
            client.listener,
            f" by {state.mechanism}" if state.mechanism else "",
            f" for user {claimed!r}" if claimed else "",
            state.reason,
        )
        self._record(
            state.mechanism, str(client.access.principal), is_first=is_first, reason=state.reason, claimed=claimed
        )

    def _record(
        self,
        mechanism: str,
        principal: str,
        *,
        is_first: bool,
        is_success: bool = False,
        reason: str = "",
        claimed: str = "",
    ) -> None:
        audit = self._logins.ground.audit
        if not audit.is_on:
            return
        client = self._connection.client
        details: dict[str, object] = {} if is_first else {"is_reauthentication": True}
        if claimed:
            details["claimed_user"] = claimed
        audit.record(
            AuditEvent(
                kind="login",
                principal=principal,
                host=client.host,
                listener=client.listener,
                is_success=is_success,
                operation=mechanism,
                reason=reason,
                details=details,
            )
        )

    def _timed_out(self) -> None:
        exchange = self._exchange
        assert exchange is not None
        exchange.refuse(f"the login did not end within {LOGIN_TIMEOUT_MS} ms")
        self._refused(exchange.state)
        self._channel.close()

    # Sessions

    def _shut(self) -> None:
        """The session is over: the next request closes the connection, unless the client authenticates again."""
        self._connection.gate = self

    def _may_reauthenticate(self) -> bool:
        before = self._reauthenticated_at
        return before is None or self._logins.ground.now() - before >= MIN_REAUTHENTICATION_INTERVAL_MS

    def _is_over(self, key: int) -> bool:
        """Whether the session is over; if so the connection was closed."""
        if self._logins.ground.now() <= self._ends_at or (key == SASL_HANDSHAKE_KEY and self._may_reauthenticate()):
            return False
        self._logins.meter.expired_connections_killed += 1
        client = self._connection.client
        log.info("closing the connection of %s: its session is over, and it did not authenticate again", client.host)
        self._channel.close()
        return True

    # Limits

    @property
    def _delay_ms(self) -> int:
        return self._logins.ground.config.connection_failed_authentication_delay_ms

    def _call_after(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self._logins.ground.loop.call_later(delay_ms / 1000, work)

    def _limit_frames(self, *, is_logged_in: bool) -> None:
        logins = self._logins
        self._channel.limit_frames(
            logins.ground.config.socket_request_max_bytes if is_logged_in else logins.max_receive_bytes
        )


def after_authentication() -> SaslAuthenticateResponse:
    """The answer to a token of a client that is authenticated already."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
