"""DescribeTopicPartitions v0: topics in order of their names, a page of partitions at a time (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.metadata import TOPIC_OPERATIONS
from ottla.broker.serving.api import Api, Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.cluster import TopicImage


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, node: Node, caller: Caller
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    wants_all = not request.topics
    names = node.image.topics_by_name if wants_all else {topic.name: None for topic in request.topics}
    if cursor is not None and (
        cursor.partition_index < 0 or not (wants_all or (cursor.topic_name in names and cursor.topic_name))
    ):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name) for name in names
            ]
        )
    first_name = "" if cursor is None else cursor.topic_name
    remaining = max(1, min(node.config.max_request_partition_size_limit, request.response_partition_limit))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted(name for name in names if name >= first_name):
        if remaining == 0:
            return _page(topics, name, 0)
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic = node.image.topics_by_name.get(name)
        if topic is None:
            topics.append(_missing(node, name))
            continue
        end = min(len(topic.partitions), start + remaining)
        topics.append(_described(node, topic, range(start, end)))
        if end < len(topic.partitions):
            return _page(topics, name, end)
        remaining -= max(0, end - start)
    return DescribeTopicPartitionsResponse(topics=topics)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], next_name: str, next_partition: int
) -> DescribeTopicPartitionsResponse:
    cursor = DescribeTopicPartitionsResponseCursor(topic_name=next_name, partition_index=next_partition)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _missing(node: Node, name: str) -> DescribeTopicPartitionsResponseTopic:
    is_valid = node.is_valid_topic_name(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=node.is_internal_topic(name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described(node: Node, topic: TopicImage, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in indexes:
        partition = topic.partitions[index]
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=node.offline_replicas(topic.name, index, partition),
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=node.is_internal_topic(topic.name),
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


api = Api(key=75, handler=describe_topic_partitions)
