"""What may change at run time, and to what: the rules for dynamic settings of brokers and of client metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.config.broker import BROKER_KEYS, DYNAMIC_BROKER_KEYS, BrokerConfig
from ottla.config.groups import CLIENT_METRICS_KEYS
from ottla.config.keys import PER_BROKER, READ_ONLY, ConfigError, parse_value
from ottla.config.synonyms import broker_synonyms, without_listener_prefix
from ottla.wire.errors import ErrorCode, KafkaError

# Keys and trusted certificates differ by listener, so they can change for one listener only.
_OF_A_LISTENER: Final = frozenset(
    [
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ]
)

# Kafka resizes thread pools in small steps only: at most to the double, at least to the half.
_THREAD_COUNTS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)

MIN_PUSH_INTERVAL_MS: Final = 100
MAX_PUSH_INTERVAL_MS: Final = 3_600_000
MATCH_LABELS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def check_dynamic_broker(configs: Mapping[str, str], broker: BrokerConfig, *, is_default: bool) -> None:
    """Refuses dynamic settings of one broker, or of all, that cannot be in force. ConfigError says which and why."""
    modes = {name: _update_mode(name) for name in configs}
    fixed = [name for name, mode in modes.items() if mode == READ_ONLY]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    bare = [name for name in configs if name in _OF_A_LISTENER]
    if bare:
        raise ConfigError(f"These can change at run time only with the prefix of a listener: [{', '.join(bare)}]")
    for name, text in configs.items():
        key = DYNAMIC_BROKER_KEYS.get(name)
        for synonym in broker_synonyms(name):
            key = key or BROKER_KEYS.get(synonym)
        if key is not None:
            key.check(parse_value(name, key.type, text))
    if is_default:
        own = [name for name, mode in modes.items() if mode == PER_BROKER]
        if own:
            raise ConfigError(
                f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(own)}]"
            )
        changed = broker.rebuilt(configs, broker.dynamic)
    else:
        changed = broker.rebuilt(broker.dynamic_default, configs)
    if changed.listeners != broker.listeners:
        raise ConfigError("listeners cannot change while the node runs: set it in the file and restart")
    for name in _THREAD_COUNTS:
        before, after = broker.value(name), changed.value(name)
        assert isinstance(before, int) and isinstance(after, int)
        if after != before and (after > 2 * before or 2 * after < before):
            raise ConfigError(f"Invalid value {after} for {name}: must be between half and double of {before}")


def _update_mode(name: str) -> str | None:
    """When a setting may change. None for a name that Kafka does not know: some plug-in may."""
    base = without_listener_prefix(name)
    if base is not None:
        return PER_BROKER
    key = BROKER_KEYS.get(name) or DYNAMIC_BROKER_KEYS.get(name)
    return None if key is None else key.update_mode


def check_client_metrics(name: str, configs: Mapping[str, str]) -> None:
    """Refuses a client metrics subscription that clients could not follow."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for config in configs:
        if config not in CLIENT_METRICS_KEYS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {config}")
    if "interval.ms" in configs:
        interval_ms = CLIENT_METRICS_KEYS["interval.ms"].parse(configs["interval.ms"])
        assert isinstance(interval_ms, int)
        if not MIN_PUSH_INTERVAL_MS <= interval_ms <= MAX_PUSH_INTERVAL_MS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {interval_ms} for interval.ms, interval must be between {MIN_PUSH_INTERVAL_MS} and "
                f"{MAX_PUSH_INTERVAL_MS} (1 hour)",
            )
    if "match" in configs:
        match = CLIENT_METRICS_KEYS["match"].parse(configs["match"])
        assert isinstance(match, tuple)
        parse_match(match)


def parse_match(entries: tuple[str, ...]) -> dict[str, str]:
    """Label -> pattern of the clients that a subscription is for. The whole label must match."""
    import re

    patterns: dict[str, str] = {}
    for entry in entries:
        label, equals, pattern = (part.strip() for part in entry.partition("="))
        try:
            re.compile(pattern)
        except re.error:
            equals = ""
        if not equals or label not in MATCH_LABELS:
            raise ConfigError(f"Illegal client matching pattern: {entry}")
        patterns[label] = pattern
    return patterns
