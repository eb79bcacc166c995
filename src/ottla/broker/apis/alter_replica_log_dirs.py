"""AlterReplicaLogDirs v1-v2: replicas of this node go to other log dirs."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, replicas: Replicas, caller: Caller
) -> AlterReplicaLogDirsResponse:
    is_allowed = caller.is_allowed_on_cluster(AclOperation.ALTER)
    topics: dict[str, dict[int, ErrorCode]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            for index in topic.partitions:
                error_code = ErrorCode.NONE
                try:
                    if not is_allowed:
                        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                    replicas.log_dir_moves.alter(topic.name, index, log_dir.path, replicas.hosting.find)
                except KafkaError as error:
                    error_code = error.code
                topics.setdefault(topic.name, {})[index] = error_code
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error_code)
                    for index, error_code in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ]
    )


api = Api(key=34, handler=alter_replica_log_dirs, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),))
