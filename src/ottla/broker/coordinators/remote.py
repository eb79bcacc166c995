"""Requests of transactions to other brokers: markers for partitions that they lead, and questions to coordinators that
they host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.net import NoAnswer
from ottla.transactions import SendMarkers, TopicPartition
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.coordinators.transactions import Codes, TransactionPartitions
    from ottla.broker.ground import Ground
    from ottla.broker.peers.peers import Peers

OnCodes = Callable[[dict[TopicPartition, ErrorCode]], None]


class RemoteBrokers:
    def __init__(self, ground: Ground, peers: Peers) -> None:
        self._ground = ground
        self._peers = peers

    def write_markers(
        self, leader_id: int, effect: SendMarkers, partitions: list[TopicPartition], on_codes: OnCodes
    ) -> None:
        """Have another broker write markers. NETWORK_EXCEPTION for all when it does not answer."""
        unanswered = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        address = self._ground.broker_address(leader_id)
        if address is None:
            self._ground.loop.call_soon(on_codes, unanswered)
            return

        def answered(answer: Message | NoAnswer) -> None:
            codes = dict(unanswered)
            if isinstance(answer, WriteTxnMarkersResponse):
                for marker in answer.markers:
                    for topic in marker.topics:
                        for row in topic.partitions:
                            codes[TopicPartition(topic.name, row.partition_index)] = ErrorCode(row.error_code)
            on_codes(codes)

        marker = WritableTxnMarker(
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            transaction_result=effect.is_commit,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in _by_topic(partitions).items()
            ],
            coordinator_epoch=effect.coordinator_epoch,
            transaction_version=effect.transaction_version,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        self._peers.send(*address, request, answered, self._ground.config.request_timeout_ms)

    def admit(self, coordinator_id: int, request: TransactionPartitions, *, adds: bool) -> asyncio.Future[Codes]:
        """Ask a coordinator on another broker whether these partitions are, or may be, in the transaction (KIP-890)."""
        admitted: asyncio.Future[Codes] = self._ground.loop.create_future()

        def tell(code: ErrorCode) -> None:
            if not admitted.done():
                admitted.set_result(dict.fromkeys(request.partitions, code))

        def answered(answer: Message | NoAnswer) -> None:
            if not isinstance(answer, AddPartitionsToTxnResponse):
                tell(ErrorCode.NETWORK_EXCEPTION)
                return
            codes = [
                ErrorCode(row.partition_error_code)
                for result in answer.results_by_transaction
                for topic in result.topic_results
                for row in topic.results_by_partition
            ]
            tell(next((code for code in [ErrorCode(answer.error_code), *codes] if code), ErrorCode.NONE))

        address = self._ground.broker_address(coordinator_id)
        if address is None:
            tell(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return admitted
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            verify_only=not adds,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in _by_topic(request.partitions).items()
            ],
        )
        message = AddPartitionsToTxnRequest(transactions=[transaction])
        self._peers.send(*address, message, answered, self._ground.config.request_timeout_ms)
        return admitted


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return by_topic
