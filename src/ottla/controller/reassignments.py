"""ElectLeaders and the two reassignment APIs: leaders chosen on request, and partitions moved to other brokers.

A replica can be taken away, or the order of replicas changed, at once. A replica that has to be copied to another
broker is added to the present ones, and the reassignment ends when a leader says that all of them are in sync
(`controller.isr`).
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.cluster import PartitionImage, TopicImage
from ottla.cluster.topic import RECOVERING
from ottla.controller.elections import Election, Wanted, allowed_election, plan_partition_change
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
from ottla.wire.sentinels import NO_LEADER

PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = "Leader election not needed for topic partition."
MAX_ELECTIONS_AT_ONCE = 1_000
"""Elections in one decision that no request asked for: requests are answered in between."""

_Elect = Callable[[View, TopicImage, int], PartitionChangeRecord]

# --- leaders


def elect_leaders(view: View, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elect preferred replicas, or (unclean) any replica for partitions without a leader. If the request names no
    partition, all are meant, and those that need no election are left out of the reply.
    """
    elections: dict[int, _Elect] = {PREFERRED: _preferred, UNCLEAN: _unclean}
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
    if partition.leader == partition.replicas[0]:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    record = plan_partition_change(view, topic, index, Wanted(election=Election.PREFERRED))
    if record is None or record.leader < 0:
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return record


def _unclean(view: View, topic: TopicImage, index: int) -> PartitionChangeRecord:
    partition = topic.partitions[index]
    if partition.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    record = plan_partition_change(view, topic, index, Wanted(election=Election.UNCLEAN))
    if record is None or record.leader < 0:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
        )
    return record


def balance_leaders(view: View) -> Decision[bool]:
    """Let preferred replicas lead again. The reply says whether more partitions may remain for the next round."""
    records: list[Message] = []
    for topic in view.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if partition.leader not in (partition.replicas[0], NO_LEADER):
                _collect(records, _preferred, view, topic, index)
                if len(records) == MAX_ELECTIONS_AT_ONCE:
                    return Decision(records, True, is_atomic=False)
    return Decision(records, False, is_atomic=False)


def elect_unclean_leaders(view: View) -> Decision[bool]:
    """Elect any replica for partitions without a leader whose topic allows unclean elections, possibly only since the
    leader was lost. The reply says whether more partitions may remain for the next round.
    """
    records: list[Message] = []
    for topic in view.image.topics_by_id.values():
        leaderless = [index for index, partition in topic.partitions.items() if partition.leader == NO_LEADER]
        if leaderless and view.is_unclean_election_enabled(topic.name):
            for index in leaderless:
                _collect(records, _unclean, view, topic, index)
                if len(records) == MAX_ELECTIONS_AT_ONCE:
                    return Decision(records, True, is_atomic=False)
    return Decision(records, False, is_atomic=False)


def _collect(records: list[Message], elect: _Elect, view: View, topic: TopicImage, index: int) -> None:
    try:
        records.append(elect(view, topic, index))
    except KafkaError:
        return  # no replica can be elected now; the next round tries again


# --- replicas


def alter_partition_reassignments(
    view: View, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Give partitions other replicas, or cancel a reassignment under way."""
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
    if wanted.replicas is None:
        return _cancelled(view, topic, index, partition)
    target = tuple(wanted.replicas)
    check_brokers(view, list(target))
    count = sum(replica not in partition.removing for replica in partition.replicas)
    if not may_change_factor and len(target) != count:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {count} to {len(target)}"
        )
    return plan_partition_change(view, topic, index, _towards(partition, target))


def _towards(partition: PartitionImage, target: tuple[int, ...]) -> Wanted:
    """New replicas come first and are copied; the others go when all that stay are in sync.

    Replicas that an unfinished reassignment was adding stay marked as adding, even if the new one does not want them: a
    cancel goes back to the replicas before both.
    """
    going = tuple(sorted(set(partition.replicas) - set(target)))
    coming = tuple(sorted({*partition.adding, *(set(target) - set(partition.replicas))}))
    return Wanted(replicas=target + going, adding=coming, removing=going)


def _cancelled(view: View, topic: TopicImage, index: int, partition: PartitionImage) -> PartitionChangeRecord | None:
    """The record that restores the replicas from before the reassignment."""
    if not partition.adding and not partition.removing:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding)
    recovery_state = partition.leader_recovery_state
    election = allowed_election(view, topic.name)
    if not isr:
        if election is not Election.UNCLEAN:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election.",
            )
        isr, recovery_state = replicas[:1], RECOVERING
    wanted = Wanted(
        isr=isr,
        replicas=replicas,
        adding=(),
        removing=(),
        election=election,
        leader_recovery_state=recovery_state,
    )
    return plan_partition_change(view, topic, index, wanted)
