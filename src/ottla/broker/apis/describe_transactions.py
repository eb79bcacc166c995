"""DescribeTransactions v0: the state of transactional ids, with the partitions of their transactions."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.transactions.listing import describe
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def describe_transactions(
    request: DescribeTransactionsRequest, transactions: TransactionCoordinator, caller: Caller
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(transactional_id, transactions, caller) for transactional_id in request.transactional_ids
        ]
    )


def _describe(transactional_id: str, transactions: TransactionCoordinator, caller: Caller) -> TransactionState:
    if not caller.is_allowed(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, transactional_id):
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    if not transactional_id:
        return TransactionState(transactional_id=transactional_id, error_code=ErrorCode.INVALID_REQUEST)
    try:
        machine = transactions.shard(transactions.partition_for(transactional_id)).machine
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    if machine is None:
        return TransactionState(transactional_id=transactional_id, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    state = describe(machine, transactional_id)
    state.topics = [topic for topic in state.topics if caller.is_topic_visible(topic.topic)]
    return state


api = Api(
    key=65,
    handler=describe_transactions,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
