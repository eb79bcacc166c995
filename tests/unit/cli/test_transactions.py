"""`ottla transactions` over answers that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli import transactions
from ottla.cli.cluster_client import ClusterClient, CommandError
from ottla.cli.transactions import abort_at, end_transaction, find_hanging, list_transactions
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import describe_transactions
from ottla.wire.messages import list_transactions as listing
from ottla.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

NOW = 1_700_000_000_000


class Cluster(ClusterClient):
    """One broker: producer 7 is in an open transaction of t-0 that is known, producer 8 in one of t-1 that is not."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:9092")
        self.asked: list[Message] = []
        self.fences = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
        self.marker_code = ErrorCode.NONE

    @property
    def broker_ids(self) -> list[int]:
        return [1]

    def transaction_coordinator(self, transactional_id: str) -> int:
        return 1

    def metadata(self, topics: list[str] | None = None) -> MetadataResponse:
        partitions = [MetadataResponsePartition(partition_index=index, leader_id=1) for index in (0, 1)]
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])

    def ask(self, broker_id: int, request: Message, version: int) -> Any:
        self.asked.append(request)
        name = type(request).__name__
        if name == "ListTransactionsRequest":
            state = listing.TransactionState(transactional_id="known", producer_id=7, transaction_state="Ongoing")
            return listing.ListTransactionsResponse(transaction_states=[state])
        if name == "DescribeTransactionsRequest":
            described = describe_transactions.TransactionState(
                transactional_id="known",
                producer_id=7,
                transaction_state="Ongoing",
                topics=[describe_transactions.TopicData(topic="t", partitions=[0])],
            )
            return describe_transactions.DescribeTransactionsResponse(transaction_states=[described])
        if name == "DescribeProducersRequest":
            rows = [
                PartitionResponse(
                    partition_index=index,
                    active_producers=[
                        ProducerState(
                            producer_id=producer_id,
                            producer_epoch=2,
                            last_timestamp=NOW - 60_000,
                            coordinator_epoch=-1,
                            current_txn_start_offset=10 * producer_id,
                        ),
                        ProducerState(producer_id=99, current_txn_start_offset=-1),
                    ],
                )
                for index, producer_id in ((0, 7), (1, 8))
            ]
            return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=rows)])
        if name == "InitProducerIdRequest":
            return InitProducerIdResponse(error_code=self.fences.pop(0))
        row = WritableTxnMarkerPartitionResult(partition_index=1, error_code=self.marker_code)
        topic = WritableTxnMarkerTopicResult(name="t", partitions=[row])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=8, topics=[topic])])


def test_what_no_coordinator_knows_hangs() -> None:
    (found,) = find_hanging(Cluster(), None, 60_000, NOW)
    assert (found.topic, found.partition, found.producer_id, found.start_offset) == ("t", 1, 8, 80)
    assert find_hanging(Cluster(), None, 60_001, NOW) == []


def test_an_abort_writes_the_marker_that_is_missing() -> None:
    cluster = Cluster()
    abort_at(cluster, "t", 1, 80)
    marker: Any = cluster.asked[-1]
    assert not marker.markers[0].transaction_result
    assert (marker.markers[0].producer_id, marker.markers[0].coordinator_epoch) == (8, 0)
    with pytest.raises(CommandError, match="no transaction begins"):
        abort_at(cluster, "t", 1, 81)
    cluster.marker_code = ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(CommandError, match="INVALID_PRODUCER_EPOCH"):
        abort_at(cluster, "t", 1, 80)


def test_an_end_comes_again_while_markers_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "END_PAUSE_S", 0)
    cluster = Cluster()
    end_transaction(cluster, "known")
    assert cluster.fences == []
    cluster.fences = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    with pytest.raises(CommandError, match="still on their way"):
        end_transaction(cluster, "known")


def test_a_table_has_its_head_first() -> None:
    head, row = list_transactions(Cluster())
    assert head[0] == "TRANSACTIONAL ID"
    assert (row[0], row[1], row[2], row[5]) == ("known", "Ongoing", 7, "t-0")


@pytest.mark.parametrize("address", ["nowhere", ":9092", "host:", "host:70000", "host:x"])
def test_an_address_without_host_and_port_is_told(address: str) -> None:
    with pytest.raises(CommandError, match="HOST:PORT"):
        ClusterClient(address)
