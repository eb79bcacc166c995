"""Which connections a listener accepts, and their principals: connection limits and client certificates."""

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
    """The principal of a client, from its certificate, ANONYMOUS without one. ConnectionRefused if no
    rule matches the name in it."""
    if certificate is None:
        return ANONYMOUS
    try:
        return Principal(USER, mapping.name(subject_name(certificate)))
    except (CertificateError, NoMatchingRule) as error:
        raise ConnectionRefused(f"its certificate names no principal: {error}") from None


def own_limit(config: BrokerConfig, listener: str, name: str) -> int:
    """The limit that is set with the prefix of a listener; unlimited without one."""
    if not config.has_of_listener(listener, name):
        return MAX_INT
    value = config.of_listener(listener, name)
    assert isinstance(value, int)
    return value


class CreationRate:
    """The rate of new connections, against a limit per second."""

    def __init__(self, config: BrokerConfig, limit: int) -> None:
        self.limit = limit
        self._window_ms = config.quota_window_size_seconds * 1000
        self._rate = WindowedRate(config.quota_window_num, self._window_ms)

    def pause_ms(self, now: int) -> int:
        """Count a new connection; returns how long it must wait."""
        if self.limit >= MAX_INT:
            return 0
        self._rate.record(1, now)
        return min(self._rate.throttle_ms(self.limit, now), self._window_ms)


class CreationRates:
    """KIP-612: the rates of new connections to each listener and to the node. If clients have other listeners, the
    listener for brokers has only its own limit, so that clients cannot keep brokers out.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._of_node = CreationRate(config, config.max_connection_creation_rate)
        self._of_listeners: dict[str, CreationRate] = {}

    def add(self, config: BrokerConfig, listener: str) -> None:
        self._of_listeners[listener] = CreationRate(config, own_limit(config, listener, MAX_CREATION_RATE))

    def use(self, config: BrokerConfig) -> None:
        """Apply changed limits."""
        self._of_node.limit = config.max_connection_creation_rate
        for listener, rate in self._of_listeners.items():
            rate.limit = own_limit(config, listener, MAX_CREATION_RATE)

    def pause_ms(self, listener: str, now: int, *, is_protected: bool) -> int:
        """Count a new connection to a listener; returns how long it and all later ones must wait."""
        own_ms = self._of_listeners[listener].pause_ms(now)
        return own_ms if is_protected else max(own_ms, self._of_node.pause_ms(now))
