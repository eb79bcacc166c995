"""InitProducerId v0-v6: a fresh id for an idempotent producer; with a transactional id, the id and epoch of the client
that owns it from now on. Version 6 is for two-phase commit (KIP-939) and offered only if that is enabled."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.transactions import TransactionShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NONE = -1


def init_producer_id(
    request: InitProducerIdRequest, transactions: TransactionCoordinator, producer_ids: ProducerIds, caller: Caller
) -> Any:
    denied = _denial(request, caller)
    if denied is not None:
        return _refused(request, KafkaError(denied))
    if request.transactional_id == "" or (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    if producer_ids.is_empty:
        return _when_ids_are_here(request, transactions, producer_ids, caller)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=producer_ids.take() or 0, producer_epoch=0)
    return transactions.run(
        request.transactional_id, TransactionShard.init_producer_id, request, transactions.call(caller), _refused
    )


def _denial(request: InitProducerIdRequest, caller: Caller) -> ErrorCode | None:
    if request.transactional_id is None:
        if caller.is_allowed_on_cluster(AclOperation.IDEMPOTENT_WRITE, is_logged=False) or caller.is_allowed_on_any(
            AclOperation.WRITE, AclResource.TOPIC
        ):
            return None
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    needed = [AclOperation.WRITE]
    if request.enable2_pc:
        needed.append(AclOperation.TWO_PHASE_COMMIT)
    if all(caller.is_allowed(one, AclResource.TRANSACTIONAL_ID, request.transactional_id) for one in needed):
        return None
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def _when_ids_are_here(
    request: InitProducerIdRequest, transactions: TransactionCoordinator, producer_ids: ProducerIds, caller: Caller
) -> InitProducerIdResponse:
    await transactions.reserve_producer_id()
    answer = init_producer_id(request, transactions, producer_ids, caller)
    response: InitProducerIdResponse = answer if isinstance(answer, InitProducerIdResponse) else await answer
    return response


def _refused(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


api = Api(
    key=22,
    handler=init_producer_id,
    needs=(
        Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.TWO_PHASE_COMMIT, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER),
        Need(AclOperation.WRITE, AclResource.TOPIC),
    ),
)
