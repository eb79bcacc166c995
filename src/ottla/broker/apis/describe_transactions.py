"""DescribeTransactions v0: the state of transactional ids, with the partitions of their transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.transactions.listing import describe
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node


def describe_transactions(
    request: DescribeTransactionsRequest, node: Node, caller: Caller
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(transactional_id, node) for transactional_id in request.transactional_ids]
    )


def _describe(transactional_id: str, node: Node) -> TransactionState:
    transactions = node.transactions
    if not transactional_id:
        return TransactionState(transactional_id=transactional_id, error_code=ErrorCode.INVALID_REQUEST)
    try:
        machine = transactions.shard(transactions.partition_for(transactional_id)).machine
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    if machine is None:
        return TransactionState(transactional_id=transactional_id, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return describe(machine, transactional_id)


api = Api(key=65, handler=describe_transactions)
