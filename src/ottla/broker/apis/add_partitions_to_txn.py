"""AddPartitionsToTxn v0-v5: partitions become part of a transaction. From v4 on a request has several
transactions, and may only verify them: brokers send it to each other. Clients stay with v3."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.transactions import (
    CLIENT_VERSION_THAT_ADDS,
    Codes,
    TransactionCoordinator,
    TransactionPartitions,
)
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.transactions import TopicPartition
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import INTERNAL_TOPICS
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_BATCHED_VERSION = 4


def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ground: Ground, transactions: TransactionCoordinator, caller: Caller
) -> Any:
    if caller.api_version < FIRST_BATCHED_VERSION:
        asked = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    elif caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION):
        asked = request.transactions
    else:
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answers = [_of_transaction(transaction, ground, transactions, caller) for transaction in asked]
    if any(isinstance(answer, asyncio.Future) for answer in answers):
        return _later(asked, answers, caller)
    return _response(asked, answers, caller)


def _of_transaction(
    transaction: AddPartitionsToTxnTransaction, ground: Ground, transactions: TransactionCoordinator, caller: Caller
) -> Codes | ErrorCode | asyncio.Future[Codes] | asyncio.Future[ErrorCode]:
    is_clients = caller.api_version < FIRST_BATCHED_VERSION
    if is_clients and not caller.is_allowed(
        AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    partitions = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    refused: Codes = {}
    for partition in partitions:
        if is_clients and (
            partition.topic in INTERNAL_TOPICS
            or not caller.is_allowed(AclOperation.WRITE, AclResource.TOPIC, partition.topic)
        ):
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif ground.image.partition(*partition) is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused:
        return dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused
    asked = TransactionPartitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        0 if is_clients else CLIENT_VERSION_THAT_ADDS,
    )
    if transaction.verify_only:
        return transactions.verify_partitions(asked)
    return transactions.add_partitions(asked, transactions.call(caller))


async def _later(
    transactions: list[AddPartitionsToTxnTransaction], answers: list[Any], caller: Caller
) -> AddPartitionsToTxnResponse:
    done = [await answer if isinstance(answer, asyncio.Future) else answer for answer in answers]
    return _response(transactions, done, caller)


def _response(
    transactions: list[AddPartitionsToTxnTransaction], answers: list[Any], caller: Caller
) -> AddPartitionsToTxnResponse:
    if caller.api_version < FIRST_BATCHED_VERSION:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_topic_results(transactions[0].topics, answers[0])
        )
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_topic_results(transaction.topics, answer),
            )
            for transaction, answer in zip(transactions, answers, strict=True)
        ]
    )


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], answer: Codes | ErrorCode
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=(
                        answer[TopicPartition(topic.name, index)] if isinstance(answer, dict) else answer
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


api = Api(
    key=24,
    handler=add_partitions_to_txn,
    needs=(
        Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID),
        Need(AclOperation.WRITE, AclResource.TOPIC),
        Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),
    ),
)
