from __future__ import annotations

import pytest

from ottla.config import TOPIC_KEYS, BrokerConfig, ConfigError, GroupConfig, TopicConfig
from ottla.config.keys import format_value, is_duration
from ottla.wire.errors import ErrorCode
from tests.unit.config.test_broker import NODE


def broker(**changes: str) -> BrokerConfig:
    return BrokerConfig.parse(NODE | {name.replace("_", "."): value for name, value in changes.items()})


def test_a_topic_without_overrides_has_the_brokers_settings() -> None:
    config = TopicConfig.parse(
        {}, broker(log_roll_hours="5", message_max_bytes="77", log_flush_scheduler_interval_ms="9")
    )
    assert config.segment_ms == 5 * 3_600_000
    assert config.max_message_bytes == 77
    assert config.flush_ms == 9
    assert config.retention_ms == 604_800_000


def test_topics_without_overrides_share_one_configuration() -> None:
    node = broker()
    assert TopicConfig.parse({}, node) is TopicConfig.parse({}, node)


def test_overrides_win() -> None:
    config = TopicConfig.parse({"retention.ms": " 5 ", "cleanup.policy": "compact , delete"}, broker())
    assert config.retention_ms == 5
    assert config.cleanup_policy == ("compact", "delete")
    assert config.is_compacted and config.is_deleted


def test_no_cleanup_policy_keeps_everything() -> None:
    config = TopicConfig.parse({"cleanup.policy": ""}, broker())
    assert not config.is_compacted and not config.is_deleted


def test_repeated_entries_of_a_list_count_once() -> None:
    assert TopicConfig.parse({"cleanup.policy": "delete,delete"}, broker()).cleanup_policy == ("delete",)


def test_a_test_may_ask_for_small_segments() -> None:
    assert TopicConfig.parse({"internal.segment.bytes": "9000"}, broker()).segment_bytes == 9000
    assert TopicConfig(segment_bytes=1000).segment_bytes == 1000


def test_a_broker_that_keeps_for_ever_makes_topics_keep_for_ever() -> None:
    assert TopicConfig.parse({}, broker(log_retention_hours="-1")).retention_ms == -1


@pytest.mark.parametrize(
    "overrides",
    [
        {"retention.ms": "-2"},
        {"retention.ms": ""},
        {"retention.ms": "1.5"},
        {"retention.ms": "99999999999999999999"},
        {"retention.ms": "\u0665"},
        {"cleanup.policy": "compact,,delete"},
        {"cleanup.policy": "foo"},
        {"compression.gzip.level": "0"},
        {"compression.gzip.level": "10"},
        {"compression.zstd.level": "23"},
        {"min.cleanable.dirty.ratio": "1.5"},
        {"min.cleanable.dirty.ratio": "1_0"},
        {"preallocate": "yes"},
        {"leader.replication.throttled.replicas": "0:1,2"},
        {"segment.bytes": "10"},
        {"min.insync.replicas": "0"},
        {"message.timestamp.type": "Now"},
        {"nonsense": "1"},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        {"remote.storage.enable": "true"},
    ],
)
def test_a_wrong_override_is_an_invalid_config(overrides: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        TopicConfig.parse(overrides, broker())
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert next(iter(overrides)) in str(refused.value)


@pytest.mark.parametrize("value", ["*", "", "0:1", "0:1,0:2,10:3"])
def test_throttled_replicas_are_a_star_or_pairs(value: str) -> None:
    TopicConfig.parse({"leader.replication.throttled.replicas": value}, broker())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1 / 3, "0.3333333333333333"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-12345678.0, "-1.2345678E7"),
        (0.00025, "2.5E-4"),
        (1e21, "1.0E21"),
        (True, "true"),
        (("a", "b"), "a,b"),
        (5, "5"),
    ],
)
def test_values_are_written_as_java_writes_them(value: object, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize("name", list(TOPIC_KEYS))
def test_every_default_satisfies_its_own_rule(name: str) -> None:
    key = TOPIC_KEYS[name]
    key.check(key.default_value)


def test_a_group_may_not_leave_the_brokers_bounds() -> None:
    assert GroupConfig.parse({"consumer.session.timeout.ms": "50000"}, broker()).consumer_session_timeout_ms == 50_000
    for name, value in (
        ("consumer.session.timeout.ms", "5"),
        ("consumer.session.timeout.ms", "70000"),
        ("streams.num.standby.replicas", "5"),
        ("share.auto.offset.reset", "yesterday"),
        ("nonsense", "1"),
    ):
        with pytest.raises(ConfigError, match=name):
            GroupConfig.parse({name: value}, broker())


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("P1D", True), ("PT1H30M", True), ("PT0.5S", True), ("P", False), ("PT", False), ("-P1D", False), ("P1Y", False)],
)
def test_durations_are_javas(text: str, is_one: bool) -> None:
    assert is_duration(text) is is_one
