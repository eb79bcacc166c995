"""AddOffsetsToTxn v0-v4: the offsets of a group become part of a transaction, as a partition of __consumer_offsets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.transactions import TransactionCoordinator, TransactionPartitions
from ottla.broker.serving.api import Api, Need
from ottla.transactions import TopicPartition
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

KEY = 25


def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, groups: GroupCoordinator, transactions: TransactionCoordinator, caller: Caller
) -> AddOffsetsToTxnResponse | Coroutine[Any, Any, AddOffsetsToTxnResponse]:
    if not caller.is_allowed(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    offsets = TopicPartition(groups.topic, groups.partition_for(request.group_id))
    asked = TransactionPartitions(
        request.transactional_id, request.producer_id, request.producer_epoch, [offsets], client_version=0, api_key=KEY
    )
    answer = transactions.add_partitions(asked, transactions.call(caller))
    return _later(answer) if isinstance(answer, asyncio.Future) else AddOffsetsToTxnResponse(error_code=answer)


async def _later(answer: asyncio.Future[ErrorCode]) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=await answer)


api = Api(
    key=KEY,
    handler=add_offsets_to_txn,
    needs=(
        Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.READ, AclResource.GROUP),
    ),
)
