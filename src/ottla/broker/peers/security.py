"""TLS and logins of this node's connections to other nodes, by the settings of the listener that it connects to.

Brokers are reached through `inter.broker.listener.name`, controllers through the first of `controller.listener.names`.
The credentials are `username` and `password` of the login module in `sasl.jaas.config` (with the prefixes of listener
and mechanism), as in Kafka; tokens of OAUTHBEARER come from `token_source`. Errors are logged once for each address and
then every 30 s, not at each attempt.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from random import Random

from ottla.broker.listener_tls import has_tls, peer_context
from ottla.broker.peers.kerberos_settings import kerberos_credentials
from ottla.broker.peers.token_source import bearer_credentials
from ottla.config import BrokerConfig, ConfigError
from ottla.security.authentication import GSSAPI, OAUTHBEARER, PLAIN, Authentication, Credentials
from ottla.security.errors import AuthenticationError
from ottla.security.jaas import parse_jaas
from ottla.security.scram import MECHANISMS as SCRAM_MECHANISMS

log = logging.getLogger("ottla.peers")

LOG_EVERY_S = 30.0
MAX_TROUBLES = 1_000
"""Addresses whose error is kept."""
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
_MODULES = {PLAIN: "plain.PlainLoginModule", OAUTHBEARER: "oauthbearer.OAuthBearerLoginModule"}
_SCRAM_MODULE = "scram.ScramLoginModule"


class Troubles:
    """Errors of TLS and logins, by address."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._by_address: dict[str, tuple[str, float]] = {}
        """Address -> the error, and when it was logged."""

    def add(self, address: str, what: str) -> None:
        known = self._by_address.get(address)
        now = self._time()
        if known is not None and known[0] == what and now - known[1] < LOG_EVERY_S:
            return
        if known is None and len(self._by_address) >= MAX_TROUBLES:
            self._by_address.clear()
        self._by_address[address] = (what, now)
        log.error("node at %s: %s", address, what)

    def remove(self, address: str) -> None:
        if self._by_address.pop(address, None) is not None:
            log.info("node at %s: the connection is secured and open", address)

    def at(self, address: str) -> str:
        known = self._by_address.get(address)
        return "" if known is None else known[0]


class NodeSecurity:
    """Connections to one kind of listener of other nodes."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        listener: str,
        security_protocol: str,
        mechanism: str,
        rng: Random,
        troubles: Troubles,
    ) -> None:
        self._config = config
        self._listener = listener
        self._security_protocol = security_protocol
        self._mechanism = mechanism
        self._rng = rng
        self._troubles = troubles
        self._logs_in = security_protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        return has_tls(self._security_protocol)

    def check(self) -> None:
        """ConfigError if the settings give no context or no credentials."""
        self.context()
        if self._logs_in:
            credentials_of(self._config(), self._listener, self._mechanism)

    def context(self) -> ssl.SSLContext | None:
        if not self.has_tls:
            return None
        return peer_context(self._config(), self._listener, self._security_protocol)

    def authentication(self, host: str) -> Authentication | None:
        if not self._logs_in:
            return None
        credentials = credentials_of(self._config(), self._listener, self._mechanism)
        # The exchange runs on a thread and asks for a token there.
        return Authentication(credentials, self._rng, credentials.token or "", host)

    def failed(self, address: str, error: Exception) -> None:
        self._troubles.add(address, explain(error, self._listener, self._security_protocol))

    def opened(self, address: str) -> None:
        self._troubles.remove(address)


def broker_security(config: Callable[[], BrokerConfig], rng: Random, troubles: Troubles) -> NodeSecurity | None:
    """For connections to other brokers; None without TLS and SASL."""
    listener = config().inter_broker_listener
    protocol = config().security_protocols.get(listener, "PLAINTEXT")
    if protocol == "PLAINTEXT":
        return None
    return NodeSecurity(
        config, listener, protocol, config().sasl_mechanism_inter_broker_protocol.upper(), rng, troubles
    )


def controller_security(config: Callable[[], BrokerConfig], rng: Random, troubles: Troubles) -> NodeSecurity | None:
    """For connections to controllers; None without TLS and SASL."""
    listener = config().controller_listener_names[0].upper()
    protocol = config().security_protocols.get(listener, "PLAINTEXT")
    if protocol == "PLAINTEXT":
        return None
    return NodeSecurity(config, listener, protocol, config().sasl_mechanism_controller_protocol.upper(), rng, troubles)


class Unverified:
    """For checking a listener without settings for it: sends no secret and trusts nothing."""

    def context(self) -> ssl.SSLContext | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    def authentication(self, host: str) -> Authentication | None:
        return None

    def failed(self, address: str, error: Exception) -> None: ...
    def opened(self, address: str) -> None: ...


def credentials_of(config: BrokerConfig, listener: str, mechanism: str) -> Credentials:
    """The credentials of this node for a listener of other nodes; ConfigError names what is missing."""
    which = (
        "sasl.mechanism.inter.broker.protocol"
        if listener == config.inter_broker_listener
        else "sasl.mechanism.controller.protocol"
    )
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"{which} is {mechanism}: nodes log in to listener {listener} by one of {', '.join(MECHANISMS)}"
        )
    if mechanism == GSSAPI:
        return kerberos_credentials(config, listener)
    setting = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    module_name = _MODULES.get(mechanism, _SCRAM_MODULE)
    options = "" if mechanism == OAUTHBEARER else ' username="NAME" password="PASSWORD"'
    example = f"org.apache.kafka.common.security.{module_name} required{options};"
    text = config.of_listener(listener, "sasl.jaas.config", mechanism)
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{setting} is not set: nodes log in to listener {listener} with it. Write {example}")
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise ConfigError(f"{setting} cannot be read: {error}") from None
    if module.name != module_name.rpartition(".")[2]:
        raise ConfigError(f"{setting} names {module.name}, and {which} is {mechanism}. Write {example}")
    if mechanism == OAUTHBEARER:
        return bearer_credentials(config, listener, module)
    username, password = module.options.get("username"), module.options.get("password")
    if not username or password is None:
        raise ConfigError(f"{setting} has no username and password, with which nodes log in. Write {example}")
    return Credentials(
        mechanism, username, password, is_delegation_token=module.options.get("tokenauth", "").lower() == "true"
    )


def explain(error: Exception, listener: str, security_protocol: str) -> str:
    """What went wrong between two nodes, and what to do; never a secret."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is refused: {error.verify_message}. ssl.truststore.* of listener {listener} must hold "
            "the CA that signed it, and its certificate must name the host that it advertises"
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
            return (
                f"it refuses this node's certificate ({reason}): ssl.keystore.* of listener {listener} must hold a "
                "certificate that its trust store trusts"
            )
        return f"the TLS handshake on listener {listener} ({security_protocol}) failed: {reason}. Does it speak TLS?"
    if isinstance(error, AuthenticationError):
        return f"the login on listener {listener} failed: {error}"
    return f"listener {listener} ({security_protocol}) cannot be used: {error}"
