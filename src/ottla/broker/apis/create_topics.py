"""CreateTopics v2-v7: creates topics, each by itself, and answers when they exist. Decided by the controller."""

from __future__ import annotations

from ottla.broker.apis.mutations import charge
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.broker.serving.quotas import Quotas
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

FIRST_STRICT_VERSION = 6


async def create_topics(
    request: CreateTopicsRequest, ground: Ground, metadata: Metadata, quotas: Quotas, caller: Caller
) -> CreateTopicsResponse:
    counted = charge(ground, quotas, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await metadata.commit(metadata.controller.create_topics(request, charge=counted))
    response.throttle_time_ms = caller.throttle_ms
    return response


api = Api(key=19, handler=create_topics, is_forwarded=True)
