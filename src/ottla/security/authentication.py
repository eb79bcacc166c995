"""SASL as Kafka carries it: which request comes next, until the broker knows the principal.

    handshake --SaslHandshakeResponse--> exchange --SaslAuthenticateResponse--> exchange | done

`begin` gives the first request, `handle` takes each answer and gives the next request, None at the end. The same
exchange on a connection that stands is re-authentication (KIP-368). Whatever goes wrong is an AuthenticationError, and
no client tries that again by itself: the same credentials would be refused again, and brokers may lock users.
Invariants: A1 nothing is sent after the mechanism is done; A2 the broker's last word is checked by the mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from ottla.security.errors import AuthenticationError
from ottla.security.scram import MECHANISMS as SCRAM_MECHANISMS
from ottla.security.scram import Scram
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
MAX_ROUND_COUNT = 10
"""No mechanism takes more than two; a broker that goes on asking is given up."""
_KVSEP = "\x01"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user that logs in, the mechanism, and the credentials."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    is_delegation_token: bool = False
    token: Callable[[], str] | None = field(default=None, repr=False)
    """Where an OAUTHBEARER token comes from, before each authentication; it may block."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """SASL extensions (KIP-342) that go with the token."""
    mechanism_at: Callable[[str], Mechanism] | None = field(default=None, repr=False)
    """For GSSAPI: the mechanism for the broker on a host."""


class Mechanism(Protocol):
    """The client's messages of one SASL mechanism."""

    def initial(self) -> bytes:
        """The first token."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None when there is nothing more to say."""


class Plain:
    """User and password as they are (RFC 4616): only good inside TLS."""

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password

    def initial(self) -> bytes:
        return f"\0{self._username}\0{self._password}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise AuthenticationError(f"{PLAIN}: the broker sent a challenge, which this mechanism does not have")
        return None


class OAuthBearer:
    """A token that an authorization server gave out (RFC 7628)."""

    def __init__(self, token: str | Callable[[], str], extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = extensions

    def initial(self) -> bytes:
        pairs = "".join(f"{name}={value}{_KVSEP}" for name, value in self._extensions.items())
        token = self._token if isinstance(self._token, str) else self._token()
        return f"n,,{_KVSEP}auth=Bearer {token}{_KVSEP}{pairs}{_KVSEP}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if not challenge:
            return None
        # The broker has sent the reason of a refusal, and fails the exchange once the client acknowledges it.
        return _KVSEP.encode()


def mechanism_of(
    credentials: Credentials, rng: Random, token: str | Callable[[], str] = "", host: str = ""
) -> Mechanism:
    """The mechanism for these credentials; `token` is what `credentials.token` gave, or that function itself if it may
    be called in the course of the exchange."""
    if credentials.mechanism == PLAIN:
        return Plain(credentials.username, credentials.password)
    if credentials.mechanism_at is not None:
        return credentials.mechanism_at(host)
    if credentials.mechanism == OAUTHBEARER:
        return OAuthBearer(token, credentials.extensions)
    return Scram(
        credentials.mechanism,
        credentials.username,
        credentials.password,
        rng,
        is_delegation_token=credentials.is_delegation_token,
    )


class Authentication:
    """One exchange, from the handshake to the broker's consent."""

    def __init__(
        self, credentials: Credentials, rng: Random, token: str | Callable[[], str] = "", host: str = ""
    ) -> None:
        """`host`: the broker's name, as the client dialled it; a Kerberos ticket is for one host."""
        self.session_lifetime_ms = 0
        """How long the broker lets the connection live before it wants to hear the credentials again; 0: for ever."""
        self._credentials = credentials
        self._mechanism = mechanism_of(credentials, rng, token, host)
        self._rounds = 0
        self._rng = rng

    @property
    def is_slow(self) -> bool:
        """Whether `handle` may block: it hashes a password as often as the broker asks for (up to a second), or asks a
        KDC. Do not call it on an event loop then."""
        return isinstance(self._mechanism, Scram) or self._credentials.mechanism_at is not None

    def begin(self) -> Message:
        return SaslHandshakeRequest(mechanism=self._credentials.mechanism)

    def handle(self, response: Message) -> Message | None:
        """The request that follows on an answer; None when the broker has accepted the credentials."""
        if isinstance(response, SaslHandshakeResponse):
            return self._shaken(response)
        assert isinstance(response, SaslAuthenticateResponse), response
        return self._challenged(response)

    def reauthenticate_after_ms(self) -> int | None:
        """When to authenticate again, counted from the broker's consent: some time before the session is over, not for
        all clients at once; None if never."""
        if self.session_lifetime_ms <= 0:
            return None
        return int(self.session_lifetime_ms * (0.85 + 0.10 * self._rng.random()))

    def _shaken(self, response: SaslHandshakeResponse) -> Message:
        wanted = self._credentials.mechanism
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "none"
            raise AuthenticationError(
                f"the SASL mechanism {wanted} is not enabled on this listener, which offers {offered}: set "
                "sasl.mechanism to one of those, or have the broker's sasl.enabled.mechanisms name it",
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            )
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationError(
                "this listener does not authenticate by SASL: set security.protocol to PLAINTEXT or SSL, or name a "
                "listener whose protocol is SASL_PLAINTEXT or SASL_SSL",
                ErrorCode.ILLEGAL_SASL_STATE,
            )
        self._check(response.error_code, None)
        return SaslAuthenticateRequest(auth_bytes=self._mechanism.initial())

    def _challenged(self, response: SaslAuthenticateResponse) -> Message | None:
        self._check(response.error_code, response.error_message)
        self._rounds += 1
        if self._rounds > MAX_ROUND_COUNT:
            raise AuthenticationError(f"the broker asked {self._rounds} times and did not come to an end")
        answer = self._mechanism.respond(bytes(response.auth_bytes))
        if answer is None:
            self.session_lifetime_ms = response.session_lifetime_ms
            return None
        return SaslAuthenticateRequest(auth_bytes=answer)

    def _check(self, code: int, message: str | None) -> None:
        if not code:
            return
        mechanism, username = self._credentials.mechanism, self._credentials.username
        if code != ErrorCode.SASL_AUTHENTICATION_FAILED:
            known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
            reason = message or known.text
            raise AuthenticationError(f"the broker ended the authentication by {mechanism}: {reason}", known)
        reason = f" ({message})" if message else ""
        if mechanism == OAUTHBEARER:
            what, advice = "the OAUTHBEARER token", "is it expired, and meant for this cluster?"
        elif mechanism == GSSAPI:
            what, advice = (
                "the Kerberos ticket",
                "do sasl.kerberos.principal.to.local.rules of the broker know the name?",
            )
        else:
            what = f"user {username!r} with this password by {mechanism}"
            advice = "are sasl.mechanism, user and password right, and has the password changed or expired?"
        raise AuthenticationError(f"the broker refused {what}{reason}: {advice}")
