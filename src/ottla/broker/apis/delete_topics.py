"""DeleteTopics v1-v6: deletes topics by name or by id. Decided by the controller."""

from __future__ import annotations

from collections import Counter

from ottla.broker.apis.mutations import charge
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.quotas import Quotas
from ottla.cluster.image import ClusterImage
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.primitives import ZERO_UUID

FIRST_STRICT_VERSION = 5
FIRST_VERSION_WITH_DELETION_DISABLED = 3


async def delete_topics(
    request: DeleteTopicsRequest, ground: Ground, metadata: Metadata, quotas: Quotas, caller: Caller
) -> DeleteTopicsResponse:
    if not ground.config.delete_topic_enable:
        return _refused(request, caller)
    denied = _without_denied(request, metadata.controller.image, caller)
    counted = charge(ground, quotas, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await metadata.commit(metadata.controller.delete_topics(request, charge=counted))
    response.responses += denied
    response.throttle_time_ms = caller.throttle_ms
    return response


def _without_denied(request: DeleteTopicsRequest, image: ClusterImage, caller: Caller) -> list[DeletableTopicResult]:
    """Take the topics out of a request that its sender may not delete, and answer for them.

    The answer reveals the existence only of topics that the sender may describe: other names get the same error whether
    they exist or not, and for other ids the name is left out. Malformed entries (named twice, no name and no id, both)
    stay in the request.
    """
    if caller.is_allowed_on_cluster(AclOperation.DELETE, is_logged=False):
        return []
    counts = Counter([*request.topic_names, *((topic.name, topic.topic_id) for topic in request.topics)])
    denied: list[DeletableTopicResult] = []

    def refuse(name: str | None, topic_id: bytes) -> None:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        denied.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=code.text))

    def is_kept(name: str) -> bool:
        is_visible = caller.may_describe_topic(name)
        may_delete = caller.is_allowed(AclOperation.DELETE, AclResource.TOPIC, name)
        return is_visible and (may_delete or name not in image.topics_by_name)

    names: list[str] = []
    for name in request.topic_names:
        if counts[name] > 1 or is_kept(name):
            names.append(name)
        else:
            refuse(name, ZERO_UUID)
    topics: list[DeleteTopicState] = []
    for topic in request.topics:
        if counts[topic.name, topic.topic_id] > 1 or (topic.name is None) == (topic.topic_id == ZERO_UUID):
            topics.append(topic)
        elif topic.name is not None:
            if is_kept(topic.name):
                topics.append(topic)
            else:
                refuse(topic.name, ZERO_UUID)
        else:
            found = image.topics_by_id.get(topic.topic_id)
            if found is None or caller.is_allowed(AclOperation.DELETE, AclResource.TOPIC, found.name):
                topics.append(topic)
            else:
                refuse(found.name if caller.may_describe_topic(found.name) else None, topic.topic_id)
    request.topic_names, request.topics = names, topics
    return denied


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


api = Api(
    key=20,
    handler=delete_topics,
    needs=(
        Need(AclOperation.DELETE, AclResource.CLUSTER),
        Need(AclOperation.DELETE, AclResource.TOPIC),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
    is_forwarded=True,
)
