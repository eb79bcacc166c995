"""Broker settings that Kafka does not have: Ottla's own, whose names begin with `ottla.`, and those of Confluent's
brokers that have an effect here.

They are in server.properties beside Kafka's and cannot be changed while the node runs. DescribeConfigs lists only those
that are set: tools compare the list with Kafka's. Topics and groups have such settings, too (`topic.py`, `groups.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ottla.config.keys import ConfigError, ConfigType

AUDIT_LOG: Final = "ottla.audit.log.enable"
AUDIT_TOPIC: Final = "ottla.audit.topic.enable"
REGISTRY_URL: Final = "confluent.schema.registry.url"
REGISTRY_CREDENTIALS: Final = "confluent.basic.auth.credentials.source"
REGISTRY_USER_INFO: Final = "confluent.basic.auth.user.info"
REGISTRY_TOKEN: Final = "confluent.bearer.auth.token"
REGISTRY_TRUSTED: Final = "confluent.ssl.truststore.location"
REGISTRY_TRUSTED_TYPE: Final = "confluent.ssl.truststore.type"
REGISTRY_CACHE_SIZE: Final = "confluent.schema.registry.max.cache.size"
REGISTRY_MISSING_TTL: Final = "confluent.missing.id.cache.ttl.sec"
REGISTRY_UNAVAILABLE: Final = "ottla.schema.registry.unavailable"


class OwnKey(NamedTuple):
    """The declaration of one of these settings; `docs.py` says what it means."""

    type: ConfigType
    default: str = ""
    """Empty if it has none, or if the default depends on other settings."""
    choices: tuple[str, ...] = ()


OWN_KEYS: Final[dict[str, OwnKey]] = {
    AUDIT_LOG: OwnKey(ConfigType.BOOLEAN),
    AUDIT_TOPIC: OwnKey(ConfigType.BOOLEAN, "false"),
    REGISTRY_URL: OwnKey(ConfigType.PASSWORD),  # an address may hold a password
    REGISTRY_CREDENTIALS: OwnKey(ConfigType.STRING, choices=("URL", "USER_INFO")),
    REGISTRY_USER_INFO: OwnKey(ConfigType.PASSWORD),
    REGISTRY_TOKEN: OwnKey(ConfigType.PASSWORD),
    REGISTRY_TRUSTED: OwnKey(ConfigType.STRING),
    REGISTRY_TRUSTED_TYPE: OwnKey(ConfigType.STRING, "PEM", ("PEM",)),
    REGISTRY_CACHE_SIZE: OwnKey(ConfigType.INT, "10000"),
    REGISTRY_MISSING_TTL: OwnKey(ConfigType.INT, "5"),
    REGISTRY_UNAVAILABLE: OwnKey(ConfigType.STRING, "refuse", ("refuse", "accept")),
}


def own_value(static: Mapping[str, str], name: str) -> str:
    """The value of such a setting, or its default."""
    return static.get(name, OWN_KEYS[name].default).strip()


def check_own(name: str, text: str) -> None:
    """ConfigError if such a setting has a value that it cannot have. It shows no address: that may hold a password."""
    text = text.strip()
    key = OWN_KEYS[name]
    if key.type is ConfigType.BOOLEAN and text.lower() not in ("true", "false"):
        raise ConfigError(f"{name} cannot be {text}: use true or false")
    if key.choices and text not in key.choices:
        raise ConfigError(f"{name} cannot be {text}: use {' or '.join(key.choices)}")
    if key.type is ConfigType.INT and not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) < 2**31):
        raise ConfigError(f"{name} cannot be {text}: use a number above 0")
    if name == REGISTRY_USER_INFO and ":" not in text:
        raise ConfigError(f"{name} holds no user:password")
    if name == REGISTRY_URL:
        for url in text.split(","):
            if not _is_url(url.strip()):
                raise ConfigError(f"{name} has an address that is not of the form http://127.0.0.1:8081")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def boolean(text: str) -> bool:
    return text.strip().lower() == "true"
