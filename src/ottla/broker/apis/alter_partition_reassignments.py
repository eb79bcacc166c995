"""AlterPartitionReassignments v0-v1: partitions get other replicas, or keep those they have."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, metadata: Metadata, caller: Caller
) -> AlterPartitionReassignmentsResponse:
    return await metadata.commit(metadata.controller.alter_partition_reassignments(request))


api = Api(key=45, handler=alter_partition_reassignments, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)
