"""DescribeTopicPartitions v0: topics in order of their names, a page of partitions at a time (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.cluster.topic import why_topic_name_is_invalid
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import INTERNAL_TOPICS
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from ottla.cluster import TopicImage


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ground: Ground, replicas: Replicas, caller: Caller
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    wants_all = not request.topics
    names = ground.image.topics_by_name if wants_all else dict.fromkeys(topic.name for topic in request.topics)
    if cursor is not None and (
        cursor.partition_index < 0 or not (wants_all or (cursor.topic_name in names and cursor.topic_name))
    ):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name) for name in names
            ]
        )
    first_name = "" if cursor is None else cursor.topic_name
    remaining = max(1, min(ground.config.max_request_partition_size_limit, request.response_partition_limit))
    asked = sorted(name for name in names if name >= first_name)
    visible, hidden = caller.split(AclOperation.DESCRIBE, AclResource.TOPIC, asked, str, is_logged=not wants_all)
    response = _pages(visible, cursor, remaining, ground, replicas)
    for described in response.topics:
        described.topic_authorized_operations = caller.authorized_operations(AclResource.TOPIC, described.name or "")
    if not wants_all:
        response.topics += [
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
            for name in hidden
        ]
    return response


def _pages(
    names: list[str],
    cursor: DescribeTopicPartitionsRequestCursor | None,
    remaining: int,
    ground: Ground,
    replicas: Replicas,
) -> DescribeTopicPartitionsResponse:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if remaining == 0:
            return _page(topics, name, 0)
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic = ground.image.topics_by_name.get(name)
        if topic is None:
            topics.append(_missing(name))
            continue
        end = min(len(topic.partitions), start + remaining)
        topics.append(_described(replicas, topic, range(start, end)))
        if end < len(topic.partitions):
            return _page(topics, name, end)
        remaining -= max(0, end - start)
    return DescribeTopicPartitionsResponse(topics=topics)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], next_name: str, next_partition: int
) -> DescribeTopicPartitionsResponse:
    cursor = DescribeTopicPartitionsResponseCursor(topic_name=next_name, partition_index=next_partition)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_valid = why_topic_name_is_invalid(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _described(replicas: Replicas, topic: TopicImage, indexes: range) -> DescribeTopicPartitionsResponseTopic:
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
                offline_replicas=replicas.offline_replicas(topic.name, index, partition),
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
    )


api = Api(key=75, handler=describe_topic_partitions, needs=(Need(AclOperation.DESCRIBE, AclResource.TOPIC),))
