"""EndTxn v0-v5: commit or abort. From v5 on (protocol version 2) the producer gets its next epoch with the answer."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.transactions import TransactionShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def end_txn(
    request: EndTxnRequest, transactions: TransactionCoordinator, producer_ids: ProducerIds, caller: Caller
) -> Any:
    if not caller.is_allowed(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if producer_ids.is_empty:  # an id may be needed, if the producer's epochs have run out
        return _when_ids_are_here(request, transactions, producer_ids, caller)
    return transactions.run(
        request.transactional_id, TransactionShard.end_transaction, request, transactions.call(caller), _refused
    )


async def _when_ids_are_here(
    request: EndTxnRequest, transactions: TransactionCoordinator, producer_ids: ProducerIds, caller: Caller
) -> EndTxnResponse:
    await transactions.reserve_producer_id()
    answer = end_txn(request, transactions, producer_ids, caller)
    response: EndTxnResponse = answer if isinstance(answer, EndTxnResponse) else await answer
    return response


def _refused(request: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)


api = Api(key=26, handler=end_txn, needs=(Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID),))
