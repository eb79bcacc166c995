"""InitProducerId v0-v6: a fresh id for an idempotent producer; with a transactional id, the id and epoch of the client
that owns it from now on. Version 6 is for two-phase commit (KIP-939) and told of only where that is switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.transactions import TransactionShard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node

NONE = -1


def init_producer_id(request: InitProducerIdRequest, node: Node, caller: Caller) -> Any:
    if request.transactional_id == "" or (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    if node.producer_ids.is_empty:
        return _when_ids_are_here(request, node, caller)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=node.producer_ids.take() or 0, producer_epoch=0)
    return node.transactions.run(
        request.transactional_id, TransactionShard.init_producer_id, request, node.transactions.call(caller), _refused
    )


async def _when_ids_are_here(request: InitProducerIdRequest, node: Node, caller: Caller) -> InitProducerIdResponse:
    await node.transactions.reserve_producer_id()
    answer = init_producer_id(request, node, caller)
    response: InitProducerIdResponse = answer if isinstance(answer, InitProducerIdResponse) else await answer
    return response


def _refused(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


api = Api(key=22, handler=init_producer_id)
