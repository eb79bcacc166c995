"""EndTxn v0-v5: commit or abort. From v5 on (protocol version 2) the producer gets its next epoch with the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.transactions import TransactionShard
from ottla.wire.errors import KafkaError
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


def end_txn(request: EndTxnRequest, node: Node, caller: Caller) -> Any:
    if node.producer_ids.is_empty:  # one may be needed, when the producer's epochs have run out
        return _when_ids_are_here(request, node, caller)
    return node.transactions.run(
        request.transactional_id, TransactionShard.end_transaction, request, node.transactions.call(caller), _refused
    )


async def _when_ids_are_here(request: EndTxnRequest, node: Node, caller: Caller) -> EndTxnResponse:
    await node.transactions.reserve_producer_id()
    answer = end_txn(request, node, caller)
    response: EndTxnResponse = answer if isinstance(answer, EndTxnResponse) else await answer
    return response


def _refused(request: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)


api = Api(key=26, handler=end_txn)
