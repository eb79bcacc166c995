"""ListPartitionReassignments v0: the partitions that are on their way to other brokers."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ground: Ground, caller: Caller
) -> ListPartitionReassignmentsResponse:
    response = ListPartitionReassignmentsResponse(error_message=None)
    topics = ground.image.topics_by_name
    wanted: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        wanted = ((name, topic.partitions) for name, topic in topics.items())
    else:
        wanted = ((named.name, named.partition_indexes) for named in request.topics if named.name in topics)
    for name, indexes in wanted:
        known = topics[name].partitions
        moving = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(known[index].replicas),
                adding_replicas=list(known[index].adding),
                removing_replicas=list(known[index].removing),
            )
            for index in indexes
            if index in known and (known[index].adding or known[index].removing)
        ]
        if moving:
            response.topics.append(OngoingTopicReassignment(name=name, partitions=moving))
    return response


api = Api(key=46, handler=list_partition_reassignments, needs=cluster_wide(AclOperation.DESCRIBE), is_forwarded=True)
