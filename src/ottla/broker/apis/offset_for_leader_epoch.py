"""OffsetForLeaderEpoch v2-v4: where an epoch ended (KIP-101, KIP-320), so that readers notice a log that was cut."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api
from ottla.wire.errors import KafkaError
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
    for topic in request.topics:
        rows = []
        for asked in topic.partitions:
            try:
                partition = replicas.partition(topic.topic, asked.partition)
                partition.check_leader_epoch(asked.current_leader_epoch)
                epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
                rows.append(EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset))
            except KafkaError as error:
                rows.append(EpochEndOffset(partition=asked.partition, error_code=error.code))
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
    return OffsetForLeaderEpochResponse(topics=topics)


api = Api(key=23, handler=offset_for_leader_epoch)
