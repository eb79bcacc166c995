"""Leaders by request and reassignments: Kafka's answers, word for word, where Apache Kafka 4.3.1 was asked."""

from __future__ import annotations

import pytest

from ottla.cluster.topic import RECOVERING
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.sentinels import NO_LEADER

from .clusters import Cluster, directory, partition_of, propose

NEEDLESS = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def reassign(
    cluster: Cluster, topic: str, partition: int, replicas: list[int] | None, *, may_change_factor: bool = True
) -> tuple[int, str | None]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=[
            ReassignableTopic(
                name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)]
            )
        ],
    )
    response = cluster.commit(cluster.controller.alter_partition_reassignments(request))
    row = response.responses[0].partitions[0]
    return row.error_code, row.error_message


def elect(cluster: Cluster, kind: int, *partitions: tuple[str, int]) -> list[tuple[int, str | None]]:
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[TopicPartitions(topic=topic, partitions=[index]) for topic, index in partitions] or None,
    )
    response = cluster.commit(cluster.controller.elect_leaders(request))
    return [
        (row.error_code, row.error_message)
        for topic in response.replica_election_results
        for row in topic.partition_result
    ]


@pytest.fixture
def alone() -> Cluster:
    cluster = Cluster(1)
    cluster.create("t", [1], [1])
    return cluster


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code", "message"),
    [
        ("t", 0, [1], ErrorCode.NONE, None),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
        (
            "t",
            0,
            [],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            "t",
            0,
            [9],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            "t",
            0,
            [1, 1],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        ("t", 7, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:7."),
        ("nix", 0, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nix."),
    ],
)
def test_reassignment_on_one_broker_answers_as_kafka(
    alone: Cluster, topic: str, partition: int, replicas: list[int] | None, code: int, message: str | None
) -> None:
    assert reassign(alone, topic, partition, replicas) == (code, message)


def test_replicas_are_taken_away_and_reordered_at_once() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1, 2])
    assert reassign(cluster, "t", 0, [2, 1]) == (0, None)
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.replicas, partition.directories) == ((2, 1), (directory(2), directory(1)))
    assert partition.leader == 1
    assert reassign(cluster, "t", 0, [2], may_change_factor=False) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 1",
    )
    assert reassign(cluster, "t", 0, [2]) == (0, None)
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), 2)


def assignment(cluster: Cluster) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Replicas of t-0, those that come and those that go."""
    partition = partition_of(cluster)
    return partition.replicas, partition.adding, partition.removing


def test_a_replica_is_copied_before_another_goes() -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.create("t", [1, 2])
    assert reassign(cluster, "t", 0, [3, 4]) == (0, None)
    assert assignment(cluster) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert partition_of(cluster).directories == tuple(map(directory, (3, 4, 1, 2)))
    assert (partition_of(cluster).leader, partition_of(cluster).leader_epoch) == (1, 0)
    assert propose(cluster, 1, [1, 2, 3]).error_code == 0
    assert assignment(cluster) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert propose(cluster, 1, [1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert assignment(cluster) == ((3, 4), (), ())
    done = partition_of(cluster)
    assert (done.isr, done.leader, done.leader_epoch, done.directories) == ((3, 4), 3, 1, (directory(3), directory(4)))


def test_the_leader_stays_when_it_is_not_reassigned_and_its_epoch_grows() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("t", [1, 2])
    reassign(cluster, "t", 0, [1, 3])
    row = propose(cluster, 1, [1, 2, 3])
    assert (row.error_code, row.leader_id, row.leader_epoch, row.isr) == (0, 1, 1, [1, 3])
    assert assignment(cluster) == ((1, 3), (), ())


def test_a_replica_that_dies_on_the_way_does_not_end_the_reassignment() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("t", [1])
    reassign(cluster, "t", 0, [2, 3])
    propose(cluster, 1, [1, 2])
    cluster.commit(cluster.controller.fence(1))
    assert (partition_of(cluster).leader, partition_of(cluster).isr) == (2, (2,))
    assert assignment(cluster) == ((2, 3, 1), (2, 3), (1,))
    propose(cluster, 2, [2, 3])
    assert assignment(cluster) == ((2, 3), (), ())


def test_a_second_reassignment_takes_the_place_of_the_first() -> None:
    cluster = Cluster(1, 2, 3, 4, 5)
    cluster.create("t", [1, 2])
    reassign(cluster, "t", 0, [3, 4])
    reassign(cluster, "t", 0, [3, 5])
    assert assignment(cluster) == ((3, 5, 1, 2, 4), (3, 4, 5), (1, 2, 4))
    assert reassign(cluster, "t", 0, [3, 4, 5], may_change_factor=False)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(cluster, "t", 0, None) == (0, None)
    assert assignment(cluster) == ((1, 2), (), ())


def test_a_reassignment_that_goes_on_is_cancelled() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1])
    reassign(cluster, "t", 0, [2])
    assert assignment(cluster) == ((2, 1), (2,), (1,))
    assert reassign(cluster, "t", 0, None) == (0, None)
    assert assignment(cluster) == ((1,), (), ())
    assert partition_of(cluster).directories == (directory(1),)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_cancel_that_would_lose_records_needs_permission(is_allowed: bool) -> None:
    cluster = Cluster(1, 2, 3, unclean_leader_election_enable=str(is_allowed).lower())
    cluster.create("t", [1])
    reassign(cluster, "t", 0, [2, 3])
    propose(cluster, 1, [1, 2])
    cluster.commit(cluster.controller.fence(1))
    code, message = reassign(cluster, "t", 0, None)
    if is_allowed:
        assert (code, message) == (0, None)
        assert partition_of(cluster).leader == NO_LEADER
        assert (partition_of(cluster).isr, partition_of(cluster).leader_recovery_state) == ((1,), RECOVERING)
    else:
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert message == (
            "Unable to revert partition assignment for t:0 because it would require an unclean leader election."
        )


def test_leaders_go_back_to_the_preferred_replicas_by_themselves() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1, 2], [1, 2], [2, 1])
    epoch = cluster.image.brokers[1].epoch
    cluster.commit(cluster.controller.fence(1))
    assert [partition_of(cluster, index).leader for index in range(3)] == [2, 2, 2]
    assert cluster.controller.balance_leaders().records == []
    cluster.start(1, incarnation=2, previous=epoch)
    assert propose(cluster, 2, [2, 1]).error_code == 0
    decision = cluster.controller.balance_leaders()
    assert (len(decision.records), decision.reply) == (1, False)
    cluster.commit(decision)
    assert [partition_of(cluster, index).leader for index in range(3)] == [1, 2, 2]


def test_a_topic_that_comes_to_allow_it_gets_a_leader_that_may_lack_records() -> None:
    cluster = Cluster(1, 2, levels={"elr": 0})
    cluster.create("t", [1, 2])
    cluster.commit(cluster.controller.fence(2))
    cluster.commit(cluster.controller.fence(1))
    cluster.start(2, incarnation=2)
    assert cluster.controller.elect_unclean_leaders().records == []
    cluster.controller.replay(
        ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    )
    cluster.commit(cluster.controller.elect_unclean_leaders())
    assert partition_of(cluster).leader == 2


def test_no_election_is_needed_where_the_first_replica_leads(alone: Cluster) -> None:
    assert elect(alone, 0, ("t", 0), ("t", 1)) == [NEEDLESS, NEEDLESS]
    assert elect(alone, 1, ("t", 0)) == [NEEDLESS]
    assert elect(alone, 0) == elect(alone, 1) == []
    assert elect(alone, 0, ("t", 7), ("nix", 0)) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-7"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nix"),
    ]
    assert elect(alone, 5, ("t", 0)) == [(ErrorCode.INVALID_REQUEST, "Unknown election type 5")]


def test_the_preferred_replica_leads_again_when_it_is_in_sync() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1, 2])
    reassign(cluster, "t", 0, [2, 1])
    assert cluster.image.topics_by_name["t"].partitions[0].leader == 1
    assert elect(cluster, 0) == [(0, None)]
    assert cluster.image.topics_by_name["t"].partitions[0].leader == 2
    cluster.commit(cluster.controller.fence(2))
    assert cluster.image.topics_by_name["t"].partitions[0].leader == 1
    assert elect(cluster, 0, ("t", 0)) == [
        (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    ]


def test_an_unclean_election_takes_a_replica_that_is_not_in_sync() -> None:
    cluster = Cluster(1, 2, levels={"elr": 0})
    cluster.create("t", [1, 2])
    cluster.commit(cluster.controller.fence(2))
    cluster.commit(cluster.controller.fence(1))
    assert cluster.image.topics_by_name["t"].partitions[0].leader == NO_LEADER
    assert elect(cluster, 1, ("t", 0)) == [
        (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
    ]
    cluster.start(2, incarnation=2)
    assert cluster.image.topics_by_name["t"].partitions[0].leader == NO_LEADER
    assert elect(cluster, 1, ("t", 0)) == [(0, None)]
    assert cluster.image.topics_by_name["t"].partitions[0].leader == 2
