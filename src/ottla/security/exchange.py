"""SASL as a broker answers it: SaslHandshake, then tokens, until the login is complete or refused.

    Greeted --SaslHandshake--> Exchanging --last token--> LoggedIn
       |                           |
       +------- wrong request -----+--- wrong token ----> Refused

Tokens come in SaslAuthenticate requests after SaslHandshake v1, and bare (a size and a token) after v0. The machine
with a `previous` login is re-authentication (KIP-368): mechanism and principal must not change. After each answer the
caller looks at `state`: an answer that leaves it Refused is delayed, and the connection closed behind it.

Invariants: E1 a state that is LoggedIn or Refused takes nothing more; E2 a login takes at most MAX_ROUND_COUNT tokens;
E3 no answer to a failed login says whether the user exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.security.login import Identity, LoginRefused, ServerMechanism
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MAX_ROUND_COUNT = 10
"""The most tokens that a login may take. Kerberos needs three, SCRAM and OAUTHBEARER two."""
FIRST_VERSION_WITH_REQUESTS = 1
"""The version of SaslHandshake from which on tokens come in SaslAuthenticate requests."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login that is complete."""

    mechanism: str
    identity: Identity
    session_lifetime_ms: int | None
    """How long until the client has to authenticate again; None: it never has to."""


@dataclass(slots=True)
class Greeted:
    """No mechanism was chosen yet."""

    has_versions: bool = False
    """Whether ApiVersions was answered, which happens once."""


@dataclass(slots=True)
class Exchanging:
    mechanism: str
    server: ServerMechanism
    is_bare: bool
    """Whether tokens come without a request around them."""
    round_count: int = 0


@dataclass(frozen=True, slots=True)
class LoggedIn:
    login: Login


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str
    """For the log and the audit."""
    mechanism: str
    claimed: str
    """The user name that the client gave, if it came so far."""


State = Greeted | Exchanging | LoggedIn | Refused


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings for the logins of a listener."""

    mechanisms: Sequence[str]
    """In the order in which clients learn of them."""
    new_server: Callable[[str], ServerMechanism]
    """mechanism -> its server side, for one login."""
    max_reauth_ms: Callable[[str], int]
    """mechanism -> connections.max.reauth.ms, 0 if sessions do not end by themselves."""


class Exchange:
    """One login of one connection."""

    def __init__(self, terms: Terms, previous: Login | None = None) -> None:
        self.state: State = Greeted(has_versions=previous is not None)
        self._terms = terms
        self._previous = previous

    @property
    def is_bare(self) -> bool:
        """Whether the next frame is a token without a request around it."""
        return isinstance(self.state, Exchanging) and self.state.is_bare

    def versions(self) -> bool:
        """Whether ApiVersions may be answered now: before the handshake, once."""
        if isinstance(self.state, Greeted) and not self.state.has_versions:
            self.state.has_versions = True
            return True
        return False

    def refuse(self, reason: str) -> None:
        """The client sent what does not belong here."""
        state = self.state
        if isinstance(state, Exchanging):
            self.state = Refused(reason, state.mechanism, state.server.claimed)
        elif isinstance(state, Greeted):
            self.state = Refused(reason, "", "")

    def abandon(self) -> None:
        """The client closed the connection. If its token had been refused, the login failed: a client that does not
        wait for the last answer is counted and audited as well."""
        state = self.state
        if isinstance(state, Exchanging) and state.server.failure is not None:
            self.refuse(state.server.failure)

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        names = list(self._terms.mechanisms)
        if not isinstance(self.state, Greeted):
            self.refuse("a SaslHandshake request where a token was expected")
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        wanted = request.mechanism
        if wanted not in names:
            self.refuse("the client asked for a mechanism that is not enabled on this listener")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
        server: ServerMechanism = self._terms.new_server(wanted)
        if self._previous is not None and self._previous.mechanism != wanted:
            server = _Unusable(wanted, self._previous.mechanism)
        self.state = Exchanging(wanted, server, is_bare=version < FIRST_VERSION_WITH_REQUESTS)
        return SaslHandshakeResponse(mechanisms=names)

    def authenticate(self, request: SaslAuthenticateRequest, timestamp: int) -> SaslAuthenticateResponse | None:
        """The answer to a token in a request; None if the connection has to be closed without one."""
        state = self.state
        if not isinstance(state, Exchanging):
            self.refuse("a SaslAuthenticate request before SaslHandshake")
            return None
        try:
            challenge = self._next(state, bytes(request.auth_bytes), timestamp)
        except LoginRefused as error:
            self.state = Refused(error.reason, state.mechanism, state.server.claimed)
            if isinstance(state.server, _Unusable):
                return None
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=error.public_message or self._invalid(state.mechanism),
            )
        lifetime_ms = self.state.login.session_lifetime_ms if isinstance(self.state, LoggedIn) else None
        return SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms or 0)

    def token(self, token: bytes, timestamp: int) -> bytes | None:
        """The answer to a bare token; None if the connection has to be closed without one."""
        state = self.state
        assert isinstance(state, Exchanging)
        try:
            return self._next(state, token, timestamp)
        except LoginRefused as error:
            self.state = Refused(error.reason, state.mechanism, state.server.claimed)
            return None

    def _next(self, state: Exchanging, token: bytes, timestamp: int) -> bytes:
        state.round_count += 1
        if state.round_count > MAX_ROUND_COUNT:
            raise LoginRefused(f"the login did not end after {MAX_ROUND_COUNT} tokens")
        challenge = state.server.respond(token, timestamp)
        identity = state.server.identity
        if identity is not None:
            self._check_unchanged(identity)
            self.state = LoggedIn(Login(state.mechanism, identity, self._lifetime_ms(state, identity, timestamp)))
        return challenge

    def _check_unchanged(self, identity: Identity) -> None:
        if self._previous is None:
            return
        old, new = self._previous.identity.principal, identity.principal
        if old != new:
            message = (
                f"Cannot change principals during re-authentication from {old.type}.{old.name}: {new.type}.{new.name}"
            )
            raise LoginRefused(message, message)

    def _lifetime_ms(self, state: Exchanging, identity: Identity, timestamp: int) -> int | None:
        max_reauth_ms = self._terms.max_reauth_ms(state.mechanism)
        ends = [max_reauth_ms] if max_reauth_ms > 0 else []
        if identity.expires_at is not None:
            ends.append(max(0, identity.expires_at - timestamp))
        return min(ends, default=None)

    def _invalid(self, mechanism: str) -> str:
        during = "authentication" if self._previous is None else "re-authentication"
        return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {mechanism}"


class _Unusable:
    """Of a re-authentication by another mechanism: as in Kafka the handshake succeeds and the first token does not."""

    identity: Identity | None = None
    claimed = ""
    failure: str | None = None

    def __init__(self, wanted: str, previous: str) -> None:
        self._wanted = wanted
        self._previous = previous

    def respond(self, token: bytes, timestamp: int) -> bytes:
        raise LoginRefused(f"re-authentication by {self._wanted}, where the login was by {self._previous}")
