"""Settings in the metadata log."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages import alter_configs as alter
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.records.clear_elr_record import ClearElrRecord

from .clusters import Cluster

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32


def change(cluster: Cluster, kind: int, name: str, *operations: tuple[str, int, str | None]) -> tuple[int, str | None]:
    resource = incremental.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ],
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
    reply = cluster.commit(cluster.controller.incremental_alter_configs(request))
    return reply.responses[0].error_code, reply.responses[0].error_message


def replace(cluster: Cluster, kind: int, name: str, **configs: str | None) -> int:
    resource = alter.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[alter.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    reply = cluster.commit(cluster.controller.alter_configs(alter.AlterConfigsRequest(resources=[resource])))
    return reply.responses[0].error_code


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(1)
    made.create("t", [1])
    return made


def test_settings_are_set_and_deleted_one_by_one(cluster: Cluster) -> None:
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "1"), ("segment.ms", SET, "2"))[0] == 0
    assert change(cluster, TOPIC, "t", ("retention.ms", DELETE, None))[0] == 0
    assert cluster.image.configs[TOPIC, "t"] == {"segment.ms": "2"}


def test_lists_grow_from_their_default_and_shrink(cluster: Cluster) -> None:
    change(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete"))
    assert cluster.image.configs[TOPIC, "t"]["cleanup.policy"] == "delete,compact"
    change(cluster, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete,nothing"))
    assert cluster.image.configs[TOPIC, "t"]["cleanup.policy"] == "compact"
    assert change(cluster, TOPIC, "t", ("retention.ms", APPEND, "5"))[0] == ErrorCode.INVALID_CONFIG


def test_one_wrong_setting_refuses_its_resource(cluster: Cluster) -> None:
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "1"), ("nope", SET, "1"))[0] == ErrorCode.INVALID_CONFIG
    assert (TOPIC, "t") not in cluster.image.configs


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code"),
    [
        (TOPIC, "nope", "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", "retention.ms", "1", ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", "retention.ms", "1", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "t", "retention.ms", None, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "log.cleaner.threads", "2", ErrorCode.NONE),
        (BROKER, "", "log.cleaner.threads", "2", ErrorCode.NONE),
        (BROKER, "x", "log.cleaner.threads", "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "-1", "log.cleaner.threads", "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "7", "log.cleaner.threads", "2", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (CLIENT_METRICS, "sub", "interval.ms", "1000", ErrorCode.NONE),
        (CLIENT_METRICS, "", "interval.ms", "1000", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "sub", "nope", "1", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", "consumer.session.timeout.ms", "50000", ErrorCode.NONE),
        (GROUP, "", "consumer.session.timeout.ms", "50000", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", "nope", "1", ErrorCode.INVALID_CONFIG),
        (99, "x", "a", "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_are_checked(
    cluster: Cluster, kind: int, name: str, key: str, value: str | None, code: ErrorCode
) -> None:
    assert change(cluster, kind, name, (key, SET, value))[0] == code


def test_the_same_resource_or_key_twice_is_refused(cluster: Cluster) -> None:
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))[0] == 42
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource, resource])
    reply = cluster.controller.incremental_alter_configs(request).reply
    assert [response.error_code for response in reply.responses] == [42, 42]


def test_legacy_alter_replaces_everything(cluster: Cluster) -> None:
    assert replace(cluster, TOPIC, "t", retention_ms="1", segment_ms="2") == 0
    assert replace(cluster, TOPIC, "t", segment_ms="3") == 0
    assert cluster.image.configs[TOPIC, "t"] == {"segment.ms": "3"}
    assert replace(cluster, TOPIC, "t", segment_ms=None) == ErrorCode.INVALID_REQUEST


def test_brokers_are_told_even_of_what_stays(cluster: Cluster) -> None:
    change(cluster, BROKER, "", ("log.cleaner.threads", SET, "2"))
    offset = cluster.offset
    change(cluster, BROKER, "", ("log.cleaner.threads", SET, "2"))
    assert cluster.offset == offset + 1
    change(cluster, TOPIC, "t", ("retention.ms", SET, "2"))
    offset = cluster.offset
    change(cluster, TOPIC, "t", ("retention.ms", SET, "2"))
    assert cluster.offset == offset


def test_another_min_insync_replicas_starts_eligibility_anew(cluster: Cluster) -> None:
    for kind, name, cleared in ((TOPIC, "t", "t"), (BROKER, "", "")):
        resource = incremental.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[incremental.AlterableConfig(name="min.insync.replicas", config_operation=SET, value="2")],
        )
        decision = cluster.controller.incremental_alter_configs(
            incremental.IncrementalAlterConfigsRequest(resources=[resource])
        )
        assert decision.records[-1] == ClearElrRecord(topic_name=cleared)


def test_dynamic_broker_settings_steer_the_controller(cluster: Cluster) -> None:
    from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

    change(cluster, BROKER, "", ("min.insync.replicas", SET, "2"))
    topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    reply = cluster.commit(cluster.controller.create_topics(CreateTopicsRequest(topics=[topic])))
    shown = {config.name: config.value for config in reply.topics[0].configs or []}
    assert shown["min.insync.replicas"] == "2"


def test_validate_only_decides_nothing(cluster: Cluster) -> None:
    resource = alter.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[alter.AlterableConfig(name="retention.ms", value="5")]
    )
    request = alter.AlterConfigsRequest(resources=[resource], validate_only=True)
    assert cluster.controller.alter_configs(request).records == []
