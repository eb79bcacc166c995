"""One login by GSSAPI. The package for it is imported on use, so that a node without Kerberos does not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.peers.kerberos_settings import KerberosSettings
    from ottla.security.login import Identity


class KerberosServer:
    failure: str | None = None

    def __init__(self, settings: KerberosSettings) -> None:
        from ottla.net.kerberos import GssapiServer

        self._server = GssapiServer(settings.principal, settings.keytab, settings.names)

    @property
    def identity(self) -> Identity | None:
        return self._server.identity

    @property
    def claimed(self) -> str:
        return self._server.claimed

    def prepare(self, token: bytes) -> None:
        """Process a token, in a thread."""
        self._server.prepare(token)

    def respond(self, token: bytes, timestamp: int) -> bytes:
        return self._server.respond(token, timestamp)
