"""CreateTopics v2-v7: creates topics, each by itself, and answers when they exist. Decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.mutations import charge
from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node

FIRST_STRICT_VERSION = 6


async def create_topics(request: CreateTopicsRequest, node: Node, caller: Caller) -> CreateTopicsResponse:
    counted = charge(node, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await node.commit(node.controller.create_topics(request, charge=counted))
    response.throttle_time_ms = caller.throttle_ms
    return response


api = Api(key=19, handler=create_topics)
