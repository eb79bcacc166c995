"""Tokens for OAUTHBEARER: from an authorization server by the client-credentials grant (RFC 6749, 4.4), or from a file.

A token is kept until most of its time is over, so that a client with many connections asks once. Nothing of the secret
or of a token is in any error.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPException
from math import isfinite
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

from ottla.security.errors import AuthenticationError
from ottla.wire.errors import ErrorCode, KafkaError

TIMEOUT_SECONDS = 10
MAX_ANSWER_BYTES = 1024 * 1024
DEFAULT_LIFETIME_SECONDS = 60
REFRESH_SHARE = 0.8
"""The share of a token's life after which a new one is asked for, as in Kafka's clients."""


class NoToken(KafkaError):
    """The server did not answer; it may later."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class TokenEndpoint:
    """Where tokens come from; calling it gives one that is good for a while. It blocks. `context` gives the TLS context
    for the server, `is_url_encoded` says whether id and secret are URL-encoded on their way. ValueError if the address
    is not https."""

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        scope: str | None,
        context: Callable[[], ssl.SSLContext],
        *,
        is_url_encoded: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
            raise ValueError(
                f"sasl.oauthbearer.token.endpoint.url is {parts.scheme}://{parts.hostname}...: it has to be https, "
                "since the client's secret goes there"
            )
        self._url = url
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._client_id = client_id
        self._secret = secret
        self._scope = scope
        self._context = context
        self._is_url_encoded = is_url_encoded
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
        pair = ":".join(map(quote_plus, named) if self._is_url_encoded else named)
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
            raise NoToken(f"no token from {self._where}: {error}") from None

    def _refused(self, status: int) -> AuthenticationError | NoToken:
        if status >= 500:
            return NoToken(f"no token from {self._where}: it answers HTTP {status}")
        return AuthenticationError(
            f"{self._where} gives client {self._client_id!r} no token (HTTP {status}): are its id, secret and scope "
            "right?"
        )

    def _opener(self) -> OpenerDirector:
        """One that follows no redirection: the secret goes where the settings say and nowhere else."""
        opener = OpenerDirector()
        opener.add_handler(HTTPHandler())
        opener.add_handler(HTTPSHandler(context=self._context()))
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
    if not isinstance(token, str) or not _is_token(token):
        raise AuthenticationError(f"the answer of {where} holds no access_token")
    return token, max(lifetime, 0.0)


class TokenFile:
    """A token that another program writes into a file, read before each login. It blocks."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __call__(self) -> str:
        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_ANSWER_BYTES)
        except OSError as error:
            raise NoToken(f"no token from {self._path}: {error.strerror or error}") from None
        token = content.decode("ascii", "replace").strip()
        if not _is_token(token):
            raise AuthenticationError(f"{self._path} holds no token")
        return token


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()
