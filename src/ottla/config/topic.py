"""The settings of one topic, read with the broker's as their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.config.broker_settings import CLEANUP_POLICY, COMPRESSION_TYPE, TIMESTAMP_TYPE
from ottla.config.keys import (
    GZIP_LEVEL,
    MAX_ARRAY_BYTES,
    MAX_LONG,
    MEDIUM,
    THROTTLED_REPLICAS,
    Boolean,
    ConfigError,
    Double,
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
from ottla.config.synonyms import FACTORS, TOPIC_SYNONYMS

_STRATEGIES = "io.confluent.kafka.serializers.subject."
TOPIC_NAME_STRATEGY: Final = _STRATEGIES + "TopicNameStrategy"
RECORD_NAME_STRATEGY: Final = _STRATEGIES + "RecordNameStrategy"
TOPIC_RECORD_NAME_STRATEGY: Final = _STRATEGIES + "TopicRecordNameStrategy"
SUBJECT_NAME_STRATEGY: Final = one_of(TOPIC_NAME_STRATEGY, RECORD_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY)
SCHEMA_VALIDATION: Final = one_of("none", "id", "full")
_NOTHING: Final[Mapping[str, str]] = {}


class TopicConfig(Settings):
    """The settings of one topic. `segment_bytes` is the size in force: `internal.segment.bytes` if given.
    `TopicConfig(segment_bytes=1_000)` makes one from typed values without Kafka's lower bounds, for tests and the
    simulator; requests and records go through `parse`.
    """

    __slots__ = ()

    segment_bytes: Int = setting(1_073_741_824, MEDIUM, at_least(1_048_576))
    segment_ms: Long = setting(604_800_000, MEDIUM, at_least(1))
    segment_jitter_ms: Long = setting(0, MEDIUM, at_least(0))
    segment_index_bytes: Int = setting(10_485_760, MEDIUM, at_least(4))
    flush_messages: Long = setting(MAX_LONG, MEDIUM, at_least(1))
    flush_ms: Long = setting(MAX_LONG, MEDIUM, at_least(0))
    retention_bytes: Long = setting(-1, MEDIUM)
    retention_ms: Long = setting(604_800_000, MEDIUM, at_least(-1))
    max_message_bytes: Int = setting(1_048_588, MEDIUM, at_least(0))
    max_decompressed_message_bytes: Int = setting(MAX_ARRAY_BYTES, MEDIUM, between(1, MAX_ARRAY_BYTES))
    index_interval_bytes: Int = setting(4096, MEDIUM, at_least(0))
    delete_retention_ms: Long = setting(86_400_000, MEDIUM, at_least(0))
    min_compaction_lag_ms: Long = setting(0, MEDIUM, at_least(0))
    max_compaction_lag_ms: Long = setting(MAX_LONG, MEDIUM, at_least(1))
    file_delete_delay_ms: Long = setting(60_000, MEDIUM, at_least(0))
    min_cleanable_dirty_ratio: Double = setting(0.5, MEDIUM, between(0, 1))
    cleanup_policy: List = setting(("delete",), MEDIUM, CLEANUP_POLICY)
    unclean_leader_election_enable: Boolean = setting(False, MEDIUM)
    min_insync_replicas: Int = setting(1, MEDIUM, at_least(1))
    compression_type: String = setting("producer", MEDIUM, COMPRESSION_TYPE)
    compression_gzip_level: Int = setting(-1, MEDIUM, GZIP_LEVEL)
    compression_lz4_level: Int = setting(9, MEDIUM, between(1, 17))
    compression_zstd_level: Int = setting(3, MEDIUM, between(-131_072, 22))
    preallocate: Boolean = setting(False, MEDIUM)
    message_timestamp_type: String = setting("CreateTime", MEDIUM, TIMESTAMP_TYPE)
    message_timestamp_before_max_ms: Long = setting(MAX_LONG, MEDIUM, at_least(0))
    message_timestamp_after_max_ms: Long = setting(3_600_000, MEDIUM, at_least(0))
    leader_replication_throttled_replicas: List = setting((), MEDIUM, THROTTLED_REPLICAS)
    follower_replication_throttled_replicas: List = setting((), MEDIUM, THROTTLED_REPLICAS)
    remote_storage_enable: Boolean = setting(False, MEDIUM)
    local_retention_ms: Long = setting(-2, MEDIUM, at_least(-2))
    local_retention_bytes: Long = setting(-2, MEDIUM, at_least(-2))
    remote_log_copy_disable: Boolean = setting(False, MEDIUM)
    remote_log_delete_on_disable: Boolean = setting(False, MEDIUM)
    errors_deadletterqueue_group_enable: Boolean = setting(False, MEDIUM)
    internal_segment_bytes: Int | None = setting(None, MEDIUM, internal=True)
    # Apache Kafka does not have these: they are shown where they are set.
    confluent_key_schema_validation: Boolean = setting(False, MEDIUM, internal=True)
    confluent_value_schema_validation: Boolean = setting(False, MEDIUM, internal=True)
    confluent_key_subject_name_strategy: String = setting(
        TOPIC_NAME_STRATEGY, MEDIUM, SUBJECT_NAME_STRATEGY, internal=True
    )
    confluent_value_subject_name_strategy: String = setting(
        TOPIC_NAME_STRATEGY, MEDIUM, SUBJECT_NAME_STRATEGY, internal=True
    )
    ottla_key_schema_validation: String = setting("none", MEDIUM, SCHEMA_VALIDATION, internal=True)
    ottla_value_schema_validation: String = setting("none", MEDIUM, SCHEMA_VALIDATION, internal=True)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention deletes old segments. A topic with no policy at all keeps everything."""
        return "delete" in self.cleanup_policy

    @property
    def validates_keys(self) -> bool:
        """Whether keys have to name a schema that is registered for them."""
        return self.confluent_key_schema_validation or self.ottla_key_schema_validation != "none"

    @property
    def validates_values(self) -> bool:
        return self.confluent_value_schema_validation or self.ottla_value_schema_validation != "none"

    @property
    def validates_schemas(self) -> bool:
        return self.validates_values or self.validates_keys

    @property
    def has_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def parse(cls, overrides: Mapping[str, str], broker: BrokerConfig | None = None) -> TopicConfig:
        """A topic's configuration; KafkaError(INVALID_CONFIG) when an override is unknown or wrong."""
        if not overrides and broker is not None:
            shared = broker.topic_defaults
            if shared is None:
                shared = cls._effective(topic_values(_NOTHING, broker))
                broker.keep_topic_defaults(shared)
            assert isinstance(shared, TopicConfig)
            return shared
        return cls._effective(topic_values(overrides, broker))

    @classmethod
    def _effective(cls, values: dict[str, Value]) -> TopicConfig:
        internal = values.get("internal.segment.bytes")
        return cls._of(values if internal is None else {**values, "segment.bytes": internal})


TOPIC_KEYS: Final = TopicConfig.KEYS


def topic_values(overrides: Mapping[str, str], broker: BrokerConfig | None) -> dict[str, Value]:
    """Typed values by Kafka's name: a topic's overrides, then the broker's settings, then Kafka's defaults."""
    values: dict[str, Value] = {}
    if broker is not None:
        for name, synonyms in TOPIC_SYNONYMS.items():
            values[name] = _broker_value(synonyms, broker, TOPIC_KEYS[name].default_value)
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        values[name] = key.parse(text)
    if overrides:
        check_topic_values(values, broker)
    return values


def check_topic_values(values: Mapping[str, Value], broker: BrokerConfig | None) -> None:
    """What must hold between settings of one topic."""
    shortest = values.get("min.compaction.lag.ms", 0)
    longest = values.get("max.compaction.lag.ms", MAX_LONG)
    assert isinstance(shortest, int) and isinstance(longest, int)
    if shortest > longest:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if values.get("remote.storage.enable") and not (broker is not None and broker.remote_log_storage_system_enable):
        raise ConfigError("remote.storage.enable cannot be true: tiered storage is not enabled on the brokers")


def _broker_value(synonyms: tuple[str, ...], broker: BrokerConfig, default: Value) -> Value:
    for name in synonyms:
        value = broker.value(name)
        if value is not None:
            if (
                name.startswith("log.retention.")
                and isinstance(value, int)
                and value < 0
                and name != "log.retention.bytes"
            ):
                return -1
            factor = FACTORS.get(name)
            return value if factor is None or not isinstance(value, int) else value * factor
    return default
