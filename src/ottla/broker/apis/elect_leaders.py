"""ElectLeaders v0-v2: the preferred replicas lead again, or any replica where there is no leader."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


async def elect_leaders(request: ElectLeadersRequest, metadata: Metadata, caller: Caller) -> ElectLeadersResponse:
    if not caller.is_allowed_on_cluster(AclOperation.ALTER):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await metadata.commit(metadata.controller.elect_leaders(request))


def _refused(request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=code.text)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


api = Api(key=43, handler=elect_leaders, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),), is_forwarded=True)
