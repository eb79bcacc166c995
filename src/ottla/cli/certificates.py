"""A certificate authority of one's own, and certificates that it signs.

The package `cryptography`, with which they are made, is an extra (`ottla[security]`): a node that is given its
certificates does not need it. In a checkout it is installed when it is first needed, with the version that
requirements-security.lock pins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from ottla.cli.extras import need
from ottla.cli.session import MISUSED, CommandError

CA_DAYS, DAYS = 3_650, 825
CLOCK_SKEW = timedelta(hours=1)
"""How far the clock of another machine may be behind."""
MAX_COMMON_NAME = 64
"""RFC 5280's ub-common-name."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?")


def need_cryptography() -> None:
    need("security", ("cryptography",), "certificates are made with the package")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A key with its certificate, as PEM."""

    key: str = field(repr=False)
    certificate: str
    chain: str
    """The certificate, then those of its issuers."""

    @property
    def store(self) -> str:
        """The text of a key store of type PEM, as Kafka reads it."""
        return self.key + self.chain


class Authority:
    """Signs certificates."""

    def __init__(self, key: Any, certificate: Any) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, common_name: str, now: datetime | None = None) -> Authority:
        need_cryptography()
        from ottla.security.asymmetric import authority_certificate, new_key

        key = new_key()
        return cls(key, authority_certificate(key, common_name, _validity(now, CA_DAYS)))

    @classmethod
    def load(cls, key: bytes, certificate: bytes) -> Authority:
        """An existing authority; ValueError if the folder has none."""
        need_cryptography()
        from ottla.security.asymmetric import load_certificate, load_key

        return cls(load_key(key), load_certificate(certificate))

    @property
    def key(self) -> str:
        from ottla.security.asymmetric import key_text

        return key_text(self._key)

    @property
    def certificate(self) -> str:
        from ottla.security.asymmetric import certificate_text

        return certificate_text(self._certificate)

    def issue(
        self,
        common_name: str,
        names: Iterable[str] = (),
        *,
        is_server: bool,
        days: int = DAYS,
        now: datetime | None = None,
    ) -> Certificate:
        """A new key with a certificate for clients, or for servers of these names, which are clients of each other."""
        from ottla.security.asymmetric import certificate_text, key_text, new_key, signed_certificate

        if not common_name or len(common_name) > MAX_COMMON_NAME:
            raise CommandError(
                f"{common_name!r}: the name in a certificate has 1 to {MAX_COMMON_NAME} letters", MISUSED
            )
        alternatives = [_alternative(one) for one in dict.fromkeys(names)]
        key = new_key()
        signed = signed_certificate(
            (self._key, self._certificate),
            key,
            common_name,
            alternatives,
            _validity(now, days),
            is_server=is_server,
        )
        text = certificate_text(signed)
        return Certificate(key_text(key), text, text + self.certificate)


def _validity(now: datetime | None, days: int) -> tuple[datetime, datetime]:
    start = now or datetime.now(UTC)
    return start - CLOCK_SKEW, start + timedelta(days=days)


def _alternative(name: str) -> str | IPv4Address | IPv6Address:
    """An address or a host name, in the form that a server's certificate names it."""
    try:
        return ip_address(name)
    except ValueError:
        pass
    if not _HOST.fullmatch(name):
        raise CommandError(f"{name!r} is neither a host name nor an address", MISUSED)
    return name
