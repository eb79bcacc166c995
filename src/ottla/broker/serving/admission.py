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
        """A connection came: how long it waits."""
        if self.limit >= MAX_INT:
            return 0
        self._rate.record(1, now)
        return min(self._rate.throttle_ms(self.limit, now), self._window_ms)


class CreationRates:
    """KIP-612: how fast connections come to each listener and to the node. The listener of other brokers has only a
    limit of its own, if clients have other listeners: many clients do not keep brokers out."""

    def __init__(self, config: BrokerConfig) -> None:
        self._of_node = CreationRate(config, config.max_connection_creation_rate)
        self._of_listeners: dict[str, CreationRate] = {}

    def add(self, config: BrokerConfig, listener: str) -> None:
        self._of_listeners[listener] = CreationRate(config, own_limit(config, listener, MAX_CREATION_RATE))

    def use(self, config: BrokerConfig) -> None:
        """Take limits that changed."""
        self._of_node.limit = config.max_connection_creation_rate
        for listener, rate in self._of_listeners.items():
            rate.limit = own_limit(config, listener, MAX_CREATION_RATE)

    def pause_ms(self, listener: str, now: int, *, is_protected: bool) -> int:
        """A connection came to a listener: how long it waits, and all that come after it."""
        own_ms = self._of_listeners[listener].pause_ms(now)
        return own_ms if is_protected else max(own_ms, self._of_node.pause_ms(now))
