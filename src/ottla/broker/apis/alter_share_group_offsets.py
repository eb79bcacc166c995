"""AlterShareGroupOffsets v0 (KIP-932): a share group without members reads on from other offsets."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.coordinators.share_offsets import ShareOffsets, words
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.groups.share.state_records import SharePartitionKey
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, ground: Ground, share_offsets: ShareOffsets, caller: Caller
) -> AlterShareGroupOffsetsResponse:
    if not share_offsets.is_enabled:
        return _refused(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return _refused(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return _refused(KafkaError(ErrorCode.INVALID_GROUP_ID))
    responses = []
    altered = []
    offsets: dict[bytes, dict[int, int]] = {}
    for asked in request.topics:
        topic = ground.image.topics_by_name.get(asked.topic_name)
        if not caller.is_allowed(AclOperation.READ, AclResource.TOPIC, asked.topic_name):
            responses.append(_refused_topic(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is None:
            responses.append(_refused_topic(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            altered.append((asked, topic))
            offsets[topic.id] = {
                row.partition_index: row.start_offset
                for row in asked.partitions
                if row.partition_index in topic.partitions
            }
    try:
        failed = await share_offsets.alter(request.group_id, {id: rows for id, rows in offsets.items() if rows})
    except KafkaError as error:
        return _refused(error)
    for asked, topic in altered:
        rows = []
        for row in asked.partitions:
            index = row.partition_index
            code, message = ErrorCode.NONE, None
            if index not in topic.partitions:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                message = words(code)
            elif (refusal := failed.get(SharePartitionKey(request.group_id, topic.id, index))) is not None:
                code, message = refusal.code, refusal.message
            rows.append(
                AlterShareGroupOffsetsResponsePartition(partition_index=index, error_code=code, error_message=message)
            )
        responses.append(
            AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic.id, partitions=rows)
        )
    return AlterShareGroupOffsetsResponse(responses=responses)


def _refused(error: KafkaError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message or error.code.text)


def _refused_topic(asked: AlterShareGroupOffsetsRequestTopic, code: ErrorCode) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=row.partition_index, error_code=code, error_message=words(code)
            )
            for row in asked.partitions
        ],
    )


api = Api(
    key=91,
    handler=alter_share_group_offsets,
    needs=(
        Need(AclOperation.READ, AclResource.GROUP),
        Need(AclOperation.READ, AclResource.TOPIC),
    ),
)
