"""Tokens for OAUTHBEARER: from an authorization server by the client-credentials grant (RFC 6749, 4.4) or for an
assertion (RFC 7523, 2.1), or from a file.

A token is reused until most of its life is over, so that a client with many connections asks once. No error contains
the secret or any part of a token.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request
from uuid import uuid4

from ottla.security.assertion import AssertionRules, new_assertion, parse_template
from ottla.security.errors import AuthenticationError
from ottla.wire.errors import ErrorCode, KafkaError

TIMEOUT_SECONDS = 10
MAX_ANSWER_BYTES = 1024 * 1024
DEFAULT_LIFETIME_SECONDS = 60
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
REFRESH_SHARE = 0.8
"""The share of a token's life after which a new one is asked for, as in Kafka's clients."""


class NoToken(KafkaError):
    """The server did not give a token now; it may later."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class TokenEndpoint:
    """Gets tokens from an authorization server; a call returns a token that is valid for some time. It blocks.
    `context` gives the TLS context for the server, `is_url_encoded` says whether id and secret are URL-encoded on their
    way. With an `assertion`, a function that makes one, id and secret are not sent. ValueError if the address is not
    https.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        secret: str,
        scope: str | None,
        context: Callable[[], ssl.SSLContext],
        *,
        is_url_encoded: bool = False,
        assertion: Callable[[], str] | None = None,
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
        self._assertion = assertion
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
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._assertion is None:
            form = {"grant_type": "client_credentials"}
            named = (self._client_id, self._secret)
            pair = ":".join(map(quote_plus, named) if self._is_url_encoded else named)
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form = {"grant_type": JWT_BEARER, "assertion": self._assertion()}
        if self._scope:
            form["scope"] = self._scope
        request = Request(self._url, data=urlencode(form).encode(), headers=headers)
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
        if self._assertion is not None:
            return AuthenticationError(
                f"{self._where} gives no token for the assertion (HTTP {status}): does it know the key, the claims and "
                "the scope?"
            )
        return AuthenticationError(
            f"{self._where} gives client {self._client_id!r} no token (HTTP {status}): are its id, secret and scope "
            "right?"
        )

    def _opener(self) -> OpenerDirector:
        """An opener that follows no redirection: the secret is sent only to the configured address."""
        opener = OpenerDirector()
        opener.add_handler(HTTPHandler())
        opener.add_handler(HTTPSHandler(context=self._context()))
        return opener


def _read_token(answer: bytes, where: str) -> tuple[str, float]:
    """The token of an answer, and how many seconds it is valid."""
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


class SignedAssertion:
    """Assertions signed with the key in a file, from claims and a template file; both files are read each time, so they
    can be replaced. AuthenticationError if one of them cannot be used.
    """

    def __init__(
        self,
        rules: AssertionRules,
        key_file: str,
        passphrase: str | None = None,
        template_file: str | None = None,
        *,
        has_id: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rules = rules
        self._key_file = Path(key_file)
        self._passphrase = passphrase
        self._template_file = None if template_file is None else Path(template_file)
        self._has_id = has_id
        self._clock = clock

    def __call__(self) -> str:
        from ottla.security import asymmetric

        template: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        reading = self._key_file
        try:
            pem = _read(reading)
            key = asymmetric.load_key(pem, self._passphrase)
            if self._template_file is not None:
                reading = self._template_file
                template = parse_template(_read(reading).decode())
        except OSError as error:
            raise NoToken(f"no assertion from {reading}: {error.strerror or error}") from None
        except ValueError as error:
            what = "it holds no private key that this passphrase opens" if reading is self._key_file else str(error)
            raise AuthenticationError(f"no assertion from {reading}: {what}") from None
        sign = partial(asymmetric.sign, key, self._rules.algorithm)
        try:
            return new_assertion(
                self._rules, template, sign, int(self._clock()), str(uuid4()) if self._has_id else None
            )
        except ValueError as error:
            raise AuthenticationError(f"no assertion from {self._key_file}: {error}") from None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_ANSWER_BYTES)


class TokenFile:
    """A token that another program writes into a file, read before each login. It blocks."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __call__(self) -> str:
        try:
            content = _read(self._path)
        except OSError as error:
            raise NoToken(f"no token from {self._path}: {error.strerror or error}") from None
        token = content.decode("ascii", "replace").strip()
        if not _is_token(token):
            raise AuthenticationError(f"{self._path} holds no token")
        return token


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()
