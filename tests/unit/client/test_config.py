"""Settings under Kafka's names, in both spellings, with Kafka's defaults and rules."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ottla.client import setting_types
from ottla.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, split_address
from ottla.client.errors import ConfigError
from ottla.client.settings import describe

SERVERS = {"bootstrap.servers": "a:9092,b:9093"}


def test_dots_and_underscores_name_the_same_setting() -> None:
    dotted = ProducerConfig.parse(SERVERS, {"linger.ms": 7})
    assert dotted == ProducerConfig.parse({"bootstrap_servers": ["a:9092", "b:9093"], "linger_ms": 7})
    assert dotted.linger_ms == 7


def test_texts_of_a_properties_file_are_read_as_their_types() -> None:
    config = ProducerConfig.parse(SERVERS, {"linger.ms": "10", "enable.idempotence": "true", "acks": "all"})
    assert (config.linger_ms, config.enable_idempotence, config.acks) == (10, True, -1)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("linger.msec", "linger.ms"), ("batchsize", "batch_size"), ("compresion_type", "compression_type")],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"Unknown setting {name}; did you mean {hint}\\?"):
        ProducerConfig.parse(SERVERS, {name: 1})


def test_a_name_that_resembles_nothing_is_refused_without_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"Unknown setting xyzzy$"):
        ProducerConfig.parse(SERVERS, {"xyzzy": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger.ms", -1),
        ("linger.ms", "soon"),
        ("acks", "2"),
        ("compression.type", "brotli"),
        ("enable.idempotence", "yes"),
        ("bootstrap.servers", "nowhere"),
        ("bootstrap.servers", ""),
        ("bootstrap.servers", "a:99999"),
        ("partitioner", "best"),
        ("transactional.id", ""),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        ProducerConfig.parse(SERVERS, {name: value})


def test_bootstrap_servers_have_to_be_given() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers has to be set"):
        ClientConfig.parse({})


def test_kafkas_defaults_are_ours() -> None:
    producer = ProducerConfig.parse(SERVERS)
    assert (producer.linger_ms, producer.batch_size, producer.acks) == (5, 16384, -1)
    assert producer.enable_idempotence
    assert (producer.max_block_ms, producer.delivery_timeout_ms) == (60_000, 120_000)
    consumer = ConsumerConfig.parse(SERVERS, {"group_id": "g"})
    assert (consumer.session_timeout_ms, consumer.max_poll_interval_ms) == (45_000, 300_000)
    assert consumer.partition_assignment_strategy == ("range", "cooperative-sticky")


@pytest.mark.parametrize(("name", "value"), [("acks", 1), ("retries", 0), ("max.in.flight.requests.per.connection", 6)])
def test_what_contradicts_idempotence_switches_it_off_unless_it_was_asked_for(name: str, value: object) -> None:
    assert not ProducerConfig.parse(SERVERS, {name: value}).enable_idempotence
    with pytest.raises(ConfigError, match=r"enable\.idempotence"):
        ProducerConfig.parse(SERVERS, {name: value, "enable.idempotence": True})
    with pytest.raises(ConfigError, match="idempotence"):
        ProducerConfig.parse(SERVERS, {name: value, "transactional.id": "t"})


def test_the_delivery_timeout_covers_lingering_and_one_request() -> None:
    assert ProducerConfig.parse(SERVERS, {"request.timeout.ms": 200_000}).delivery_timeout_ms == 200_005
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms"):
        ProducerConfig.parse(SERVERS, {"request.timeout.ms": 5_000, "delivery.timeout.ms": 1_000})


def test_java_names_of_assignors_are_understood() -> None:
    config = ConsumerConfig.parse(
        SERVERS, {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor, range"}
    )
    assert config.partition_assignment_strategy == ("cooperative-sticky", "range")


def test_settings_of_the_classic_protocol_are_refused_with_the_other() -> None:
    with pytest.raises(ConfigError, match=r"session\.timeout\.ms"):
        ConsumerConfig.parse(SERVERS, {"group.protocol": "consumer", "session.timeout.ms": 6000, "group.id": "g"})
    with pytest.raises(ConfigError, match=r"group\.remote\.assignor"):
        ConsumerConfig.parse(SERVERS, {"group.remote.assignor": "uniform", "group.id": "g"})


def test_settings_of_java_alone_are_named_and_let_pass(caplog: pytest.LogCaptureFixture) -> None:
    ProducerConfig.parse(SERVERS, {"metric.reporters": "x"})
    assert "metric.reporters has no effect" in caplog.text


def test_addresses_may_be_ipv6_and_may_name_a_protocol() -> None:
    assert split_address("[::1]:9092") == ("::1", 9092)
    assert split_address("PLAINTEXT://h:1") == ("h", 1)


def test_every_setting_says_what_it_is_for() -> None:
    for cls in (ProducerConfig, ConsumerConfig):
        assert all(meaning for _, _, meaning in describe(cls))


@pytest.mark.parametrize(
    ("kind", "typed", "more"),
    [
        (AdminConfig, setting_types.AdminSettings, set()),
        (ProducerConfig, setting_types.ProducerSettings, set()),
        (ConsumerConfig, setting_types.ConsumerSettings, {"key_deserializer", "value_deserializer"}),
    ],
)
def test_every_setting_is_known_to_editors_and_type_checkers(
    kind: type[ClientConfig], typed: Any, more: set[str]
) -> None:
    declared = {one.name: str(one.type) for one in fields(kind) if one.name not in more}
    known = {name: reference.__forward_arg__ for name, reference in typed.__annotations__.items()}
    assert known.keys() == declared.keys()
    parsed = {name for name in declared if "Sequence" in known[name]} | {"acks", "partitioner"}
    assert {name for name in declared if declared[name] != known[name]} <= parsed
