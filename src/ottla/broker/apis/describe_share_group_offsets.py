"""DescribeShareGroupOffsets v0-v1 (KIP-932): from which offset on share groups read, and with v1 how much is left."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.coordinators.share_offsets import ShareOffsets
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, ground: Ground, share_offsets: ShareOffsets, caller: Caller
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[await _describe(group, ground, share_offsets, caller) for group in request.groups]
    )


async def _describe(
    asked: DescribeShareGroupOffsetsRequestGroup, ground: Ground, share_offsets: ShareOffsets, caller: Caller
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    try:
        if not share_offsets.is_enabled:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if not caller.is_allowed(AclOperation.DESCRIBE, AclResource.GROUP, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        if asked.topics is None:
            topics = {
                name: indexes
                for name, indexes in share_offsets.topics_of(group_id).items()
                if caller.is_topic_visible(name)
            }
        else:
            share_offsets.topics_of(group_id)  # refuses a group that another broker coordinates
            topics = {topic.topic_name: topic.partitions for topic in asked.topics}
    except KafkaError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=error.code, error_message=error.message
        )
    rows = []
    for name, indexes in topics.items():
        topic = ground.image.topics_by_name.get(name)
        if not caller.may_describe_topic(name):
            rows.append(_refused(name, indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is None:
            rows.append(_refused(name, indexes, ErrorCode.NONE))
        else:
            found = await share_offsets.describe(group_id, topic, indexes)
            rows.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=topic.id,
                    partitions=[
                        DescribeShareGroupOffsetsResponsePartition(
                            partition_index=index,
                            start_offset=offset.start_offset,
                            leader_epoch=offset.leader_epoch,
                            lag=offset.lag,
                            error_code=ErrorCode.NONE if offset.error is None else offset.error.code,
                            error_message=None if offset.error is None else offset.error.message,
                        )
                        for index, offset in zip(indexes, found, strict=True)
                    ],
                )
            )
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=rows)


def _refused(name: str, indexes: list[int], code: ErrorCode) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=-1,
                error_code=code,
                error_message=None if code == ErrorCode.NONE else code.text,
            )
            for index in indexes
        ],
    )


api = Api(
    key=90,
    handler=describe_share_group_offsets,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
