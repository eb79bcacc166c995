"""The settings of a group (KIP-848, share and streams groups) and of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.config.broker_settings import STREAMS_ASSIGNORS
from ottla.config.keys import (
    ANY_LIST,
    LOW,
    MEDIUM,
    SHARE_OFFSET_RESET,
    Boolean,
    ConfigError,
    Int,
    List,
    Long,
    String,
    Value,
    at_least,
    between,
    one_of,
    setting,
)
from ottla.config.settings import Settings

MAX_BACKOFF_MS: Final = 3_600_000


class GroupConfig(Settings):
    """The settings of one group; the broker's `group.*` settings are the defaults. Settings of Ottla's own begin
    with `ottla.`: DescribeConfigs lists those that are set."""

    __slots__ = ()

    consumer_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    consumer_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    consumer_assignment_interval_ms: Int = setting(1000, MEDIUM, at_least(0))
    share_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    share_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    share_record_lock_duration_ms: Int = setting(30_000, MEDIUM, at_least(1000))
    share_delivery_count_limit: Int = setting(5, MEDIUM, at_least(2))
    share_partition_max_record_locks: Int = setting(2000, MEDIUM, at_least(100))
    share_auto_offset_reset: String = setting("latest", MEDIUM, SHARE_OFFSET_RESET)
    share_isolation_level: String = setting("read_uncommitted", MEDIUM, one_of("read_committed", "read_uncommitted"))
    share_renew_acknowledge_enable: Boolean = setting(True, MEDIUM)
    share_assignment_interval_ms: Int = setting(1000, MEDIUM, at_least(0))
    errors_deadletterqueue_topic_name: String = setting("", MEDIUM)
    errors_deadletterqueue_copy_record_enable: Boolean = setting(False, MEDIUM)
    ottla_errors_deadletterqueue_required_enable: Boolean = setting(False, LOW, internal=True)
    ottla_errors_deadletterqueue_once_enable: Boolean = setting(False, LOW, internal=True)
    """Letters are written once even if leaders die; implies that they are required."""
    ottla_share_redelivery_backoff_ms: Int = setting(0, LOW, between(0, MAX_BACKOFF_MS), internal=True)
    ottla_share_redelivery_backoff_max_ms: Int = setting(60_000, LOW, between(0, MAX_BACKOFF_MS), internal=True)
    streams_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    streams_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    streams_num_standby_replicas: Int = setting(0, MEDIUM, at_least(0))
    streams_initial_rebalance_delay_ms: Int = setting(3000, MEDIUM, at_least(0))
    streams_assignment_interval_ms: Int = setting(1000, MEDIUM, at_least(0))
    streams_assignor_name: String | None = setting(None, MEDIUM, one_of(*STREAMS_ASSIGNORS))
    """None: the first of the broker's `group.streams.assignors` is used."""
    streams_num_warmup_replicas: Int = setting(2, MEDIUM, at_least(0))
    streams_acceptable_recovery_lag: Long = setting(10_000, MEDIUM, at_least(0))
    streams_task_offset_interval_ms: Int = setting(60_000, MEDIUM, at_least(1))
    streams_rack_aware_assignment_tags: List = setting((), MEDIUM, ANY_LIST)

    @classmethod
    def parse(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        return cls._of(group_values(overrides, broker))


GROUP_KEYS: Final = GroupConfig.KEYS


def group_synonym(name: str) -> str | None:
    """The broker setting that is the default of a group's."""
    broker_name = "group." + name
    return broker_name if broker_name in BrokerConfig.KEYS else None


def group_values(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, Value]:
    """Typed values by name. A group's own value must lie within the broker's minimum and maximum for it."""
    values: dict[str, Value] = {}
    for name in GROUP_KEYS:
        synonym = group_synonym(name)
        if synonym is not None:
            values[name] = broker.value(synonym)
    for name, text in overrides.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown group config name: {name}")
        value = key.parse(text)
        kind, _, rest = name.partition(".")
        for bound, too_far in (("min", "less"), ("max", "more")):
            limit_name = f"group.{kind}.{bound}.{rest}"
            if kind == "streams":
                limit_name = limit_name.replace(".max.num.", ".max.")
            if limit_name in BrokerConfig.KEYS and isinstance(value, int):
                limit = broker.value(limit_name)
                assert isinstance(limit, int)
                if value < limit if bound == "min" else value > limit:
                    raise ConfigError(f"{name} ({value}) must not be {too_far} than {limit_name} ({limit})")
        values[name] = value
    for kind in ("consumer", "share", "streams"):
        session = values[f"{kind}.session.timeout.ms"]
        heartbeat = values[f"{kind}.heartbeat.interval.ms"]
        assert isinstance(session, int) and isinstance(heartbeat, int)
        if overrides and session <= heartbeat:
            raise ConfigError(f"{kind}.session.timeout.ms must be longer than {kind}.heartbeat.interval.ms")
    return values


class ClientMetricsConfig(Settings):
    """A subscription to clients' own metrics: which metrics, how often, from which clients."""

    __slots__ = ()

    metrics: List = setting((), MEDIUM, ANY_LIST)
    interval_ms: Int = setting(300_000, MEDIUM)
    match: List = setting((), MEDIUM, ANY_LIST)


CLIENT_METRICS_KEYS: Final = ClientMetricsConfig.KEYS
