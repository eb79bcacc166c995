"""What a SASL listener's settings say: mechanisms, users of PLAIN, how long sessions last.

Kafka's prefixes hold: `listener.name.<listener>.<mechanism>.` before `listener.name.<listener>.` before the name alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.config import BrokerConfig, ConfigError
from ottla.config.hash_order import hash_order, string_hash
from ottla.security.jaas import LoginModule, parse_jaas
from ottla.security.plain_server import LOGIN_MODULE, plain_users
from ottla.security.scram import MECHANISMS as SCRAM_MECHANISMS

PLAIN = "PLAIN"
GSSAPI = "GSSAPI"
SERVED_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Of one listener."""

    mechanisms: tuple[str, ...]
    """In the order in which Kafka lists them."""
    plain_users: dict[str, str] = field(repr=False)
    max_reauth_ms: dict[str, int]
    """By mechanism; 0 if sessions do not end by themselves."""


def is_sasl(security_protocol: str) -> bool:
    return security_protocol.startswith("SASL_")


def check_sasl(config: BrokerConfig) -> None:
    """ConfigError if the settings of a SASL listener do not go together."""
    for listener in config.listeners:
        if is_sasl(listener.security_protocol):
            read_sasl_settings(config, listener.name)


def read_sasl_settings(config: BrokerConfig, listener: str) -> SaslSettings:
    enabled = config.of_listener(listener, "sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    _check_mechanisms(listener, enabled)
    reauth: dict[str, int] = {}
    for mechanism in enabled:
        value = config.of_listener(listener, "connections.max.reauth.ms", mechanism)
        assert isinstance(value, int)
        reauth[mechanism] = value
    users = _plain_users(config, listener) if PLAIN in enabled else {}
    return SaslSettings(tuple(hash_order(dict.fromkeys(enabled), string_hash)), users, reauth)


def _check_mechanisms(listener: str, enabled: tuple[str, ...]) -> None:
    setting = f"listener.name.{listener.lower()}.sasl.enabled.mechanisms"
    served = ", ".join(SERVED_MECHANISMS)
    if not enabled:
        raise ConfigError(f"listener {listener} has no SASL mechanism: set {setting} to some of {served}")
    for mechanism in enabled:
        if mechanism == GSSAPI:
            raise ConfigError(
                f"listener {listener} offers GSSAPI, which is Kafka's default for sasl.enabled.mechanisms and which "
                f"Ottla does not serve: set {setting} (or sasl.enabled.mechanisms) to some of {served}, for example "
                "SCRAM-SHA-512"
            )
        if mechanism not in SERVED_MECHANISMS:
            raise ConfigError(f"{setting} names {mechanism}, which is not served; served are {served}")


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
