"""A worker's connection inside TLS, after a login by SASL, or both. One in the open is a BlockingConnection and does
not pay for any of this.

Where the broker gives the login a time (KIP-368), it is renewed before the next request is sent: the answers that are
still under way are received first and kept for their tickets.
"""

from __future__ import annotations

import ssl
from math import inf
from typing import Any

from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, KafkaError, NetworkError
from ottla.client.logins import new_token
from ottla.client.tls import tls_context
from ottla.client.tls_failures import explain_failure
from ottla.net import Socket
from ottla.net.blocking import OS_BLOCKING, Blocking
from ottla.net.tls import TlsSocket
from ottla.security.authentication import Authentication
from ottla.spark.blocking_connection import FIRST_FRAME_BYTES, BlockingConnection
from ottla.wire import Message


class SecuredConnection(BlockingConnection):
    """A connection whose security.protocol is not PLAINTEXT."""

    def __init__(
        self,
        host: str,
        port: int,
        config: ClientConfig,
        limit_seconds: float = inf,
        *,
        blocking: Blocking = OS_BLOCKING,
    ) -> None:
        self._login_at: float | None = None
        super().__init__(host, port, config, limit_seconds, blocking=blocking)

    # The socket

    def _secure(self, plain: Socket, setup_seconds: float) -> Socket:
        if not self._config.has_tls:
            return plain
        secured = TlsSocket(plain, tls_context(self._config), server_hostname=self.host)
        try:
            secured.handshake_in_place(self._blocking, setup_seconds)
        except TimeoutError:
            raise NetworkError(
                f"{self.host}:{self.port} did not finish the TLS handshake within "
                f"{self._config.socket_connection_setup_timeout_ms} ms"
            ) from None
        except OSError as error:
            raise explain_failure(error, self.host, self.port) from error
        return secured

    def _send(self, pieces: list[Any]) -> None:
        super()._send([b"".join(pieces)])  # each piece would become its own TLS record

    def _failed(self, error: Exception) -> KafkaError:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            self.close()
            return explain_failure(error, self.host, self.port)
        return super()._failed(error)

    # The login

    def _log_in(self) -> None:
        if not self._config.has_sasl:
            return
        credentials = self._config.credentials()
        token = new_token(credentials) if credentials.token is not None else ""
        exchange = Authentication(credentials, self._blocking.rng, token, self.host)
        request: Message | None = exchange.begin()
        try:
            while request is not None:
                request = exchange.handle(self.receive(super().send(request)))
        except AuthenticationError as error:
            self.close()
            raise AuthenticationError(f"{self.host}:{self.port}: {error.message}", error.code) from None
        after_ms = exchange.reauthenticate_after_ms()
        self._login_at = None if after_ms is None else self._blocking.now() + after_ms / 1000

    def _renew_login(self) -> None:
        while self._waiting:
            self._receive_early()
        in_use = self._buffer
        self._buffer = bytearray(FIRST_FRAME_BYTES)
        self._log_in()
        self._buffer = in_use

    # Requests

    def send(self, request: Message, *, max_version: int | None = None, has_answer: bool = True) -> int:
        if self._login_at is not None and self._blocking.now() >= self._login_at:
            self._renew_login()
        return super().send(request, max_version=max_version, has_answer=has_answer)
