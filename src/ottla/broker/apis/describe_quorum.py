"""DescribeQuorum v0-v2: the leader of the metadata log, and how far each replica has copied it. Answered by the
leader.
"""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.raft.leader import NEVER, Leader, Replica
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    ReplicaState,
)
from ottla.wire.messages.describe_quorum import Node as QuorumNode


def describe_quorum(
    request: DescribeQuorumRequest, ground: Ground, metadata: Metadata, caller: Caller
) -> DescribeQuorumResponse:
    topics = []
    for asked in request.topics:
        partitions = []
        for partition in asked.partitions:
            if asked.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                partitions.append(_metadata_partition(ground, metadata))
            else:
                partitions.append(
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text,
                    )
                )
        topics.append(DescribeQuorumResponseTopicData(topic_name=asked.topic_name, partitions=partitions))
    nodes = [
        QuorumNode(
            node_id=controller.id,
            listeners=[Listener(name=one.name, host=one.host, port=one.port) for one in controller.endpoints.values()],
        )
        for controller in ground.image.controllers.values()
        if controller.id in metadata.quorum.voters.by_id
    ]
    return DescribeQuorumResponse(topics=topics, nodes=nodes if caller.api_version >= 2 else [])


def _metadata_partition(ground: Ground, metadata: Metadata) -> DescribeQuorumResponsePartitionData:
    quorum, leader = metadata.quorum, metadata.quorum.machine.role
    if not isinstance(leader, Leader):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    now, timestamp = ground.now(), ground.clock()

    def state(id: int, directory_id: bytes, replica: Replica) -> ReplicaState:
        return ReplicaState(
            replica_id=id,
            replica_directory_id=directory_id,
            log_end_offset=replica.end_offset,
            last_fetch_timestamp=NEVER if replica.fetched_at == NEVER else timestamp - (now - replica.fetched_at),
            last_caught_up_timestamp=NEVER
            if replica.caught_up_at == NEVER
            else timestamp - (now - replica.caught_up_at),
        )

    itself = Replica(quorum.log.directory_id, quorum.log.end_offset, now, now)
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=leader.id,
        leader_epoch=leader.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[
            state(voter.id, voter.directory_id, itself if voter.id == leader.id else leader.replicas[voter.id])
            for voter in quorum.voters.by_id.values()
        ],
        observers=[state(id, directory_id, replica) for (id, directory_id), replica in leader.observers.items()],
    )


api = Api(key=55, handler=describe_quorum, needs=cluster_wide(AclOperation.DESCRIBE), is_forwarded=True)
