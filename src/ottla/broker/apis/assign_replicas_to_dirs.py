"""AssignReplicasToDirs v0: a broker says which log dir each of its replicas is in (KIP-858). Answered by the active
controller."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)


async def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, metadata: Metadata, caller: Caller
) -> AssignReplicasToDirsResponse:
    controller = metadata.controller
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    assignments = {
        (topic.topic_id, partition.partition_index): directory.id
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }
    await metadata.commit(controller.assign_replicas_to_dirs(request.broker_id, assignments))
    return AssignReplicasToDirsResponse(
        directories=[
            AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=[
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignReplicasToDirsResponsePartitionData(partition_index=partition.partition_index)
                            for partition in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


api = Api(key=73, handler=assign_replicas_to_dirs, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
