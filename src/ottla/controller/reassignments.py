"""Leaders by request, and partitions that are to be on other brokers: ElectLeaders and the two reassignment APIs.

A replica can be taken away, or the order of replicas changed, at once. A replica that would have to be copied to
another broker first is refused: there is no replication between brokers yet.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.cluster import PartitionImage, TopicImage
from ottla.cluster.topic import NO_LEADER
from ottla.controller.elections import plan_partition_change
from ottla.controller.topics import check_brokers
from ottla.controller.view import View
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord

PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = "Leader election not needed for topic partition."

# --- leaders


def elect_leaders(view: View, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Make first replicas leaders again, or any replica where there is no leader. Of all partitions, if none is named:
    then those that need no election are left out."""
    elections: dict[int, Callable[[View, TopicImage, int], PartitionChangeRecord]] = {
        PREFERRED: _preferred,
        UNCLEAN: _unclean,
    }
    elect = elections.get(request.election_type)
    if elect is None:
        return Decision([], _refused_elections(request))
    is_all = request.topic_partitions is None
    wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions or ()]
    if is_all:
        wanted = [(name, list(topic.partitions)) for name, topic in view.image.topics_by_name.items()]
    records: list[Message] = []
    response = ElectLeadersResponse()
    for name, indexes in wanted:
        result = ReplicaElectionResult(topic=name)
        response.replica_election_results.append(result)
        for index in indexes:
            row = PartitionResult(partition_id=index, error_message=None)
            try:
                records.append(elect(view, _topic_to_elect_in(view, name, index), index))
            except KafkaError as error:
                if is_all and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                row.error_code, row.error_message = error.code, error.message
            result.partition_result.append(row)
    return Decision(records, response, is_atomic=False)


def _refused_elections(request: ElectLeadersRequest) -> ElectLeadersResponse:
    message = f"Unknown election type {request.election_type}"
    return ElectLeadersResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _topic_to_elect_in(view: View, name: str, index: int) -> TopicImage:
    topic = view.image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if index not in topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    return topic


def _preferred(view: View, topic: TopicImage, index: int) -> PartitionChangeRecord:
    partition = topic.partitions[index]
    first = partition.replicas[0]
    if partition.leader == first:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    if first not in partition.isr or not view.is_active(first):
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return PartitionChangeRecord(topic_id=topic.id, partition_id=index, leader=first)


def _unclean(view: View, topic: TopicImage, index: int) -> PartitionChangeRecord:
    partition = topic.partitions[index]
    if partition.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    record = plan_partition_change(view, topic, index, isr=partition.isr, may_lead=view.is_active, is_unclean=True)
    if record is None or record.leader < 0:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
        )
    return record


# --- replicas


def alter_partition_reassignments(
    view: View, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Give partitions other replicas, or stop a reassignment that goes on."""
    records: list[Message] = []
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for named in request.topics:
        result = ReassignableTopicResponse(name=named.name)
        response.responses.append(result)
        for wanted in named.partitions:
            row = ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
            result.partitions.append(row)
            try:
                record = _reassigned(view, named.name, wanted, request.allow_replication_factor_change)
            except KafkaError as error:
                row.error_code, row.error_message = error.code, error.message
            else:
                if record is not None:
                    records.append(record)
    return Decision(records, response, is_atomic=False)


def _reassigned(
    view: View, name: str, wanted: ReassignablePartition, may_change_factor: bool
) -> PartitionChangeRecord | None:
    topic = view.image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    index = wanted.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    is_going_on = bool(partition.adding or partition.removing)
    here = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    if wanted.replicas is None:
        if not is_going_on:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return _moved(view, topic, index, partition, here)
    target = tuple(wanted.replicas)
    check_brokers(view, list(target))
    if not may_change_factor and len(target) != len(here):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(here)} to {len(target)}",
        )
    if target == here and not is_going_on:
        return None
    added = [replica for replica in target if replica not in here]
    if added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partition {name}-{index} cannot be copied to broker {added[0]}: Ottla does not replicate between brokers "
            "yet.",
        )
    return _moved(view, topic, index, partition, target)


def _moved(
    view: View, topic: TopicImage, index: int, before: PartitionImage, replicas: tuple[int, ...]
) -> PartitionChangeRecord:
    """The record that leaves a partition on these of its replicas."""
    isr = tuple(replica for replica in before.isr if replica in replicas)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"None of the replicas {list(replicas)} of partition {topic.name}-{index} is in sync.",
        )
    record = plan_partition_change(view, topic, index, isr=isr, may_lead=view.is_active)
    record = record or PartitionChangeRecord(topic_id=topic.id, partition_id=index)
    record.replicas = list(replicas)
    record.directories = [before.directory(replica) for replica in replicas]
    if before.adding:
        record.adding_replicas = []
    if before.removing:
        record.removing_replicas = []
    return record
