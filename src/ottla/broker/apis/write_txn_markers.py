"""WriteTxnMarkers v1-v2: a coordinator, or an administrator who ends a hanging transaction, writes its outcome into
partitions of this broker."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.transactions import TopicPartition
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def write_txn_markers(request: WriteTxnMarkersRequest, transactions: TransactionCoordinator, caller: Caller) -> Any:
    if not (
        caller.is_allowed_on_cluster(AclOperation.ALTER, is_logged=False)
        or caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION)
    ):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    waiting: list[tuple[WritableTxnMarkerPartitionResult, asyncio.Future[None]]] = []
    results = [
        WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        _write(TopicPartition(topic.name, index), marker, transactions, waiting)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    response = WriteTxnMarkersResponse(markers=results)
    return _when_committed(response, waiting) if waiting else response


def _refused(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _write(
    partition: TopicPartition,
    marker: WritableTxnMarker,
    transactions: TransactionCoordinator,
    waiting: list[tuple[WritableTxnMarkerPartitionResult, asyncio.Future[None]]],
) -> WritableTxnMarkerPartitionResult:
    row = WritableTxnMarkerPartitionResult(partition_index=partition.partition)
    try:
        done = transactions.markers.write(
            partition,
            marker.producer_id,
            marker.producer_epoch,
            is_commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
    except KafkaError as error:
        row.error_code = error.code
    else:
        if done is not None:
            waiting.append((row, done))
    return row


async def _when_committed(
    response: WriteTxnMarkersResponse, waiting: list[tuple[WritableTxnMarkerPartitionResult, asyncio.Future[None]]]
) -> WriteTxnMarkersResponse:
    for row, done in waiting:
        try:
            await done
        except KafkaError as error:
            row.error_code = error.code
        except OSError:
            row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return response


api = Api(
    key=27,
    handler=write_txn_markers,
    needs=(
        Need(AclOperation.ALTER, AclResource.CLUSTER),
        Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),
    ),
)
