"""DescribeQuorum v0-v2: who leads the metadata log, and how far the voters are. This node leads, as the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api import Api, Caller
from ottla.cluster.topic import METADATA_TOPIC
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    ReplicaState,
)
from ottla.wire.messages.describe_quorum import Node as QuorumNode

if TYPE_CHECKING:
    from ottla.broker.node import Node


def describe_quorum(request: DescribeQuorumRequest, node: Node, caller: Caller) -> DescribeQuorumResponse:
    topics = []
    for asked in request.topics:
        partitions = []
        for partition in asked.partitions:
            if asked.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                partitions.append(_metadata_partition(node))
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
        for controller in node.image.controllers.values()
        if controller.id in node.quorum.voters.by_id
    ]
    return DescribeQuorumResponse(topics=topics, nodes=nodes if caller.api_version >= 2 else [])


def _metadata_partition(node: Node) -> DescribeQuorumResponsePartitionData:
    log = node.metadata_log
    timestamp = node.clock()
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=node.config.node_id,
        leader_epoch=node.quorum.epoch,
        high_watermark=node.quorum.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=voter.id,
                replica_directory_id=voter.directory_id,
                log_end_offset=log.end_offset,
                last_fetch_timestamp=timestamp,
                last_caught_up_timestamp=timestamp,
            )
            for voter in log.voters.by_id.values()
        ],
    )


api = Api(key=55, handler=describe_quorum)
