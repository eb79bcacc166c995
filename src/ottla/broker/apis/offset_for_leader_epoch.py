"""OffsetForLeaderEpoch v2-v4: where an epoch ended (KIP-101, KIP-320), so that readers notice a truncated log."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, replicas: Replicas, caller: Caller
) -> OffsetForLeaderEpochResponse:
    topics = []
    sees_all = caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION, is_logged=False)
    for topic in request.topics:
        is_visible = sees_all or caller.may_describe_topic(topic.topic)
        rows = []
        for asked in topic.partitions:
            try:
                if not is_visible:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = replicas.partition(topic.topic, asked.partition)
                partition.check_leader_epoch(asked.current_leader_epoch)
                epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
                rows.append(EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset))
            except KafkaError as error:
                rows.append(EpochEndOffset(partition=asked.partition, error_code=error.code))
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
    return OffsetForLeaderEpochResponse(topics=topics)


api = Api(
    key=23,
    handler=offset_for_leader_epoch,
    needs=(
        Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
