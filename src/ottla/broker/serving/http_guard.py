"""Who may use a node's HTTP port: this machine alone, or beyond it a client with a bearer token or a certificate.

Every request is checked before its path is looked at, so that no spelling of a path avoids the check (CVE-2026-105949);
a request without the header is refused like one with a wrong token (CVE-2025-61673).
"""

from __future__ import annotations

import hmac
import posixpath
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from ottla.config import ConfigError
from ottla.config.open_listeners import is_loopback

LOOPBACK: Final = "127.0.0.1"
MIN_TOKEN_BYTES: Final = 16
MAX_TOKEN_BYTES: Final = 4_096
_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = b"bearer "


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Where the port is, and what a client needs: a token, else (with TLS) a certificate, else to be on this
    machine.
    """

    host: str = LOOPBACK
    token: bytes | None = field(default=None, repr=False)
    has_tls: bool = False

    def check(self) -> None:
        """ConfigError if other machines could use the port without a token or a certificate."""
        if not is_loopback(self.host) and self.token is None and not self.has_tls:
            raise ConfigError(
                f"--metrics-host {self.host}: other machines reach this address, so clients need a token "
                "(--metrics-token-file FILE) or a certificate (--metrics-tls)"
            )

    @property
    def needs_certificate(self) -> bool:
        return self.has_tls and self.token is None

    def lets_in(self, head: bytes) -> bool:
        """Whether a request has the token that it needs; exactly one Authorization header counts."""
        if self.token is None:
            return True
        given = []
        for line in head.split(b"\r\n")[1:]:
            name, colon, value = line.partition(b":")
            if colon and name.strip().lower() == _AUTHORIZATION:
                given.append(value.strip())
        if len(given) != 1 or given[0][: len(_BEARER)].lower() != _BEARER:
            return False
        return hmac.compare_digest(given[0][len(_BEARER) :].strip(), self.token)


def read_token(path: str) -> bytes:
    """The first line of a file; ConfigError if it is too weak to protect anything."""
    try:
        with open(path, "rb") as file:
            token = file.readline(MAX_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise ConfigError(f"--metrics-token-file {path} cannot be read: {error.strerror}") from None
    if not MIN_TOKEN_BYTES <= len(token) <= MAX_TOKEN_BYTES or not token.isascii() or b" " in token:
        raise ConfigError(
            f"--metrics-token-file {path}: its first line has to be {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} characters "
            "without blanks, for example of: openssl rand -hex 32"
        )
    return token


def normalised_path(target: bytes) -> bytes | None:
    """The path of a request in its normalised form; None if it has none."""
    path = unquote_to_bytes(target.split(b"?", 1)[0].split(b"#", 1)[0])
    if not path.startswith(b"/") or b"\x00" in path or b"\\" in path:
        return None
    return posixpath.normpath(b"/" + path.lstrip(b"/"))
