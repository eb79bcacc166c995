"""Descriptions compared with what Apache Kafka 4.3.1 answered for the same properties and the same dynamic settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.config import BrokerConfig, parse_properties
from ottla.config.describe import (
    DescribedConfig,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.config.docs import DOCS
from ottla.config.keys import ConfigType
from ottla.config.own import OWN_KEYS, check_own
from ottla.wire.config_resources import ConfigSource

VECTORS = Path(__file__).parents[2] / "vectors" / "configs"
TUNED_TOPIC = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "1000",
    "max.message.bytes": "2000",
    "min.cleanable.dirty.ratio": "0.10",
    "internal.segment.bytes": "9000",
}
# Kafka 4.3 writes this one itself when a folder is formatted with eligible leader replicas.
DEFAULT_DYNAMIC = {"min.insync.replicas": "1"}
NEWER = {
    "max.decompressed.message.bytes",
    "group.streams.topology.description.plugin.class",
    "group.streams.assignors",
    "group.streams.num.warmup.replicas",
    "group.streams.max.warmup.replicas",
    "group.streams.acceptable.recovery.lag",
    "group.streams.task.offset.interval.ms",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.rack.aware.assignment.tags",
    "streams.assignor.name",
    "streams.num.warmup.replicas",
    "streams.acceptable.recovery.lag",
    "streams.task.offset.interval.ms",
    "streams.rack.aware.assignment.tags",
    "errors.deadletterqueue.topic.name.prefix",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.group.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.copy.record.enable",
}
"""Settings that came with Kafka 4.4."""


def rows(entries: list[DescribedConfig]) -> dict[str, list[Any]]:
    return {
        entry.name: [
            entry.value,
            entry.source.kafka_name,
            entry.is_read_only,
            entry.is_sensitive,
            entry.type.name,
            [[synonym.name, synonym.value, synonym.source.kafka_name] for synonym in entry.synonyms],
        ]
        for entry in entries
        if entry.name not in NEWER
    }


def vector(name: str) -> tuple[BrokerConfig, dict[str, dict[str, list[Any]]]]:
    recorded = json.loads((VECTORS / f"kafka-4.3.1-{name}.json").read_text())
    return BrokerConfig.parse(parse_properties(recorded["properties"])), recorded["described"]


def test_a_node_with_few_settings_is_described_as_kafka_does() -> None:
    config, described = vector("defaults")
    broker = config.with_dynamic(DEFAULT_DYNAMIC, {})
    assert rows(describe_topic({}, broker)) == described["TOPIC/plain"]
    assert rows(describe_topic(TUNED_TOPIC, broker)) == described["TOPIC/tuned"]
    assert rows(describe_broker(broker)) == described["BROKER/1"]
    assert rows(describe_broker_defaults(broker)) == described["BROKER/"]
    assert rows(describe_group({}, broker)) == described["GROUP/g1"]
    assert rows(describe_client_metrics({})) == described["CLIENT_METRICS/m1"]


def test_static_and_dynamic_settings_are_described_as_kafka_does() -> None:
    config, described = vector("tuned")
    broker = config.with_dynamic(
        DEFAULT_DYNAMIC
        | {"log.retention.ms": "7200000", "max.connections": "5000", "leader.replication.throttled.rate": "1000"},
        {"log.cleaner.threads": "2", "max.connections": "6000", "log.segment.bytes": "2097152"},
    )
    assert rows(describe_topic({}, broker)) == described["TOPIC/plain"]
    tuned = TUNED_TOPIC | {"leader.replication.throttled.replicas": "0:1"}
    assert rows(describe_topic(tuned, broker)) == described["TOPIC/tuned"]
    assert rows(describe_broker(broker)) == described["BROKER/1"]
    assert rows(describe_broker_defaults(broker)) == described["BROKER/"]
    assert rows(describe_group({"consumer.session.timeout.ms": "50000"}, broker)) == described["GROUP/g1"]
    metrics = {"interval.ms": "5000", "metrics": "org.apache.kafka.producer."}
    assert rows(describe_client_metrics(metrics)) == described["CLIENT_METRICS/m1"]


def test_a_setting_of_a_plug_in_is_hidden_because_it_could_be_a_secret() -> None:
    config, _ = vector("defaults")
    broker = BrokerConfig.parse(config.static | {"rsm.config.token": "abc"})
    (entry,) = (entry for entry in describe_broker(broker) if entry.name == "rsm.config.token")
    assert entry.value is None and entry.is_sensitive and entry.source is ConfigSource.STATIC_BROKER
    assert [synonym.value for synonym in entry.synonyms] == [None]


@pytest.mark.parametrize("name", ["defaults", "tuned"])
def test_every_described_setting_has_a_text_of_our_own(name: str) -> None:
    broker, _ = vector(name)
    entries = describe_broker(broker) + describe_topic({}, broker) + describe_group({}, broker)
    assert [entry.name for entry in entries + describe_client_metrics({}) if not entry.doc] == []


def test_own_settings_of_a_node_are_described_if_they_are_set_and_passwords_are_hidden() -> None:
    given = {"ottla.audit.topic.enable": "true", "confluent.bearer.auth.token": "hush"}
    config, _ = vector("defaults")
    broker = BrokerConfig.parse(config.static | given)
    described = {entry.name: entry for entry in describe_broker(broker) if entry.name in OWN_KEYS}
    assert set(described) == set(given)
    audit, token = described["ottla.audit.topic.enable"], described["confluent.bearer.auth.token"]
    assert (audit.value, audit.type, audit.is_read_only) == ("true", ConfigType.BOOLEAN, True)
    assert audit.source is ConfigSource.STATIC_BROKER
    assert (token.value, token.type, token.is_sensitive) == (None, ConfigType.PASSWORD, True)
    assert audit.doc and token.doc


@pytest.mark.parametrize("name", OWN_KEYS)
def test_every_own_setting_of_a_node_has_a_text_and_a_default_that_it_accepts(name: str) -> None:
    assert len(DOCS[name]) > 10
    if OWN_KEYS[name].default:
        check_own(name, OWN_KEYS[name].default)


def test_no_text_of_a_setting_leans_on_the_one_before_it() -> None:
    """They are shown one by one, and the reference sorts them by name."""
    leaning = re.compile(
        r"^The same\b|\b[Ss]uch (?:an? |wait)|\b(?:that|those) (?:file|key|keys|time|plug-ins)\b(?! that)"
    )
    assert [f"{name}: {text}" for name, text in DOCS.items() if leaning.search(text)] == []
