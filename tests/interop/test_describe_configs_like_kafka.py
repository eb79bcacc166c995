"""Ottla and Apache Kafka, started with the same settings and given the same changes, describe themselves alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import requests
from tests.interop.conftest import StartServer
from tests.interop.servers import SINCE_4_4, Server, ask

CREATE_TOPICS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 19, 32, 44
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND = 0, 1, 2

STATIC = (
    "log.retention.minutes=100",
    "log.roll.hours=5",
    "message.max.bytes=2000000",
    "ssl.truststore.password=secret",
    "listener.name.plaintext.ssl.key.password=abc",
    "log.cleanup.policy=delete, compact",
    "log.cleaner.io.max.bytes.per.second=12345678",
    "log.initial.task.delay.ms=500",
    "compression.type=zstd",
)
CHANGES: tuple[tuple[int, str, dict[str, tuple[int, str]]], ...] = (
    (TOPIC, "tuned", {"retention.ms": (SET, "1000"), "min.cleanable.dirty.ratio": (SET, "0.10")}),
    (TOPIC, "tuned", {"cleanup.policy": (SET, "compact, delete"), "internal.segment.bytes": (SET, "9000")}),
    (BROKER, "", {"log.retention.ms": (SET, "7200000"), "leader.replication.throttled.rate": (SET, "1000")}),
    (BROKER, "", {"max.connections": (SET, "5000")}),
    (BROKER, "1", {"log.cleaner.threads": (SET, "2"), "max.connections": (SET, "6000")}),
    (BROKER, "1", {"log.segment.bytes": (SET, "2097152")}),
    (GROUP, "g", {"consumer.session.timeout.ms": (SET, "50000")}),
    (CLIENT_METRICS, "m", {"interval.ms": (SET, "5000"), "metrics": (SET, "org.apache.kafka.producer.")}),
)
RESOURCES = ((TOPIC, "plain"), (TOPIC, "tuned"), (BROKER, "1"), (BROKER, ""), (GROUP, "g"), (CLIENT_METRICS, "m"))
# Where a node is and which quorum it belongs to differ by nature; what else the anchor script sets is its own.
OF_THE_MACHINE = {
    "advertised.listeners",
    "controller.quorum.voters",
    "listeners",
    "log.dirs",
    "group.initial.rebalance.delay.ms",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
}
REFUSED: tuple[tuple[int, str, str, int, str], ...] = (
    (TOPIC, "plain", "retention.ms", SET, "x"),
    (TOPIC, "plain", "retention.ms", SET, "-2"),
    (TOPIC, "plain", "nonsense", SET, "x"),
    (TOPIC, "plain", "retention.ms", APPEND, "5"),
    (TOPIC, "plain", "cleanup.policy", APPEND, "foo"),
    (TOPIC, "plain", "nonsense", DELETE, ""),
    (TOPIC, "plain", "remote.storage.enable", SET, "true"),
    (TOPIC, "nope", "retention.ms", SET, "5"),
    (TOPIC, "", "retention.ms", SET, "5"),
    (TOPIC, "b@d", "retention.ms", SET, "5"),
    (BROKER, "1", "log.retention.ms", SET, "x"),
    (BROKER, "1", "log.retention.ms", SET, "0"),
    (BROKER, "1", "node.id", SET, "5"),
    (BROKER, "1", "plugin.setting", SET, "5"),
    (BROKER, "1", "ssl.keystore.location", SET, "/x"),
    (BROKER, "1", "num.io.threads", SET, "100"),
    (BROKER, "1", "log.retention.ms", APPEND, "5"),
    (BROKER, "1", "min.insync.replicas", SET, "2"),
    (BROKER, "1", "max.connections.per.ip.overrides", SET, "zz"),
    (BROKER, "2", "log.retention.ms", SET, "5"),
    (BROKER, "one", "log.retention.ms", SET, "5"),
    (BROKER, "", "listeners", SET, "PLAINTEXT://:9"),
    (BROKER, "", "min.insync.replicas", DELETE, ""),
    (GROUP, "", "consumer.session.timeout.ms", SET, "50000"),
    (GROUP, "g", "consumer.session.timeout.ms", SET, "5"),
    (GROUP, "g", "share.auto.offset.reset", SET, "by_duration:P1D"),
    (GROUP, "g", "share.auto.offset.reset", SET, "foo"),
    (CLIENT_METRICS, "m", "interval.ms", SET, "5"),
    (CLIENT_METRICS, "m", "match", SET, "client_id=["),
    (CLIENT_METRICS, "", "interval.ms", SET, "500"),
    (99, "x", "a", SET, "b"),
)


def _ask(server: Server, api_key: int, version: int, fill: Callable[[Any], Any]) -> Any:
    from kio import index

    message = fill(index.load_request_schema(api_key, version))
    with server.connect() as connection:
        return requests.answer(api_key, version, ask(connection, requests.frame(message)))


def _part(entity: Any, field: str) -> Any:
    """The class of the things that a field of an entity holds."""
    import typing

    kind = typing.get_type_hints(entity)[field]
    return typing.get_args(kind)[0]


def create_topics(server: Server, *names: str) -> None:
    def fill(request: Any) -> Any:
        topic = _part(request, "topics")
        return requests._filled(
            request,
            {
                "topics": tuple(
                    requests._filled(
                        topic,
                        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()},
                        None,
                    )
                    for name in names
                ),
                "validate_only": False,
            },
            None,
        )

    response = _ask(server, CREATE_TOPICS, 5, fill)
    assert [topic.error_code.value for topic in response.topics] == [0] * len(names)


def alter(server: Server, kind: int, name: str, changes: dict[str, tuple[int, str]], *, validate_only: bool) -> int:
    def fill(request: Any) -> Any:
        resource = _part(request, "resources")
        config = _part(resource, "configs")
        configs = tuple(
            config(name=key, config_operation=operation, value=None if operation == DELETE else value)
            for key, (operation, value) in changes.items()
        )
        return request(
            resources=(resource(resource_type=kind, resource_name=name, configs=configs),), validate_only=validate_only
        )

    (answer,) = _ask(server, INCREMENTAL_ALTER_CONFIGS, 1, fill).responses
    return int(answer.error_code.value)


def describe(server: Server, kind: int, name: str) -> dict[str, Any]:
    def fill(request: Any) -> Any:
        resource = _part(request, "resources")
        return request(
            resources=(resource(resource_type=kind, resource_name=name, configuration_keys=None),),
            include_synonyms=True,
            include_documentation=True,
        )

    (result,) = _ask(server, DESCRIBE_CONFIGS, 4, fill).results
    assert result.error_code.value == 0
    described = {}
    for entry in result.configs:
        described[entry.name] = (
            entry.value,
            entry.config_source,
            entry.read_only,
            entry.is_sensitive,
            entry.config_type,
            [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms],
        )
    return described


@pytest.fixture
def pair(start_server: StartServer) -> tuple[Server, Server]:
    return start_server(*STATIC, on_kafka=False), start_server(*STATIC, on_kafka=True)


def test_every_setting_is_described_as_kafka_describes_it(pair: tuple[Server, Server]) -> None:
    for server in pair:
        create_topics(server, "plain", "tuned")
        for kind, name, changes in CHANGES:
            assert alter(server, kind, name, changes, validate_only=False) == 0
    ottla, kafka = pair
    for kind, name in RESOURCES:
        ours = describe(ottla, kind, name)
        ours = {setting: said for setting, said in ours.items() if setting not in SINCE_4_4}
        compared = set(ours) - OF_THE_MACHINE
        for _ in range(1_200):  # Kafka answers a change before its broker has taken it up
            theirs = describe(kafka, kind, name)
            if all(ours[setting] == theirs.get(setting) for setting in compared):
                break
            time.sleep(0.1)
        assert set(ours) == set(theirs), (kind, name)
        for setting in compared:
            assert ours[setting] == theirs[setting], (kind, name, setting)
        assert list(ours) == list(theirs), (kind, name)
    for kind, name, setting, operation, value in REFUSED:
        codes = [alter(server, kind, name, {setting: (operation, value)}, validate_only=True) for server in pair]
        assert codes[0] == codes[1], (kind, name, setting, operation, value)
