"""The settings of a SASL listener: mechanisms, users of PLAIN, session length.

Kafka's prefixes hold: `listener.name.<listener>.<mechanism>.` before `listener.name.<listener>.` before the name alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.broker.peers.kerberos_settings import LOGIN_MODULE as KERBEROS_MODULE
from ottla.broker.peers.kerberos_settings import KerberosSettings, read_kerberos_settings
from ottla.broker.peers.token_source import check_allowed
from ottla.config import BrokerConfig, ConfigError
from ottla.config.hash_order import hash_order, string_hash
from ottla.config.synonyms import without_listener_prefix
from ottla.net.jaas_tls import jaas_context
from ottla.net.tls_contexts import TlsSettingsError
from ottla.security import signatures
from ottla.security.authentication import GSSAPI, OAUTHBEARER
from ottla.security.jaas import LoginModule, parse_jaas
from ottla.security.jwt import TokenRules
from ottla.security.plain_server import LOGIN_MODULE, plain_users
from ottla.security.scram import MECHANISMS as SCRAM_MECHANISMS

PLAIN = "PLAIN"
SERVED_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
LOGIN_MODULES = {
    PLAIN: LOGIN_MODULE,
    **dict.fromkeys(SCRAM_MECHANISMS, "ScramLoginModule"),
    OAUTHBEARER: "OAuthBearerLoginModule",
    GSSAPI: KERBEROS_MODULE,
}


@dataclass(frozen=True, slots=True)
class BearerSettings:
    """Where the keys of OAUTHBEARER tokens come from, and the claims that tokens must have."""

    jwks_url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    rules: TokenRules
    tls_options: dict[str, str] = field(default_factory=dict, repr=False)
    """`ssl.*` of the login module: whose certificates the server of the keys may have."""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The settings of one listener."""

    mechanisms: tuple[str, ...]
    """In the order in which Kafka lists them."""
    plain_users: dict[str, str] = field(repr=False)
    max_reauth_ms: dict[str, int]
    """By mechanism; 0 if sessions do not expire."""
    max_receive_bytes: int
    """The largest frame before the login is complete."""
    bearer: BearerSettings | None = None
    """Set if OAUTHBEARER is enabled."""
    kerberos: KerberosSettings | None = None
    """Set if GSSAPI is enabled."""


def is_sasl(security_protocol: str) -> bool:
    return security_protocol.startswith("SASL_")


def is_sasl_setting(name: str) -> bool:
    """Whether a setting concerns logins, with the prefix of a listener and perhaps of a mechanism."""
    base = without_listener_prefix(name)
    return base is not None and "sasl." in base


def check_sasl(config: BrokerConfig) -> None:
    """ConfigError if the settings of a SASL listener contradict each other."""
    for listener in config.listeners:
        if is_sasl(listener.security_protocol):
            read_sasl_settings(config, listener.name)


def read_sasl_settings(config: BrokerConfig, listener: str) -> SaslSettings:
    enabled = config.of_listener(listener, "sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    _check_mechanisms(listener, enabled)
    reauth: dict[str, int] = {}
    for mechanism in enabled:
        _check_module(config, listener, mechanism)
        value = config.of_listener(listener, "connections.max.reauth.ms", mechanism)
        assert isinstance(value, int)
        reauth[mechanism] = value
    users = _plain_users(config, listener) if PLAIN in enabled else {}
    bearer = _bearer(config, listener) if OAUTHBEARER in enabled else None
    kerberos = read_kerberos_settings(config, listener) if GSSAPI in enabled else None
    max_receive_bytes = config.of_listener(listener, "sasl.server.max.receive.size")
    assert isinstance(max_receive_bytes, int)
    mechanisms = tuple(hash_order(dict.fromkeys(enabled), string_hash))
    return SaslSettings(mechanisms, users, reauth, max_receive_bytes, bearer, kerberos)


def _check_mechanisms(listener: str, enabled: tuple[str, ...]) -> None:
    setting = f"listener.name.{listener.lower()}.sasl.enabled.mechanisms"
    served = ", ".join(SERVED_MECHANISMS)
    if not enabled:
        raise ConfigError(f"listener {listener} has no SASL mechanism: set {setting} to some of {served}")
    for mechanism in enabled:
        if mechanism not in SERVED_MECHANISMS:
            raise ConfigError(f"{setting} names {mechanism}, which is not served; served are {served}")


def _check_module(config: BrokerConfig, listener: str, mechanism: str) -> None:
    """CVE-2025-27818: a login module that is not the mechanism's own (LDAP, JNDI) is refused by name."""
    setting = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if not any(setting in layer for layer in (config.dynamic, config.dynamic_default, config.static)):
        return
    module = jaas_module(config, listener, mechanism)
    expected = LOGIN_MODULES[mechanism]
    if module is not None and module.name != expected:
        raise ConfigError(f"{setting} names the login module {module.name}, expected {expected}")


def _plain_users(config: BrokerConfig, listener: str) -> dict[str, str]:
    setting = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
    example = f'{setting}=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="PASSWORD";'
    module = jaas_module(config, listener, PLAIN)
    if module is None:
        raise ConfigError(f"listener {listener} offers PLAIN and has no users for it: write {example}")
    if module.name != LOGIN_MODULE:
        raise ConfigError(f"{setting} names the login module {module.name}, expected {LOGIN_MODULE}: write {example}")
    users = plain_users(module)
    if not users:
        raise ConfigError(f'{setting} has no user: add user_NAME="PASSWORD", as in {example}')
    if not all(users.values()):
        raise ConfigError(f"{setting} has a user with an empty password, which no client can log in with")
    return users


def jaas_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    """The login module of a listener's mechanism; None if there is none."""
    text = config.of_listener(listener, "sasl.jaas.config", mechanism)
    if text is None:
        return None
    assert isinstance(text, str)
    try:
        return parse_jaas(text)
    except ValueError as error:
        setting = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        raise ConfigError(f"{setting} (or sasl.jaas.config without a prefix) cannot be read: {error}") from None


def _bearer(config: BrokerConfig, listener: str) -> BearerSettings:
    """CVE-2026-110985, CVE-2026-33557: without keys there is nothing to verify tokens with, and the node does not
    start."""
    if not signatures.is_available():
        raise ConfigError(
            f"listener {listener} offers OAUTHBEARER, which needs the package cryptography: "
            "pip install 'ottla[security]'"
        )

    def text(name: str) -> str | None:
        value = config.of_listener(listener, f"sasl.oauthbearer.{name}", OAUTHBEARER)
        assert value is None or isinstance(value, str)
        return value.strip() or None if value is not None else None

    def number(name: str) -> int:
        value = config.of_listener(listener, f"sasl.oauthbearer.{name}", OAUTHBEARER)
        assert isinstance(value, int)
        return value

    setting = f"listener.name.{listener.lower()}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
    url = text("jwks.endpoint.url")
    if url is None:
        raise ConfigError(
            f"listener {listener} offers OAUTHBEARER and has no keys to verify tokens with: set {setting} to the https "
            "or file URL of the key set (JWKS) of the server that gives out tokens"
        )
    if not url.startswith(("https://", "file:///")):
        raise ConfigError(f"{setting} is {url}: expected https://HOST/PATH or file:///PATH")
    check_allowed(config, setting, url)
    module = jaas_module(config, listener, OAUTHBEARER)
    options = {} if module is None else module.options
    try:
        jaas_context(options)
    except TlsSettingsError as error:
        jaas = f"listener.name.{listener.lower()}.oauthbearer.sasl.jaas.config"
        raise ConfigError(f"{jaas}: {error}") from None
    audience = config.of_listener(listener, "sasl.oauthbearer.expected.audience", OAUTHBEARER)
    assert isinstance(audience, tuple)
    backoff_ms = max(1, number("jwks.endpoint.retry.backoff.ms"))
    return BearerSettings(
        url,
        max(1, number("jwks.endpoint.refresh.ms")),
        backoff_ms,
        max(backoff_ms, number("jwks.endpoint.retry.backoff.max.ms")),
        TokenRules(
            text("expected.issuer"),
            audience,
            text("sub.claim.name") or "sub",
            text("scope.claim.name") or "scope",
            max(0, number("clock.skew.seconds")),
        ),
        {name: value for name, value in options.items() if name.startswith("ssl.")},
    )
