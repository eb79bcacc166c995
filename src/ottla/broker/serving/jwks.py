"""The keys that OAUTHBEARER tokens are signed with, kept up to date beside the loop (KIP-768).

A file is read before the listener opens, and a file without a usable key stops the start. Keys of an https URL are
fetched once the node runs: until the first fetch succeeds, every token is refused. Later failures leave the keys
unchanged. A token with an unknown key brings the next refresh forward, at most once in MIN_REFRESH_INTERVAL_MS, however
many such tokens come.
"""

from __future__ import annotations

import asyncio
import logging
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ottla.config import ConfigError
from ottla.net import beside_loop
from ottla.net.jaas_tls import jaas_context
from ottla.net.tls_contexts import TlsSettingsError
from ottla.security.signatures import KeySet, KeySetError, parse_key_set

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.serving.sasl_settings import BearerSettings

log = logging.getLogger("ottla.serving")

FETCH_TIMEOUT_S = 10
MAX_JWKS_BYTES = 1024 * 1024
MIN_REFRESH_INTERVAL_MS = 10_000
_CHUNK_BYTES = 64 * 1024


class JwksError(OSError):
    """Why keys could not be read."""


class Jwks:
    """The key set of one URL."""

    def __init__(self, ground: Ground, settings: BearerSettings) -> None:
        self.keys = KeySet()
        self._ground = ground
        self._settings = settings
        self._is_wanted = asyncio.Event()
        self._refreshed_at = -MIN_REFRESH_INTERVAL_MS
        if settings.jwks_url.startswith("file:"):
            try:
                self.keys = read_keys(settings.jwks_url)
            except JwksError as error:
                raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url {settings.jwks_url}: {error}") from None
            self._refreshed_at = ground.now()
        ground.spawn(self._keep_up())

    def want_refresh(self) -> None:
        """A token names an unknown key."""
        self._is_wanted.set()

    async def _keep_up(self) -> None:
        backoff_ms = self._settings.retry_backoff_ms
        is_due = not len(self.keys)
        while True:
            if not is_due:
                await self._wait()
            try:
                self.keys = await beside_loop(lambda: read_keys(self._settings.jwks_url, self._settings.tls_options))
            except OSError as error:
                log.warning(
                    "the keys of OAUTHBEARER tokens could not be read from %s: %s", self._settings.jwks_url, error
                )
                is_due = True
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(2 * backoff_ms, self._settings.retry_backoff_max_ms)
            else:
                log.info("%d keys of OAUTHBEARER tokens read from %s", len(self.keys), self._settings.jwks_url)
                is_due = False
                backoff_ms = self._settings.retry_backoff_ms
                self._refreshed_at = self._ground.now()
                self._is_wanted.clear()

    async def _wait(self) -> None:
        """Wait until the keys must be read again."""
        try:
            async with asyncio.timeout(self._settings.refresh_ms / 1000):
                await self._is_wanted.wait()
        except TimeoutError:
            return
        interval_ms = min(MIN_REFRESH_INTERVAL_MS, self._settings.refresh_ms)
        left_ms = self._refreshed_at + interval_ms - self._ground.now()
        if left_ms > 0:
            await asyncio.sleep(left_ms / 1000)


def read_keys(url: str, tls_options: Mapping[str, str] = MappingProxyType({})) -> KeySet:
    """The keys of a URL; JwksError if they cannot be read. It blocks."""
    try:
        return parse_key_set(_read_file(url) if url.startswith("file:") else _fetch(url, tls_options))
    except KeySetError as error:
        raise JwksError(str(error)) from None


def _read_file(url: str) -> bytes:
    path = Path(unquote(urlsplit(url).path))
    try:
        with path.open("rb") as file:
            content = file.read(MAX_JWKS_BYTES + 1)
    except OSError as error:
        raise JwksError(f"{path}: {error.strerror or error}") from None
    return _bounded(content)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        """Keys are read only from the address in the settings."""


def _fetch(url: str, tls_options: Mapping[str, str]) -> bytes:
    try:
        context = jaas_context(tls_options)
    except TlsSettingsError as error:
        raise JwksError(str(error)) from None
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects())
    ends_at = time.monotonic() + FETCH_TIMEOUT_S
    content = b""
    try:
        with opener.open(url, timeout=FETCH_TIMEOUT_S) as answer:
            while chunk := answer.read1(_CHUNK_BYTES):
                content = _bounded(content + chunk)
                if time.monotonic() > ends_at:
                    raise JwksError(f"the answer did not end within {FETCH_TIMEOUT_S} s")
    except JwksError:
        raise
    except (OSError, ValueError, HTTPException) as error:
        raise JwksError(str(error)) from None
    return content


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_JWKS_BYTES:
        raise JwksError(f"it is larger than {MAX_JWKS_BYTES} bytes")
    return content
