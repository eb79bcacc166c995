"""CreateTopics, DeleteTopics and CreatePartitions as the controller decides them."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.topic_record import TopicRecord

from .clusters import Cluster, directory


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def assigned(name: str, *brokers: list[int], partitions: int = -1, replicas: int = -1) -> CreatableTopic:
    made = topic(name, partitions, replicas)
    made.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(brokers)
    ]
    return made


def create(cluster: Cluster, *topics: CreatableTopic) -> dict[str, CreatableTopicResult]:
    reply = cluster.commit(cluster.controller.create_topics(CreateTopicsRequest(topics=list(topics))))
    return {result.name: result for result in reply.topics}


def codes(results: dict[str, CreatableTopicResult]) -> dict[str, ErrorCode]:
    return {name: ErrorCode(result.error_code) for name, result in results.items()}


def test_records_of_a_new_topic_come_in_kafkas_order() -> None:
    cluster = Cluster(1)
    decision = cluster.controller.create_topics(CreateTopicsRequest(topics=[topic("t", 2, retention_ms="1000")]))
    assert [type(record) for record in decision.records] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    partition = decision.records[2]
    assert (partition.replicas, partition.isr, partition.leader) == ([1], [1], 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == [directory(1)]
    assert decision.is_atomic


def test_the_reply_describes_the_topic() -> None:
    result = create(Cluster(1), topic("t", 3, retention_ms="1000"))["t"]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 3, 1)
    assert result.configs is not None
    configs = {entry.name: entry for entry in result.configs}
    assert [entry.name for entry in result.configs] == sorted(configs)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert configs["cleanup.policy"].config_source == 5


def test_defaults_come_from_the_brokers_settings() -> None:
    cluster = Cluster(1, 2, num_partitions="4", default_replication_factor="2")
    create(cluster, topic("t", -1, -1))
    partitions = cluster.image.topics_by_name["t"].partitions
    assert len(partitions) == 4
    assert all(len(partition.replicas) == 2 for partition in partitions.values())


def test_one_topic_that_cannot_be_created_does_not_hinder_the_others() -> None:
    cluster = Cluster(1)
    create(cluster, topic("there"), topic("a.b"))
    results = codes(
        create(
            cluster,
            topic("there"),
            topic("a_b"),
            topic("bad name"),
            topic("good"),
            topic("rf0", 1, 0),
            topic("rf3", 1, 3),
            topic("p0", 0),
            topic("p-2", -2),
            topic("unknown", nope="1"),
            topic("wrong", retention_ms="x"),
            topic("null", retention_ms=None),
            topic("__cluster_metadata"),
        )
    )
    assert results == {
        "there": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "good": ErrorCode.NONE,
        "rf0": ErrorCode.INVALID_REPLICATION_FACTOR,
        "rf3": ErrorCode.INVALID_REPLICATION_FACTOR,
        "p0": ErrorCode.INVALID_PARTITIONS,
        "p-2": ErrorCode.INVALID_PARTITIONS,
        "unknown": ErrorCode.INVALID_CONFIG,
        "wrong": ErrorCode.INVALID_CONFIG,
        "null": ErrorCode.INVALID_CONFIG,
        "__cluster_metadata": ErrorCode.INVALID_REQUEST,
    }
    assert list(cluster.image.topics_by_name) == ["there", "a.b", "good"]


def test_a_topic_named_twice_is_not_created() -> None:
    cluster = Cluster(1)
    results = codes(create(cluster, topic("t", 1), topic("t", 2), topic("u")))
    assert results == {"t": ErrorCode.INVALID_REQUEST, "u": ErrorCode.NONE}
    assert list(cluster.image.topics_by_name) == ["u"]


def test_a_name_is_free_again_after_its_topic_is_deleted() -> None:
    cluster = Cluster(1)
    create(cluster, topic("a.b"))
    first_id = cluster.image.topics_by_name["a.b"].id
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="a.b")])
    cluster.commit(cluster.controller.delete_topics(delete))
    assert codes(create(cluster, topic("a_b"))) == {"a_b": ErrorCode.NONE}
    assert cluster.image.topics_by_name["a_b"].id != first_id


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (assigned("t", [1, 2], [2, 1]), ErrorCode.NONE),
        (assigned("t", [1], partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", [1], replicas=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", [1], [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_manual_assignment_is_checked(wanted: CreatableTopic, code: ErrorCode) -> None:
    assert codes(create(Cluster(1, 2), wanted)) == {"t": code}


def test_manual_assignments_name_every_partition_once() -> None:
    cluster = Cluster(1)
    gap, twice = assigned("gap", [1]), assigned("twice", [1], [1])
    gap.assignments[0].partition_index = 1
    twice.assignments[1].partition_index = 0
    assert set(codes(create(cluster, gap, twice)).values()) == {ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_fenced_brokers_hold_replicas_but_are_not_in_sync() -> None:
    cluster = Cluster(1, 2)
    cluster.commit(cluster.controller.fence(2))
    create(cluster, topic("t", 1, 2))
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (sorted(partition.replicas), partition.isr, partition.leader) == ([1, 2], (1,), 1)
    cluster.commit(cluster.controller.fence(1))
    assert codes(create(cluster, topic("u"), assigned("v", [1]))) == {
        "u": ErrorCode.INVALID_REPLICATION_FACTOR,
        "v": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }


def test_validate_only_decides_nothing() -> None:
    cluster = Cluster(1)
    decision = cluster.controller.create_topics(CreateTopicsRequest(topics=[topic("t")], validate_only=True))
    assert decision.records == []
    assert decision.reply.topics[0].error_code == ErrorCode.NONE
    partitions = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)])
    partitions.validate_only = True
    create(cluster, topic("t"))
    assert cluster.controller.create_partitions(partitions).records == []


def test_a_request_for_more_than_one_batch_of_partitions_is_refused_whole() -> None:
    cluster = Cluster(1)
    results = codes(create(cluster, topic("a", 6_000), topic("b", 6_000), topic("c")))
    assert set(results.values()) == {ErrorCode.POLICY_VIOLATION}
    assert cluster.image.topics_by_name == {}


def test_the_mutation_quota_counts_partitions() -> None:
    cluster = Cluster(1)
    counted: list[int] = []

    def charge(partitions: int) -> None:
        counted.append(partitions)
        if sum(counted) > 5:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    request = CreateTopicsRequest(topics=[topic("a", 3), topic("b", 3), topic("bad name", 9)])
    reply = cluster.commit(cluster.controller.create_topics(request, charge=charge))
    assert [result.error_code for result in reply.topics] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED, 17]
    assert counted == [3, 3]


def test_topics_are_deleted_by_name_or_by_id() -> None:
    cluster = Cluster(1)
    create(cluster, topic("a"), topic("b", retention_ms="1"), topic("c"), topic("d"))
    ids = {name: found.id for name, found in cluster.image.topics_by_name.items()}
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name="a"),
            DeleteTopicState(topic_id=ids["b"]),
            DeleteTopicState(name="nope"),
            DeleteTopicState(topic_id=b"x" * 16),
            DeleteTopicState(name="c"),
            DeleteTopicState(name="c"),
            DeleteTopicState(name="d", topic_id=ids["d"]),
            DeleteTopicState(),
        ]
    )
    reply = cluster.commit(cluster.controller.delete_topics(request))
    assert [(result.name, result.topic_id, result.error_code) for result in reply.responses] == [
        ("a", ids["a"], ErrorCode.NONE),
        ("b", ids["b"], ErrorCode.NONE),
        ("nope", bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        ("c", bytes(16), ErrorCode.INVALID_REQUEST),
        ("d", ids["d"], ErrorCode.INVALID_REQUEST),
        (None, bytes(16), ErrorCode.INVALID_REQUEST),
    ]
    assert list(cluster.image.topics_by_name) == ["c", "d"]
    assert cluster.image.configs.get((2, "b")) is None


def test_a_topic_named_by_name_and_by_id_is_deleted_once() -> None:
    cluster = Cluster(1)
    create(cluster, topic("a"))
    id = cluster.image.topics_by_name["a"].id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(topic_id=id)])
    reply = cluster.commit(cluster.controller.delete_topics(request))
    assert sorted(result.error_code for result in reply.responses) == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert cluster.image.topics_by_name == {}


def test_partitions_are_added_behind_the_others() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1, 2])
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name="t", count=3, assignments=None),
            CreatePartitionsTopic(name="nope", count=3, assignments=None),
        ]
    )
    reply = cluster.commit(cluster.controller.create_partitions(request))
    assert [result.error_code for result in reply.results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    partitions = cluster.image.topics_by_name["t"].partitions
    assert list(partitions) == [0, 1, 2]
    assert all(len(partition.replicas) == 2 for partition in partitions.values())


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[2]], ErrorCode.NONE),
        (4, [[2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (20_000, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_new_partitions_are_checked(count: int, assignments: list[list[int]] | None, code: ErrorCode) -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1], [1])
    wanted = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=count, assignments=wanted)])
    assert cluster.commit(cluster.controller.create_partitions(request)).results[0].error_code == code
    if code is ErrorCode.NONE:
        assert cluster.image.topics_by_name["t"].partitions[2].replicas == (2,)


def test_a_broker_says_which_log_directory_holds_a_replica() -> None:
    cluster = Cluster(1)
    cluster.create("t", [1])
    id = cluster.image.topics_by_name["t"].id
    cluster.commit(cluster.controller.assign_replicas_to_dirs(1, {(id, 0): b"e" * 16, (id, 9): b"e" * 16}))
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.directories, partition.leader_epoch) == ((b"e" * 16,), 0)
    assert cluster.controller.assign_replicas_to_dirs(1, {(id, 0): b"e" * 16}).records == []


def test_old_metadata_versions_get_records_they_can_hold() -> None:
    cluster = Cluster(1, levels={"metadata": 7, "elr": 0})
    decision = cluster.controller.create_topics(CreateTopicsRequest(topics=[topic("t")]))
    assert decision.records[1].directories == []
