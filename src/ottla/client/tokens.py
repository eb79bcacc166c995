"""Tokens for OAUTHBEARER from an authorization server: the client-credentials grant (RFC 6749, 4.4).

A token is kept until most of its time is over, so that a client with many connections asks once. Nothing of the secret
or of a token is in any error.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPException
from math import isfinite
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

from ottla.client.errors import AuthenticationError, ConfigError, NetworkError
from ottla.client.security_config import SecurityConfig

TIMEOUT_SECONDS = 10
MAX_ANSWER_BYTES = 1024 * 1024
DEFAULT_LIFETIME_SECONDS = 60
REFRESH_SHARE = 0.8
"""The share of a token's life after which a new one is asked for, as in Kafka's clients."""


class TokenEndpoint:
    """Where tokens come from; calling it gives one that is good for a while."""

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        scope: str | None,
        config: SecurityConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
            raise ConfigError(
                f"sasl.oauthbearer.token.endpoint.url is {parts.scheme}://{parts.hostname}...: it has to be https, "
                "since the client's secret goes there"
            )
        self._url = url
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._client_id = client_id
        self._secret = secret
        self._scope = scope
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._good_until = 0.0

    def __call__(self) -> str:
        with self._lock:
            if not self._token or self._clock() >= self._good_until:
                token, lifetime = self._ask()
                self._token, self._good_until = token, self._clock() + lifetime * REFRESH_SHARE
            return self._token

    def _ask(self) -> tuple[str, float]:
        form = {"grant_type": "client_credentials"}
        if self._scope:
            form["scope"] = self._scope
        named = (self._client_id, self._secret)
        pair = ":".join(map(quote_plus, named) if self._config.sasl_oauthbearer_header_urlencode else named)
        request = Request(
            self._url,
            data=urlencode(form).encode(),
            headers={
                "Authorization": f"Basic {b64encode(pair.encode()).decode()}",
                "Content-Type": "application/x-www-form-urlencoded",
                "Accept": "application/json",
            },
        )
        try:
            with self._opener().open(request, timeout=TIMEOUT_SECONDS) as answer:
                if answer.status != 200:
                    raise self._refused(answer.status)
                return _read_token(answer.read(MAX_ANSWER_BYTES), self._where)
        except HTTPError as error:
            raise self._refused(error.code) from None
        except (OSError, UnicodeError, HTTPException) as error:
            raise NetworkError(f"no token from {self._where}: {error}") from None

    def _refused(self, status: int) -> AuthenticationError | NetworkError:
        if status >= 500:
            return NetworkError(f"no token from {self._where}: it answers HTTP {status}")
        return AuthenticationError(
            f"{self._where} gives client {self._client_id!r} no token (HTTP {status}): are its id, secret and scope "
            "right?"
        )

    def _opener(self) -> OpenerDirector:
        """One that follows no redirection: the secret goes where the settings say and nowhere else."""
        from ottla.client.tls import token_context

        opener = OpenerDirector()
        opener.add_handler(HTTPHandler())
        opener.add_handler(HTTPSHandler(context=token_context(self._config)))
        return opener


def _read_token(answer: bytes, where: str) -> tuple[str, float]:
    """The token in an answer, and how many seconds it lives."""
    try:
        found = json.loads(answer)
        token = found["access_token"]
        lifetime = float(found.get("expires_in", DEFAULT_LIFETIME_SECONDS))
        if not isfinite(lifetime):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        token, lifetime = None, 0.0
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise AuthenticationError(f"the answer of {where} holds no access_token")
    return token, max(lifetime, 0.0)
