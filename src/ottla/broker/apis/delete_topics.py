"""DeleteTopics v1-v6: deletes topics by name or by id. Decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api import Api, Caller
from ottla.broker.mutations import charge
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node

FIRST_STRICT_VERSION = 5


async def delete_topics(request: DeleteTopicsRequest, node: Node, caller: Caller) -> DeleteTopicsResponse:
    counted = charge(node, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await node.commit(node.controller.delete_topics(request, charge=counted))
    response.throttle_time_ms = caller.throttle_ms
    return response


api = Api(key=20, handler=delete_topics)
