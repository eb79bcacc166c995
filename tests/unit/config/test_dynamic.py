from __future__ import annotations

import pytest

from ottla.config import BrokerConfig, ConfigError
from ottla.config.dynamic import check_client_metrics, check_dynamic_broker, parse_match
from ottla.wire.errors import ErrorCode, KafkaError
from tests.unit.config.test_broker import NODE

BROKER = BrokerConfig.parse(NODE)


@pytest.mark.parametrize(
    "configs",
    [
        {"log.retention.ms": "5"},
        {"some.plugin.setting": "x"},
        {"listener.name.plaintext.ssl.keystore.location": "/x"},
        {"leader.replication.throttled.rate": "5"},
        {"num.io.threads": "16"},
        {},
    ],
)
def test_a_broker_can_change_this_at_run_time(configs: dict[str, str]) -> None:
    check_dynamic_broker(configs, BROKER, is_default=False)


@pytest.mark.parametrize(
    "configs",
    [
        {"node.id": "5"},
        {"log.retention.hours": "5"},
        {"log.retention.ms": "x"},
        {"log.retention.ms": "0"},
        {"ssl.keystore.location": "/x"},
        {"num.io.threads": "100"},
        {"num.io.threads": "3"},
        {"log.segment.bytes": "5"},
        {"leader.replication.throttled.rate": "-1"},
        {"max.connections.per.ip.overrides": "zz"},
        {"listeners": "PLAINTEXT://127.0.0.1:9092"},
        {"listeners": "PLAINTEXT://127.0.0.1:9999,CONTROLLER://127.0.0.1:9093"},
    ],
)
def test_a_broker_cannot_change_this_at_run_time(configs: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_dynamic_broker(configs, BROKER, is_default=False)


def test_what_is_of_one_broker_cannot_be_set_for_all() -> None:
    for name in ("listeners", "listener.name.plaintext.ssl.keystore.location"):
        with pytest.raises(ConfigError, match="broker id must be specified"):
            check_dynamic_broker({name: "PLAINTEXT://127.0.0.1:9092"}, BROKER, is_default=True)
    check_dynamic_broker({"log.retention.ms": "5"}, BROKER, is_default=True)


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("", {"interval.ms": "500"}, ErrorCode.INVALID_REQUEST),
        ("m", {"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ("m", {"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ("m", {"interval.ms": "x"}, ErrorCode.INVALID_CONFIG),
        ("m", {"nonsense": "x"}, ErrorCode.INVALID_REQUEST),
        ("m", {"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ("m", {"match": "color=red"}, ErrorCode.INVALID_CONFIG),
        ("m", {"match": "client_id=["}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_subscription_that_clients_cannot_follow_is_refused(
    name: str, configs: dict[str, str], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        check_client_metrics(name, configs)
    assert refused.value.code is code


def test_patterns_are_read_by_label() -> None:
    assert parse_match(("client_id=a.*", " client_software_name = java ")) == {
        "client_id": "a.*",
        "client_software_name": "java",
    }
