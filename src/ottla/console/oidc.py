"""Logins by OpenID Connect: the authorization-code flow with PKCE (RFC 7636), and the token of a user's clients.

The console asks the issuer for an access token in the user's name and logs in to the cluster with it (OAUTHBEARER). The
brokers check the token; the console reads the subject, for the name of the session, and counts nothing else in it as
true. The calls block: they run beside the loop.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from math import isfinite
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

from ottla.client.errors import AuthenticationError, NetworkError
from ottla.console.faults import Fault, invalid

CALLBACK = "/login/callback"
TIMEOUT_S = 10
MAX_ANSWER_BYTES = 1024 * 1024
MAX_TOKEN = 64 * 1024
MAX_SUBJECT = 1_000
ATTEMPT_S = 600.0
"""How long a user may take at the issuer."""
DEFAULT_LIFETIME_S = 60.0
REFRESH_SHARE = 0.8
TOKEN_PROVIDER = "sasl_oauthbearer_token_provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """Where users log in, and as what this console is known there."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scope: str = "openid"
    public_url: str | None = None
    """Where browsers reach this console; None: where it listens."""

    def __post_init__(self) -> None:
        """ValueError if a secret must not be sent to the address."""
        check_address(self.issuer)


def check_address(url: str) -> None:
    parts = urlsplit(url)
    is_here = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or not (parts.scheme == "https" or is_here):
        raise ValueError(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]} has to be https, since tokens pass there")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login that began in a session: its answer must have these values."""

    state: str = field(repr=False)
    verifier: str = field(repr=False)
    began_at: float

    def is_answered_by(self, state: Any, now: float) -> bool:
        is_same = isinstance(state, str) and hmac.compare_digest(self.state.encode(), state.encode())
        return is_same and now - self.began_at < ATTEMPT_S


def authorization_url(endpoint: str, config: OidcConfig, attempt: Attempt, redirect_url: str) -> str:
    """Where the browser goes to log in."""
    digest = hashlib.sha256(attempt.verifier.encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": config.client_id,
        "redirect_uri": redirect_url,
        "scope": config.scope,
        "state": attempt.state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"


def subject_of(token: str) -> str:
    """The subject of a JWT. ValueError for a text that is no JWT, or has no subject."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN:
        raise ValueError("the access token is no JWT, which brokers need to check it")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        raise ValueError("the access token is no JWT, which brokers need to check it") from None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        raise ValueError("the access token names no subject")
    return subject


@dataclass(frozen=True, slots=True)
class Grant:
    """The tokens that the issuer gave."""

    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    lifetime_s: float

    @property
    def subject(self) -> str:
        return subject_of(self.access)


def parse_grant(answer: Any, refresh: str | None = None) -> Grant:
    """ValueError if the answer holds no token. Without a new refresh token the old one stays."""
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise ValueError("the issuer's answer holds no access_token")
    lifetime = answer.get("expires_in", DEFAULT_LIFETIME_S)
    if isinstance(lifetime, bool) or not isinstance(lifetime, int | float) or not isfinite(lifetime) or lifetime <= 0:
        lifetime = DEFAULT_LIFETIME_S
    given = answer.get("refresh_token", refresh)
    grant = Grant(answer["access_token"], given if isinstance(given, str) else None, float(lifetime))
    subject_of(grant.access)
    return grant


class Issuer:
    """Calls of the issuer. Redirects are not followed: a code and a secret are sent only to the addresses in the
    issuer's document."""

    def __init__(self, config: OidcConfig) -> None:
        self.config = config
        self._document: Mapping[str, str] = {}

    def endpoint(self, name: str) -> str:
        """An address of the issuer's discovery document."""
        if not self._document:
            where = f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = self._ask(Request(where, headers={"Accept": "application/json"}))
            if not isinstance(found, dict) or found.get("issuer") != self.config.issuer:
                raise self._broken("its discovery document names another issuer")
            names = ("authorization_endpoint", "token_endpoint")
            document = {one: str(found.get(one) or "") for one in names}
            try:
                for address in document.values():
                    check_address(address)
            except ValueError as error:
                raise self._broken(str(error)) from None
            self._document = document
        return self._document[name]

    def exchange(self, code: str, verifier: str, redirect_url: str) -> Grant:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_url}
        return self._grant({**form, "code_verifier": verifier})

    def refresh(self, token: str) -> Grant:
        return self._grant({"grant_type": "refresh_token", "refresh_token": token}, token)

    def _grant(self, form: dict[str, str], refresh: str | None = None) -> Grant:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self.config.client_secret is not None:
            pair = urlencode({self.config.client_id: self.config.client_secret}).replace("=", ":", 1)
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        data = urlencode({**form, "client_id": self.config.client_id}).encode()
        answer = self._ask(Request(self.endpoint("token_endpoint"), data, headers))
        try:
            return parse_grant(answer, refresh)
        except ValueError as error:
            raise self._broken(str(error)) from None

    def _ask(self, request: Request) -> Any:
        opener = OpenerDirector()
        opener.add_handler(HTTPHandler())
        opener.add_handler(HTTPSHandler(context=ssl.create_default_context()))
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                status, data = answer.status, answer.read(MAX_ANSWER_BYTES)
        except (OSError, UnicodeError, HTTPException) as error:
            raise NetworkError(f"{self.config.issuer} does not answer: {error}") from None
        if 400 <= status < 500:
            raise AuthenticationError(f"{self.config.issuer} refuses this login (HTTP {status})")
        if status != 200:
            raise self._broken(f"it answers HTTP {status}")
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise self._broken("its answer is not valid JSON") from None

    def _broken(self, why: str) -> NetworkError:
        return NetworkError(f"no login with {self.config.issuer}: {why}")


class Tokens:
    """The token of one user, for all clients of that user. Calling it returns a token that is valid for a while."""

    def __init__(
        self, grant: Grant, renew: Callable[[str], Grant] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.subject = grant.subject
        self._renew = renew
        self._clock = clock
        self._lock = threading.Lock()
        self._keep(grant)

    def _keep(self, grant: Grant) -> None:
        self._grant = grant
        self._ends_at = self._clock() + grant.lifetime_s
        self._due_at = self._clock() + grant.lifetime_s * (REFRESH_SHARE if grant.refresh is not None else 1.0)

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._due_at

    @property
    def is_over(self) -> bool:
        """Whether brokers refuse the token by now."""
        return self._clock() >= self._ends_at

    def take(self, other: Tokens) -> None:
        """A later login of the same user."""
        assert other.subject == self.subject
        with self._lock:
            self._grant, self._due_at, self._ends_at = other._grant, other._due_at, other._ends_at

    def __call__(self) -> str:
        with self._lock:
            if self.is_due:
                if self._grant.refresh is None or self._renew is None:
                    raise AuthenticationError("the login has expired")
                try:
                    grant = self._renew(self._grant.refresh)
                except AuthenticationError:
                    self._keep(Grant(self._grant.access, None, 0.0))
                    raise
                if grant.subject != self.subject:
                    raise AuthenticationError("the issuer renewed the token of another user")
                self._keep(grant)
            return self._grant.access


def credentials_with(tokens: Tokens) -> dict[str, Any]:
    """Settings of a client that logs in with this token."""
    return {"sasl.mechanism": "OAUTHBEARER", TOKEN_PROVIDER: tokens}


def parse_answer(body: Mapping[str, Any], attempt: Attempt | None, now: float) -> str:
    """The code that the issuer gave to the browser. Fault if this session did not begin that login."""
    code = body.get("code")
    if not isinstance(code, str) or not 0 < len(code) <= MAX_TOKEN:
        raise invalid("code is missing")
    if attempt is None or not attempt.is_answered_by(body.get("state"), now):
        raise Fault(401, "LOGIN_FAILED", "this login did not begin here, or it took too long", "log in again")
    return code
