"""OffsetDelete v0: a group forgets its offsets of topics that none of its members reads."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(request: OffsetDeleteRequest, ground: Ground, groups: GroupCoordinator, caller: Caller) -> Any:
    if not caller.is_allowed(AclOperation.DELETE, AclResource.GROUP, request.group_id):
        return _refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    request.topics, denied = caller.split(AclOperation.READ, AclResource.TOPIC, request.topics, lambda one: one.name)
    unknown = [_topic_refused(topic.name, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]
    unknown += _without_unknown(request, ground)

    def with_unknown(request: OffsetDeleteRequest, response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            response.topics = _merged(unknown, response.topics)
        return response

    if not request.group_id:
        return _refused(request, KafkaError(ErrorCode.INVALID_GROUP_ID))
    return groups.run(request.group_id, GroupShard.delete_offsets, request, groups.call(caller), _refused, with_unknown)


def _refused(request: OffsetDeleteRequest, error: KafkaError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code)


def _without_unknown(request: OffsetDeleteRequest, ground: Ground) -> list[OffsetDeleteResponseTopic]:
    """Remove partitions that do not exist from the request and answer them with errors."""
    unknown: list[OffsetDeleteResponseTopic] = []
    known: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        found = ground.image.topics_by_name.get(topic.name)
        partitions = {} if found is None else found.partitions
        missing = [one for one in topic.partitions if one.partition_index not in partitions]
        if missing or found is None:
            topic.partitions = [one for one in topic.partitions if one.partition_index in partitions]
            unknown.append(_topic_refused(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return unknown


def _topic_refused(
    name: str, partitions: list[OffsetDeleteRequestPartition], code: ErrorCode
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=code) for one in partitions
        ],
    )


def _merged(
    unknown: list[OffsetDeleteResponseTopic], deleted: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    by_name = {topic.name: topic for topic in unknown}
    merged = list(unknown)
    for topic in deleted:
        same = by_name.get(topic.name)
        if same is None:
            merged.append(topic)
        else:
            same.partitions += topic.partitions
    return merged


api = Api(
    key=47,
    handler=offset_delete,
    needs=(
        Need(AclOperation.DELETE, AclResource.GROUP),
        Need(AclOperation.READ, AclResource.TOPIC),
    ),
)
