"""AlterPartition: the ISR that a leader proposes, with the errors of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster.topic import RECOVERED, RECOVERING
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionRequestTopicData

from .clusters import Cluster, fail_directory, partition_of, propose


@pytest.fixture
def three() -> Cluster:
    cluster = Cluster(1, 2, 3, min_insync_replicas="2")
    cluster.create("t", [1, 2, 3])
    return cluster


def test_the_isr_shrinks_and_grows_without_a_new_leader_epoch(three: Cluster) -> None:
    row = propose(three, 1, [1, 3])
    assert (row.error_code, row.leader_id, row.leader_epoch, row.isr, row.partition_epoch) == (0, 1, 0, [1, 3], 1)
    assert partition_of(three).isr == (1, 3)
    row = propose(three, 1, [1, 3, 2])
    assert (row.error_code, row.isr, row.partition_epoch) == (0, [1, 3, 2], 2)
    again = propose(three, 1, [1, 3, 2])
    assert (again.error_code, again.partition_epoch) == (0, 2)


def test_a_replica_that_leaves_below_min_insync_replicas_is_eligible_until_it_is_back(three: Cluster) -> None:
    propose(three, 1, [1, 2])
    propose(three, 1, [1])
    assert (partition_of(three).isr, partition_of(three).elr) == ((1,), (2,))
    three.commit(three.controller.fence(1))
    left = partition_of(three)
    assert (left.leader, left.isr, left.elr) == (2, (2,), (1,))
    propose(three, 2, [2, 3])
    assert (partition_of(three).isr, partition_of(three).elr) == ((2, 3), ())


@pytest.mark.parametrize(
    ("leader", "isr", "change", "code"),
    [
        (1, [1], {"topic_id": b"?" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        (1, [1], {"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, [1], {"leader_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        (1, [1], {"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        (1, [1], {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        (1, [1], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        (2, [1, 2], {}, ErrorCode.INVALID_REQUEST),
        (1, [2], {}, ErrorCode.INVALID_REQUEST),
        (1, [], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 1], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 9], {}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"broker_epochs": {2: 1}}, ErrorCode.INELIGIBLE_REPLICA),
        (1, [1, 3], {}, ErrorCode.INELIGIBLE_REPLICA),
        (1, [1, 4], {}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_is_checked(leader: int, isr: list[int], change: dict[str, Any], code: ErrorCode) -> None:
    cluster = Cluster(1, 2, 3, 4, 5)
    cluster.create("t", [5, 1, 2, 3, 4])
    cluster.commit(cluster.controller.fence(3))
    cluster.commit(cluster.controller.shut_down(4))
    cluster.commit(cluster.controller.fence(5))
    before = partition_of(cluster)
    assert (before.leader, before.leader_epoch, before.partition_epoch) == (1, 1, 3)
    shifted = {name: value + 2 if name == "partition_epoch" else value for name, value in change.items()}
    assert propose(cluster, leader, isr, **shifted).error_code == code
    assert partition_of(cluster) == before


def test_a_leader_of_an_earlier_registration_is_not_heard(three: Cluster) -> None:
    for broker_epoch in (-1, 99):
        with pytest.raises(KafkaError) as raised:
            propose(three, 1, [1], broker_epoch=broker_epoch)
        assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(KafkaError) as raised:
        three.controller.alter_partition(
            AlterPartitionRequest(
                broker_id=9, broker_epoch=1, topics=[AlterPartitionRequestTopicData(topic_id=b"t" * 16)]
            )
        )
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_request_that_proposes_nothing_is_answered_as_by_kafka(three: Cluster) -> None:
    decision = three.controller.alter_partition(AlterPartitionRequest(broker_id=9, broker_epoch=1))
    assert (decision.records, decision.reply.error_code) == ([], ErrorCode.NONE)


def test_a_replica_whose_log_directory_failed_is_not_in_sync(three: Cluster) -> None:
    propose(three, 1, [1, 3])
    fail_directory(three, 2)
    assert propose(three, 1, [1, 3, 2]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert partition_of(three).isr == (1, 3)


def test_a_replica_is_in_sync_only_in_the_registration_in_which_it_fetched(three: Cluster) -> None:
    epoch = three.image.brokers[2].epoch
    three.start(2, incarnation=2, previous=epoch)
    assert partition_of(three).isr == (1, 3)
    assert propose(three, 1, [1, 3, 2], broker_epochs={2: epoch}).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert propose(three, 1, [1, 3, 2], broker_epochs={2: three.image.brokers[2].epoch}).error_code == 0


def test_the_oldest_version_names_replicas_without_epochs(three: Cluster) -> None:
    row = propose(three, 1, [], new_isr=[1, 2])
    assert (row.error_code, row.isr) == (0, [1, 2])


def test_a_recovering_leader_recovers() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1])
    cluster.start(1, incarnation=2)
    assert partition_of(cluster).leader_recovery_state == RECOVERING
    assert propose(cluster, 1, [1], leader_recovery_state=RECOVERING).error_code == 0
    row = propose(cluster, 1, [1])
    assert (row.error_code, row.leader_recovery_state) == (0, RECOVERED)
    assert partition_of(cluster).leader_recovery_state == RECOVERED
