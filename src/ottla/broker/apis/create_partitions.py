"""CreatePartitions v0-v3: adds partitions to topics. Decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.mutations import charge
from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node

FIRST_STRICT_VERSION = 3


async def create_partitions(request: CreatePartitionsRequest, node: Node, caller: Caller) -> CreatePartitionsResponse:
    counted = charge(node, caller, first_strict_version=FIRST_STRICT_VERSION)
    response = await node.commit(node.controller.create_partitions(request, charge=counted))
    response.throttle_time_ms = caller.throttle_ms
    return response


api = Api(key=37, handler=create_partitions)
