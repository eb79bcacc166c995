"""DeleteShareGroupOffsets v0 (KIP-932): a share group without members forgets how far it has come in topics."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.coordinators.share_offsets import ShareOffsets, words
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NOTHING_TO_DELETE = "There is no offset information to delete."


async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, ground: Ground, share_offsets: ShareOffsets, caller: Caller
) -> DeleteShareGroupOffsetsResponse:
    if not share_offsets.is_enabled:
        return _refused(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    if not caller.is_allowed(AclOperation.DELETE, AclResource.GROUP, request.group_id):
        return _refused(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return _refused(KafkaError(ErrorCode.INVALID_GROUP_ID))
    denied = []
    known: dict[str, bytes] = {}
    for asked in request.topics:
        topic = ground.image.topics_by_name.get(asked.topic_name)
        if not caller.is_allowed(AclOperation.READ, AclResource.TOPIC, asked.topic_name):
            denied.append(_topic(asked.topic_name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is None:
            denied.append(_topic(asked.topic_name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            known[asked.topic_name] = topic.id
    try:
        results = await share_offsets.delete(request.group_id, list(known.values()))
    except KafkaError as error:
        return _refused(error)
    responses = []
    for name, topic_id in known.items():
        if topic_id not in results:
            responses.append(_topic(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE))
            continue
        failed = results[topic_id]
        responses.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=topic_id,
                error_code=ErrorCode.NONE if failed is None else failed.code,
                error_message=None if failed is None else failed.message,
            )
        )
    return DeleteShareGroupOffsetsResponse(responses=responses + denied)


def _refused(error: KafkaError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message or error.code.text)


def _topic(name: str, code: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=code, error_message=words(code) if message is None else message
    )


api = Api(
    key=92,
    handler=delete_share_group_offsets,
    needs=(
        Need(AclOperation.DELETE, AclResource.GROUP),
        Need(AclOperation.READ, AclResource.TOPIC),
    ),
)
