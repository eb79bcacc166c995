"""AlterPartitionReassignments v0-v1: partitions get other replicas, or keep those they have."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, metadata: Metadata, caller: Caller
) -> AlterPartitionReassignmentsResponse:
    if not caller.is_allowed_on_cluster(AclOperation.ALTER):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await metadata.commit(metadata.controller.alter_partition_reassignments(request))


def _refused(request: AlterPartitionReassignmentsRequest, code: ErrorCode) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=code.text,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=code, error_message=code.text
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


api = Api(
    key=45,
    handler=alter_partition_reassignments,
    needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),),
    is_forwarded=True,
)
