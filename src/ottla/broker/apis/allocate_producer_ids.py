"""AllocateProducerIds v0: a broker gets the next block of producer ids. Answered by the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, node: Node, caller: Caller
) -> AllocateProducerIdsResponse:
    block = await node.commit(node.controller.allocate_producer_ids(request.broker_id, request.broker_epoch))
    return AllocateProducerIdsResponse(producer_id_start=block.first_id, producer_id_len=block.end_id - block.first_id)


api = Api(key=67, handler=allocate_producer_ids)
