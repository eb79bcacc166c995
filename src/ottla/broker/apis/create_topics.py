"""CreateTopics v2-v7: creates topics, each by itself, and answers when they exist. Decided by the controller."""

from __future__ import annotations

from collections import Counter

from ottla.broker.apis.mutations import charge
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.quotas import Quotas
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

FIRST_STRICT_VERSION = 6


async def create_topics(
    request: CreateTopicsRequest, ground: Ground, metadata: Metadata, quotas: Quotas, caller: Caller
) -> CreateTopicsResponse:
    denied = _without_denied(request, caller)
    counted = charge(ground, quotas, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await metadata.commit(metadata.controller.create_topics(request, charge=counted))
    for topic in response.topics:
        if topic.error_code == ErrorCode.NONE and not caller.is_visible(
            AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC, topic.name
        ):
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = None
    response.topics += denied
    response.throttle_time_ms = caller.throttle_ms
    return response


def _without_denied(request: CreateTopicsRequest, caller: Caller) -> list[CreatableTopicResult]:
    """Take the topics out of a request that its sender may not create, and answer for them. As in Kafka, a name that
    occurs twice is refused for that, whatever the sender's permissions.
    """
    if caller.is_allowed_on_cluster(AclOperation.CREATE, is_logged=False):
        return []
    counts = Counter(topic.name for topic in request.topics)
    request.topics, denied = caller.split(
        AclOperation.CREATE,
        AclResource.TOPIC,
        request.topics,
        lambda topic: None if counts[topic.name] > 1 or topic.name == METADATA_TOPIC else topic.name,
    )
    return [
        CreatableTopicResult(
            name=topic.name,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="Authorization failed.",
            configs=None,
        )
        for topic in denied
    ]


api = Api(
    key=19,
    handler=create_topics,
    needs=(
        Need(AclOperation.CREATE, AclResource.CLUSTER),
        Need(AclOperation.CREATE, AclResource.TOPIC),
        Need(AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC),
    ),
    is_forwarded=True,
)
