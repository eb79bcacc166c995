"""CreatePartitions v0-v3: adds partitions to topics. Decided by the controller."""

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
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

FIRST_STRICT_VERSION = 3


async def create_partitions(
    request: CreatePartitionsRequest, ground: Ground, metadata: Metadata, quotas: Quotas, caller: Caller
) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    request.topics, denied = caller.split(
        AclOperation.ALTER,
        AclResource.TOPIC,
        request.topics,
        lambda topic: topic.name if counts[topic.name] == 1 else None,
    )
    counted = charge(ground, quotas, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await metadata.commit(metadata.controller.create_partitions(request, charge=counted))
    response.results += [
        CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in denied
    ]
    response.throttle_time_ms = caller.throttle_ms
    return response


api = Api(key=37, handler=create_partitions, needs=(Need(AclOperation.ALTER, AclResource.TOPIC),), is_forwarded=True)
