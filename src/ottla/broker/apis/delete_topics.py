"""DeleteTopics v1-v6: deletes topics by name or by id. Decided by the controller."""

from __future__ import annotations

from ottla.broker.apis.mutations import charge
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.broker.serving.quotas import Quotas
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.primitives import ZERO_UUID

FIRST_STRICT_VERSION = 5
FIRST_VERSION_WITH_DELETION_DISABLED = 3


async def delete_topics(
    request: DeleteTopicsRequest, ground: Ground, metadata: Metadata, quotas: Quotas, caller: Caller
) -> DeleteTopicsResponse:
    if not ground.config.delete_topic_enable:
        return _refused(request, caller)
    counted = charge(ground, quotas, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await metadata.commit(metadata.controller.delete_topics(request, charge=counted))
    response.throttle_time_ms = caller.throttle_ms
    return response


def _refused(request: DeleteTopicsRequest, caller: Caller) -> DeleteTopicsResponse:
    """`delete.topic.enable` is false. Clients before version 3 do not know the error for it."""
    is_known = caller.api_version >= FIRST_VERSION_WITH_DELETION_DISABLED
    code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
    named = [(name, ZERO_UUID) for name in request.topic_names]
    wanted = [*named, *((topic.name, topic.topic_id) for topic in request.topics)]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=code.text)
            for name, topic_id in wanted
        ]
    )


api = Api(key=20, handler=delete_topics, is_forwarded=True)
