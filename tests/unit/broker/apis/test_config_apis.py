"""The APIs of settings, quotas and telemetry, on the active controller and rooms that follow what it commits."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.apis.alter_client_quotas import alter_client_quotas
from ottla.broker.apis.alter_configs import alter_configs
from ottla.broker.apis.describe_client_quotas import describe_client_quotas
from ottla.broker.apis.describe_configs import describe_configs
from ottla.broker.apis.get_telemetry_subscriptions import get_telemetry_subscriptions
from ottla.broker.apis.incremental_alter_configs import incremental_alter_configs
from ottla.broker.apis.list_config_resources import list_config_resources
from ottla.broker.apis.push_telemetry import push_telemetry
from ottla.broker.caller import Caller
from ottla.broker.metadata.controllership import Controllership, Reply
from ottla.broker.serving.api_table import ApiTable
from ottla.broker.serving.serving import Serving
from ottla.cluster import ClusterImage
from ottla.controller import Controller
from ottla.machine import Decision
from ottla.net import OsSockets, ReceiveBuffers
from ottla.sim.loop import Loop
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from ottla.wire.messages.alter_configs import AlterableConfig as NewConfig
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_configs import AlterConfigsResource as NewResource
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.push_telemetry import PushTelemetryRequest
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from tests.unit.broker.rooms import CLIENT, Ground, call, lead, make_metadata

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
CALLER = Caller("app", CLIENT, 0, 1)
FORWARDED = Caller("app", CLIENT, 0, 1, is_forwarded=True)


class World:
    """Broker 1, which is the active controller as well, and topic `orders`."""

    def __init__(self, folder: Path) -> None:
        self.loop = Loop(seed=1)
        self.ground = Ground(folder)
        apis = ApiTable(self.ground)
        self.serving = Serving(self.ground, OsSockets(), ReceiveBuffers(), apis, on_broker_lost=lambda _: None)
        self.loop.run(self._start())

    async def _start(self) -> None:
        self.metadata = make_metadata(self.ground)
        await lead(self.metadata, (self.ground.image_changed, self.serving.image_changed))
        broker = RegisterBrokerRecord(broker_id=1, incarnation_id=b"i" * 16, broker_epoch=5, fenced=False)
        await self.metadata.commit(Decision([TopicRecord(name="orders", topic_id=b"t" * 16), broker], None))

    @property
    def image(self) -> ClusterImage:
        return self.ground.image

    def call(self, handler: Any, request: Message, caller: Caller = CALLER) -> Any:
        rooms = (self.ground, self.metadata, self.serving.quotas, self.serving.telemetry)
        return call(handler, request, caller, *rooms)

    def commit(self, *records: Message) -> None:
        self.loop.run(self.metadata.commit(Decision(list(records), None)))

    def alter_client_quotas(self, request: AlterClientQuotasRequest) -> Any:
        return self.loop.run(self.call(alter_client_quotas, request))

    def alter(self, kind: int, name: str, *changes: tuple[int, str, str | None], validate_only: bool = False) -> Any:
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(config_operation=what, name=key, value=value) for what, key, value in changes],
        )
        return self.alter_all(resource, validate_only=validate_only)[0]

    def alter_all(self, *resources: AlterConfigsResource, validate_only: bool = False) -> list[Any]:
        request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        response = self.loop.run(self.call(incremental_alter_configs, request))
        return list(response.responses)

    def replace(self, kind: int, name: str, configs: dict[str, str | None]) -> Any:
        resource = NewResource(
            resource_type=kind,
            resource_name=name,
            configs=[NewConfig(name=key, value=value) for key, value in configs.items()],
        )
        return self.loop.run(self.call(alter_configs, AlterConfigsRequest(resources=[resource]))).responses[0]

    def describe(self, kind: int, name: str, *keys: str, **options: bool) -> Any:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
        )
        request = DescribeConfigsRequest(
            resources=[resource],
            include_synonyms=options.get("include_synonyms", False),
            include_documentation=options.get("include_documentation", False),
        )
        return self.call(describe_configs, request).results[0]

    def described(self, kind: int, name: str, key: str) -> Any:
        return self.describe(kind, name, key, include_synonyms=True).configs[0]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.loop.finish()


def test_a_changed_topic_is_described_with_its_new_value(world: World) -> None:
    assert world.described(TOPIC, "orders", "retention.ms").config_source == 5
    assert world.alter(TOPIC, "orders", (SET, "retention.ms", "5")).error_code == ErrorCode.NONE
    entry = world.described(TOPIC, "orders", "retention.ms")
    assert (entry.value, entry.config_source, entry.config_type) == ("5", 1, 5)
    assert [(synonym.name, synonym.source) for synonym in entry.synonyms] == [("retention.ms", 1)]
    assert world.alter(TOPIC, "orders", (DELETE, "retention.ms", None)).error_code == ErrorCode.NONE
    assert world.described(TOPIC, "orders", "retention.ms").value == "604800000"


def test_validating_changes_nothing(world: World) -> None:
    assert world.alter(TOPIC, "orders", (SET, "retention.ms", "5"), validate_only=True).error_code == ErrorCode.NONE
    assert world.described(TOPIC, "orders", "retention.ms").value == "604800000"


def test_lists_are_appended_to_and_subtracted_from(world: World) -> None:
    world.alter(TOPIC, "orders", (APPEND, "cleanup.policy", "compact"))
    assert world.described(TOPIC, "orders", "cleanup.policy").value == "delete,compact"
    world.alter(TOPIC, "orders", (SUBTRACT, "cleanup.policy", "delete"))
    assert world.described(TOPIC, "orders", "cleanup.policy").value == "compact"


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "orders", (SET, "retention.ms", "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", (SET, "nonsense", "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", (SET, "retention.ms", None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "orders", (APPEND, "retention.ms", "5"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "orders", (9, "retention.ms", "5"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "nope", (SET, "retention.ms", "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", (SET, "retention.ms", "5"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "b@d", (SET, "retention.ms", "5"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", (SET, "log.retention.ms", "x"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", (SET, "node.id", "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", (APPEND, "log.retention.ms", "5"), ErrorCode.INVALID_CONFIG),
        (BROKER, "1", (SET, "plugin.setting", "5"), ErrorCode.NONE),
        (BROKER, "2", (SET, "log.retention.ms", "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "one", (SET, "log.retention.ms", "5"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", (SET, "listeners", "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
        (GROUP, "", (SET, "consumer.session.timeout.ms", "50000"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", (SET, "consumer.session.timeout.ms", "5"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", (SET, "consumer.session.timeout.ms", "50000"), ErrorCode.NONE),
        (CLIENT_METRICS, "", (SET, "interval.ms", "500"), ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", (SET, "interval.ms", "5"), ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", (SET, "match", "nonsense"), ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", (SET, "nobody", "INFO"), ErrorCode.INVALID_CONFIG),
        (LOGGER, "2", (SET, "root", "INFO"), ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", (SET, "root", "LOUD"), ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", (APPEND, "root", "INFO"), ErrorCode.INVALID_REQUEST),
        (77, "x", (SET, "a", "b"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_change_is_refused_with_kafkas_code(
    world: World, kind: int, name: str, change: tuple[int, str, str | None], code: ErrorCode
) -> None:
    before = dict(world.image.configs)
    assert world.alter(kind, name, change).error_code == code
    if code is not ErrorCode.NONE:
        assert world.image.configs == before


def test_a_key_or_a_resource_named_twice_is_refused(world: World) -> None:
    twice = world.alter(TOPIC, "orders", (SET, "retention.ms", "5"), (SET, "retention.ms", "6"))
    assert twice.error_code == ErrorCode.INVALID_REQUEST
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name="orders") for _ in range(2)]
    assert [answer.error_code for answer in world.alter_all(*resources)] == [ErrorCode.INVALID_REQUEST] * 2


def test_one_refused_resource_does_not_hinder_the_others(world: World) -> None:
    answers = world.alter_all(
        AlterConfigsResource(
            resource_type=BROKER, resource_name="1", configs=[AlterableConfig(name="node.id", value="5")]
        ),
        AlterConfigsResource(
            resource_type=TOPIC, resource_name="orders", configs=[AlterableConfig(name="retention.ms", value="5")]
        ),
        AlterConfigsResource(resource_type=TOPIC, resource_name="nope"),
    )
    assert [(answer.resource_name, answer.error_code) for answer in answers] == [
        ("1", ErrorCode.INVALID_REQUEST),
        ("orders", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert world.described(TOPIC, "orders", "retention.ms").value == "5"


def test_dynamic_settings_of_brokers_are_in_force_and_described(world: World) -> None:
    assert world.alter(BROKER, "", (SET, "max.connections", "50")).error_code == ErrorCode.NONE
    assert world.alter(BROKER, "1", (SET, "max.connections", "60")).error_code == ErrorCode.NONE
    assert world.ground.config.max_connections == 60
    entry = world.described(BROKER, "1", "max.connections")
    assert [synonym.source for synonym in entry.synonyms] == [2, 3, 5]
    # A new cluster has eligible leader replicas, and with them a minimum in sync of its own (KIP-966).
    names = [entry.name for entry in world.describe(BROKER, "").configs]
    assert names == ["min.insync.replicas", "max.connections"]


def test_with_eligible_leader_replicas_the_minimum_in_sync_is_the_clusters(world: World) -> None:
    world.commit(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    assert world.alter(BROKER, "", (SET, "min.insync.replicas", "1")).error_code == ErrorCode.NONE
    assert world.alter(BROKER, "1", (SET, "min.insync.replicas", "2")).error_code == ErrorCode.INVALID_CONFIG
    assert world.alter(BROKER, "", (DELETE, "min.insync.replicas", None)).error_code == ErrorCode.INVALID_CONFIG


def test_the_older_api_replaces_everything(world: World) -> None:
    world.alter(TOPIC, "orders", (SET, "retention.ms", "5"), (SET, "segment.ms", "7"))
    assert world.replace(TOPIC, "orders", {"retention.ms": "6"}).error_code == ErrorCode.NONE
    assert world.image.topic_configs("orders") == {"retention.ms": "6"}
    assert world.replace(TOPIC, "orders", {"retention.ms": None}).error_code == ErrorCode.INVALID_REQUEST
    assert world.replace(BROKER, "1", {"node.id": "6"}).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "b@d", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "anything", ErrorCode.NONE),
        (GROUP, "anything", ErrorCode.NONE),
    ],
)
def test_what_cannot_be_described_has_kafkas_code(world: World, kind: int, name: str, code: ErrorCode) -> None:
    result = world.describe(kind, name)
    assert result.error_code == code
    assert bool(result.configs) is (code is ErrorCode.NONE)


def test_documentation_comes_when_asked_for(world: World) -> None:
    assert world.describe(TOPIC, "orders", "retention.ms").configs[0].documentation is None
    entry = world.describe(TOPIC, "orders", "retention.ms", include_documentation=True).configs[0]
    assert entry.documentation
    assert entry.synonyms == []


def test_log_levels_change_at_once(world: World) -> None:
    logger = logging.getLogger("ottla.test_config_apis")
    try:
        assert world.alter(LOGGER, "1", (SET, logger.name, "debug")).error_code == ErrorCode.NONE
        assert logger.level == logging.DEBUG
        assert world.described(LOGGER, "1", logger.name).value == "DEBUG"
        assert world.alter(LOGGER, "1", (DELETE, logger.name, None)).error_code == ErrorCode.NONE
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(logging.NOTSET)


def test_resources_are_listed_by_type(world: World) -> None:
    world.alter(CLIENT_METRICS, "m", (SET, "interval.ms", "500"))
    world.alter(GROUP, "g", (SET, "consumer.session.timeout.ms", "50000"))

    def listed(version: int, *kinds: int) -> Any:
        request = ListConfigResourcesRequest(resource_types=list(kinds))
        return world.call(list_config_resources, request, Caller("app", CLIENT, 74, version))

    def rows(response: Any) -> list[tuple[int, str]]:
        return [(resource.resource_type, resource.resource_name) for resource in response.config_resources]

    assert rows(listed(0)) == [(CLIENT_METRICS, "m")]
    assert rows(listed(1, TOPIC)) == [(TOPIC, "orders")]
    assert rows(listed(1)) == [(TOPIC, "orders"), (BROKER, "1"), (LOGGER, "1"), (CLIENT_METRICS, "m"), (GROUP, "g")]
    assert listed(1, 77).error_code == ErrorCode.UNSUPPORTED_VERSION


def set_quota(world: World, quotas: dict[str, float], **entity: str | None) -> ErrorCode:
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[
                    AlterClientQuotasRequestEntityData(entity_type=kind.replace("_", "-"), entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[OpData(key=key, value=value) for key, value in quotas.items()],
            )
        ]
    )
    response = world.alter_client_quotas(request)
    return ErrorCode(response.entries[0].error_code)


def find_quotas(world: World, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    return world.call(describe_client_quotas, request)


QUOTAS_LIKE_KAFKA = (
    ({"user": "zoe"}, ["zoe"]),
    ({"user": "amy"}, ["zoe", "amy"]),
    ({"client-id": "c1"}, ["zoe", "amy", "c1"]),
    ({"user": "amy", "client-id": "c1"}, ["c1 amy", "amy", "c1", "zoe"]),
    ({"client-id": "c1", "user": "bob"}, ["c1 amy", "c1 bob", "amy", "c1", "zoe"]),
    ({"user": None}, ["c1 amy", "c1 bob", "amy", "c1", "None", "zoe"]),
    ({"user": "u1"}, ["c1 amy", "u1", "amy", "c1", "c1 bob", "None", "zoe"]),
)
"""Entities in the order in which they got quotas, and how Apache Kafka 4.3.1 lists all of them then."""


def test_quotas_are_listed_in_kafkas_order(world: World) -> None:
    rates = {"request_percentage": 50.0, "producer_byte_rate": 5.0, "controller_mutation_rate": 5.0}
    for entity, listed in QUOTAS_LIKE_KAFKA:
        assert set_quota(world, {**rates, "consumer_byte_rate": 5.0}, **entity) is ErrorCode.NONE
        found = find_quotas(world).entries
        assert [" ".join(str(part.entity_name) for part in entry.entity) for entry in found] == listed
        assert [value.key for value in found[0].values] == [
            "producer_byte_rate",
            "consumer_byte_rate",
            "controller_mutation_rate",
            "request_percentage",
        ]


def test_altered_quotas_are_answered_in_kafkas_order(world: World) -> None:
    entries = [
        AlterClientQuotasRequestEntryData(
            entity=[
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
            ],
            ops=[OpData(key="producer_byte_rate", value=5.0)],
        )
        for entity, _ in QUOTAS_LIKE_KAFKA
    ]
    response = world.alter_client_quotas(AlterClientQuotasRequest(entries=entries))
    names = [" ".join(str(part.entity_name) for part in entry.entity) for entry in response.entries]
    assert names == ["c1 amy", "u1", "amy", "c1", "c1 bob", "None", "zoe"]


def test_quotas_are_found_by_entity(world: World) -> None:
    assert set_quota(world, {"producer_byte_rate": 1000.0}, user="bob") is ErrorCode.NONE
    assert set_quota(world, {"producer_byte_rate": 10.0}, user="bob", client_id=None) is ErrorCode.NONE
    assert set_quota(world, {"consumer_byte_rate": 5.0}, client_id="app") is ErrorCode.NONE
    assert set_quota(world, {"nonsense": 5.0}, client_id="app") is ErrorCode.INVALID_REQUEST
    assert len(find_quotas(world).entries) == 3
    assert len(find_quotas(world, ("user", 0, "bob")).entries) == 2
    (only,) = find_quotas(world, ("user", 0, "bob"), strict=True).entries
    assert [(value.key, value.value) for value in only.values] == [("producer_byte_rate", 1000.0)]
    (default,) = find_quotas(world, ("client-id", 1, None)).entries
    assert {part.entity_type: part.entity_name for part in default.entity} == {"user": "bob", "client-id": None}
    assert len(find_quotas(world, ("client-id", 2, None)).entries) == 2
    assert find_quotas(world, ("user", 0, "alice")).entries == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 0, "x"), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("color", 0, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    world: World, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    response = find_quotas(world, *components)
    assert response.error_code == code
    assert response.entries is None


def test_a_client_asks_and_pushes(world: World) -> None:
    world.alter(CLIENT_METRICS, "m", (SET, "metrics", "producer."), (SET, "interval.ms", "500"))
    answer = world.call(get_telemetry_subscriptions, GetTelemetrySubscriptionsRequest())
    assert answer.error_code == ErrorCode.NONE
    assert answer.requested_metrics == ["producer."]
    assert answer.push_interval_ms == 500
    assert answer.telemetry_max_bytes == 1_048_576
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    pushed = world.call(
        push_telemetry,
        PushTelemetryRequest(
            client_instance_id=answer.client_instance_id, subscription_id=answer.subscription_id, metrics=b"otlp"
        ),
    )
    assert pushed.error_code == ErrorCode.NONE
    assert world.ground.metrics.telemetry_bytes.value == 4
    again = world.call(
        push_telemetry,
        PushTelemetryRequest(client_instance_id=answer.client_instance_id, subscription_id=answer.subscription_id),
    )
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_request_cannot_ask_for_all_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.apis.describe_configs.MAX_ENTRIES", 1000)
    resources = [DescribeConfigsResource(resource_type=BROKER, resource_name="1") for _ in range(1000)]
    results = world.call(describe_configs, DescribeConfigsRequest(resources=resources)).results
    assert [result.error_code for result in results[:3]] == [ErrorCode.NONE] * 3
    assert results[-1].error_code == ErrorCode.INVALID_REQUEST
    assert results[0].configs is results[1].configs


def test_resources_with_different_settings_are_described_apart(world: World) -> None:
    world.alter(GROUP, "a", (SET, "consumer.session.timeout.ms", "50000"))
    resources = [DescribeConfigsResource(resource_type=GROUP, resource_name=name) for name in ("a", "b", "c")]
    first, second, third = world.call(describe_configs, DescribeConfigsRequest(resources=resources)).results
    assert first.configs[0].value == "50000"
    assert second.configs[0].value == third.configs[0].value == "45000"


class Elsewhere(Controllership):
    """The active controller on another node, which decides what is passed on to it."""

    is_active = False

    def __init__(self, world: World) -> None:
        self._world = world
        self._active = world.metadata.controllership
        self.forwarded: list[Message] = []

    @property
    def controller(self) -> Controller:
        return self._active.controller

    async def commit(self, decision: Decision[Reply]) -> Reply:
        return await self._active.commit(decision)

    async def forward(self, request: Message, caller: Caller) -> Any:
        self.forwarded.append(request)
        return await self._world.call(incremental_alter_configs, request, FORWARDED)


def test_a_broker_checks_what_is_its_own_and_passes_on_the_rest(world: World) -> None:
    elsewhere = world.metadata.controllership = Elsewhere(world)
    world.alter(BROKER, "7", (SET, "log.cleaner.threads", "2"))
    assert elsewhere.forwarded == []  # it is not broker 7
    row = world.alter(BROKER, "1", (SET, "log.cleaner.threads", "2"))
    assert (row.error_code, len(elsewhere.forwarded)) == (0, 1)
    assert world.image.configs[BROKER, "1"] == {"log.cleaner.threads": "2"}


def test_the_controller_takes_what_another_broker_has_checked(world: World) -> None:
    world.commit(RegisterBrokerRecord(broker_id=7, incarnation_id=b"j" * 16, broker_epoch=6))
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="7", configs=[])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = world.loop.run(world.call(incremental_alter_configs, request, FORWARDED))
    assert response.responses[0].error_code == 0
