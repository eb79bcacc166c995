"""DeleteRecords v0-v2: moves a partition's log start offset up; -1 means up to the high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.caller import Caller
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import INTERNAL_TOPICS
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition


def delete_records(request: DeleteRecordsRequest, replicas: Replicas, caller: Caller) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        is_allowed = caller.is_allowed(AclOperation.DELETE, AclResource.TOPIC, topic.name)
        rows = []
        for asked in topic.partitions:
            try:
                if not is_allowed:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                low_watermark = _delete(
                    replicas.partition(topic.name, asked.partition_index),
                    asked.offset,
                    topic.name,
                )
                rows.append(
                    DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=low_watermark)
                )
            except KafkaError as error:
                rows.append(
                    DeleteRecordsPartitionResult(
                        partition_index=asked.partition_index, low_watermark=-1, error_code=error.code
                    )
                )
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return DeleteRecordsResponse(topics=topics)


def _delete(
    partition: Partition,
    offset: int,
    topic: str,
) -> int:
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = partition.log
    if "delete" not in log.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    low_watermark = log.delete_records(offset)
    partition.tell_of_start()
    return low_watermark


api = Api(key=21, handler=delete_records, needs=(Need(AclOperation.DELETE, AclResource.TOPIC),))
