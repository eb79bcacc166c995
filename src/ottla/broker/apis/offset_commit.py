"""OffsetCommit v2-v10: a group remembers how far it has read. Topics have ids instead of names from v10 on."""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.offset_commit_frame import offset_commit_frame
from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.quotas import Quotas
from ottla.groups.offsets import commit_refused
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_TOPIC_IDS = 10


def offset_commit(request: OffsetCommitRequest, ground: Ground, groups: GroupCoordinator, caller: Caller) -> Any:
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return _refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused = _without_unknown(request, ground, caller)
    caller.client.access.note_group(request.group_id)
    if not refused:
        return groups.run(request.group_id, GroupShard.commit_offsets, request, groups.call(caller), _refused)
    if not request.topics:
        return OffsetCommitResponse(topics=refused)

    def with_refused(request: OffsetCommitRequest, response: OffsetCommitResponse) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=_merged(refused, response.topics))

    def all_refused(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
        return with_refused(request, commit_refused(request, error.code))

    return groups.run(
        request.group_id, GroupShard.commit_offsets, request, groups.call(caller), all_refused, with_refused
    )


def _refused(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    return commit_refused(request, error.code)


def _without_unknown(request: OffsetCommitRequest, ground: Ground, caller: Caller) -> list[OffsetCommitResponseTopic]:
    """Remove partitions that do not exist or may not be read from the request and answer them with errors; the rest
    then has name and id.
    """
    image, access = ground.image, caller.client.access
    uses_topic_ids = caller.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    refused: list[OffsetCommitResponseTopic] = []
    known: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        if uses_topic_ids:
            found = image.topics_by_id.get(topic.topic_id)
            if found is None:
                refused.append(_topic_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            if not caller.is_allowed(AclOperation.READ, AclResource.TOPIC, found.name):
                refused.append(_topic_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            topic.name = found.name
        else:
            if not caller.is_allowed(AclOperation.READ, AclResource.TOPIC, topic.name):
                refused.append(_topic_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            found = image.topics_by_name.get(topic.name)
            if found is None:
                refused.append(_topic_refused(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            topic.topic_id = found.id
        access.note_readable(found.name, found.id)
        unknown = [partition for partition in topic.partitions if partition.partition_index not in found.partitions]
        if unknown:
            topic.partitions = [one for one in topic.partitions if one.partition_index in found.partitions]
            rest = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=unknown)
            refused.append(_topic_refused(rest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if topic.partitions:
            known.append(topic)
    if refused:
        request.topics = known
    return refused


def _topic_refused(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in topic.partitions
        ],
    )


def _merged(
    refused: list[OffsetCommitResponseTopic], committed: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    by_topic = {(topic.name, topic.topic_id): topic for topic in refused}
    merged = list(refused)
    for topic in committed:
        same = by_topic.get((topic.name, topic.topic_id))
        if same is None:
            merged.append(topic)
        else:
            same.partitions += topic.partitions
    return merged


api = Api(
    key=8,
    handler=offset_commit,
    needs=(
        Need(AclOperation.READ, AclResource.GROUP),
        Need(AclOperation.READ, AclResource.TOPIC),
    ),
    frame=offset_commit_frame,
    frame_rooms=(Ground, GroupCoordinator, Quotas),
)
