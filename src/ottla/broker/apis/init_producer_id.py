"""InitProducerId v0-v5, without transactional id: a fresh id for an idempotent producer."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.broker.api import Api, Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


def init_producer_id(
    request: InitProducerIdRequest, node: Node, caller: Caller
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    if request.transactional_id is not None:
        code = ErrorCode.INVALID_REQUEST if request.transactional_id == "" else ErrorCode.COORDINATOR_NOT_AVAILABLE
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    producer_id = node.producer_ids.take()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return _from_next_block(node)


async def _from_next_block(node: Node) -> InitProducerIdResponse:
    while (producer_id := node.producer_ids.take()) is None:
        await node.producer_ids.allocate(node)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


api = Api(key=22, handler=init_producer_id)
