"""ListTransactions and DescribeTransactions over the transactional ids of a shard."""

from __future__ import annotations

from collections.abc import Callable

from ottla.transactions.shard import TransactionShard
from ottla.transactions.transaction import STATES_BY_LABEL, TransactionState
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import describe_transactions, list_transactions
from ottla.wire.messages.list_transactions import ListTransactionsRequest


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    return [label for label in request.state_filters if label not in STATES_BY_LABEL]


def list_shard(
    shard: TransactionShard,
    request: ListTransactionsRequest,
    timestamp: int,
    matches: Callable[[str], bool] | None = None,
) -> list[list_transactions.TransactionState]:
    """The transactional ids that pass all filters of the request. `matches` tests a name against its pattern."""
    states = {STATES_BY_LABEL[label] for label in request.state_filters if label in STATES_BY_LABEL}
    producer_ids = set(request.producer_id_filters)
    return [
        list_transactions.TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.label,
        )
        for transaction in shard.transactions.values()
        if (not producer_ids or transaction.producer_id in producer_ids)
        and (not request.state_filters or transaction.state in states)
        and (request.duration_filter < 0 or timestamp - transaction.start_timestamp > request.duration_filter)
        and (matches is None or matches(transaction.transactional_id))
    ]


def describe(shard: TransactionShard, transactional_id: str) -> describe_transactions.TransactionState:
    """One transactional id. A prepared transaction shows the partitions whose markers are still awaited, as Kafka's
    does."""
    described = describe_transactions.TransactionState(transactional_id=transactional_id)
    if not transactional_id:
        described.error_code = ErrorCode.INVALID_REQUEST
        return described
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        described.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return described
    described.transaction_state = transaction.state.label
    described.transaction_timeout_ms = transaction.timeout_ms
    described.transaction_start_time_ms = transaction.start_timestamp
    described.producer_id = transaction.producer_id
    described.producer_epoch = transaction.producer_epoch
    topics: dict[str, list[int]] = {}
    for topic, partition in transaction.awaited if transaction.is_prepared else transaction.partitions:
        topics.setdefault(topic, []).append(partition)
    described.topics = [describe_transactions.TopicData(topic=name, partitions=found) for name, found in topics.items()]
    return described


__all__ = ["TransactionState", "describe", "list_shard", "unknown_states"]
