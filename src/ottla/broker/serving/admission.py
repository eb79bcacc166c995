"""Which connections a listener takes, and as which principal: limits on connections, and client certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.quotas import WindowedRate
from ottla.config.keys import MAX_INT
from ottla.net.listener import ConnectionRefused
from ottla.security.certificates import CertificateError, subject_name
from ottla.security.principal import ANONYMOUS, USER, Principal
from ottla.security.principal_mapping import NoMatchingRule, PrincipalMapping

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

MAX_CONNECTIONS = "max.connections"
MAX_CREATION_RATE = "max.connection.creation.rate"


def certified_principal(certificate: bytes | None, mapping: PrincipalMapping) -> Principal:
    """The principal of a client by the certificate that it has shown, ANONYMOUS without one. ConnectionRefused if no
    rule matches the name in it."""
    if certificate is None:
        return ANONYMOUS
    try:
        return Principal(USER, mapping.name(subject_name(certificate)))
    except (CertificateError, NoMatchingRule) as error:
        raise ConnectionRefused(f"its certificate names no principal: {error}") from None


def own_limit(config: BrokerConfig, listener: str, name: str) -> int:
    """A limit that is set with the prefix of a listener; none is no limit of its own."""
    if not config.has_of_listener(listener, name):
        return MAX_INT
    value = config.of_listener(listener, name)
    assert isinstance(value, int)
    return value


class CreationRate:
    """How fast connections come, against a limit per second."""

    def __init__(self, config: BrokerConfig, limit: int) -> None:
        self.limit = limit
        self._window_ms = config.quota_window_size_seconds * 1000
        self._rate = WindowedRate(config.quota_window_num, self._window_ms)

    def pause_ms(self, now: int) -> int:
        """A connection came: for how long no other one is to be accepted."""
        if self.limit >= MAX_INT:
            return 0
        self._rate.record(1, now)
        return min(self._rate.throttle_ms(self.limit, now), self._window_ms)
