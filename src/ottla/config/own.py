"""Settings that Kafka does not have: Ottla's own, whose names begin with `ottla.`, and those of Confluent's brokers
that have an effect here.

They are in server.properties beside Kafka's, cannot be changed while the node runs, and DescribeConfigs does not list
them: tools compare that list with Kafka's.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from ottla.config.keys import ConfigError

AUDIT_LOG: Final = "ottla.audit.log.enable"
AUDIT_TOPIC: Final = "ottla.audit.topic.enable"
BOOLEANS: Final = frozenset((AUDIT_LOG, AUDIT_TOPIC))

REGISTRY_URL: Final = "confluent.schema.registry.url"
REGISTRY_CREDENTIALS: Final = "confluent.basic.auth.credentials.source"
REGISTRY_USER_INFO: Final = "confluent.basic.auth.user.info"
REGISTRY_TOKEN: Final = "confluent.bearer.auth.token"
REGISTRY_TRUSTED: Final = "confluent.ssl.truststore.location"
REGISTRY_TRUSTED_TYPE: Final = "confluent.ssl.truststore.type"
REGISTRY_CACHE_SIZE: Final = "confluent.schema.registry.max.cache.size"
REGISTRY_MISSING_TTL: Final = "confluent.missing.id.cache.ttl.sec"
REGISTRY_UNAVAILABLE: Final = "ottla.schema.registry.unavailable"
_CHOICES: Final = {
    REGISTRY_CREDENTIALS: ("URL", "USER_INFO"),
    REGISTRY_TRUSTED_TYPE: ("PEM",),
    REGISTRY_UNAVAILABLE: ("refuse", "accept"),
}
_NUMBERS: Final = frozenset((REGISTRY_CACHE_SIZE, REGISTRY_MISSING_TTL))
REGISTRY_KEYS: Final = frozenset(
    (REGISTRY_URL, REGISTRY_USER_INFO, REGISTRY_TOKEN, REGISTRY_TRUSTED, *_CHOICES, *_NUMBERS)
)
OWN_KEYS: Final = BOOLEANS | REGISTRY_KEYS


def check_own(name: str, text: str) -> None:
    """ConfigError if such a setting has a value that it cannot have. It shows no address: that may hold a password."""
    text = text.strip()
    if name in BOOLEANS and text.lower() not in ("true", "false"):
        raise ConfigError(f"{name} cannot be {text}: use true or false")
    choices = _CHOICES.get(name)
    if choices is not None and text not in choices:
        raise ConfigError(f"{name} cannot be {text}: use {' or '.join(choices)}")
    if name in _NUMBERS and not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) < 2**31):
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
