"""Transactions and the producers of partitions: what runs, what hangs, and how it is ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.cluster import CoordinatorType
from ottla.client.core.partitions import by_topic
from ottla.client.errors import ErrorCode, KafkaError, error_of
from ottla.client.metadata import TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_timestamp: int
    """When the transaction began, -1 if none is open."""
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int


class ActiveProducer(NamedTuple):
    """A producer that has written to a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int
    """The first offset of its open transaction, -1 without one."""


class TransactionCalls(AdminCalls):
    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers, or those that match the filters.

        Example:

            for found in await admin.list_transactions(running_longer_than_ms=60_000):
                print(found.transactional_id, found.state)
        """

        async def ask() -> list[TransactionListing]:
            found: dict[str, TransactionListing] = {}
            for node_id in await self._brokers():
                request = ListTransactionsRequest(
                    state_filters=list(states),
                    producer_id_filters=list(producer_ids),
                    duration_filter=running_longer_than_ms,
                    transactional_id_pattern=pattern,
                )
                response: ListTransactionsResponse = await self._cluster.send(node_id, request)
                if response.error_code:
                    raise error_of(response.error_code)
                if response.unknown_state_filters:
                    unknown = ", ".join(response.unknown_state_filters)
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no state {unknown}")
                for one in response.transaction_states:
                    found[one.transactional_id] = TransactionListing(
                        one.transactional_id, one.producer_id, one.transaction_state
                    )
            return [found[name] for name in sorted(found)]

        return await self._one(ask)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """State, producer and partitions of transactions, by transactional id.

        Example:

            described = await admin.describe_transactions(["payments-1"])
            print(described["payments-1"].state)
        """

        async def ask(left: dict[str, None]) -> dict[str, TransactionDescription | KafkaError]:
            answers: dict[str, TransactionDescription | KafkaError] = {}
            for name in left:
                node_id = await self._cluster.coordinator(name, CoordinatorType.TRANSACTION)
                response: DescribeTransactionsResponse = await self._ask_coordinator(
                    CoordinatorType.TRANSACTION, name, DescribeTransactionsRequest(transactional_ids=[name])
                )
                for one in response.transaction_states:
                    self._forget_moved(CoordinatorType.TRANSACTION, name, one.error_code)
                    description = TransactionDescription(
                        name,
                        one.transaction_state,
                        one.producer_id,
                        one.producer_epoch,
                        one.transaction_timeout_ms,
                        one.transaction_start_time_ms,
                        tuple(
                            TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions
                        ),
                        node_id,
                    )
                    answers[name] = outcome(one.error_code, f"transactional id {name}", description)
            return answers

        return await self._each(dict.fromkeys(transactional_ids), ask)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers that write to partitions, as reported by their leaders, or by the one broker named; the first
        step in finding a transaction that hangs.

        Example:

            for partition, producers in (await admin.describe_producers([TopicPartition("orders", 0)])).items():
                print(partition, [producer.producer_id for producer in producers])
        """

        async def ask(left: dict[TopicPartition, None]) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            answers: dict[TopicPartition, list[ActiveProducer] | KafkaError] = {}
            by_broker = {broker_id: list(left)} if broker_id is not None else await self._by_leader(left)
            if broker_id is not None:
                await self._brokers()
            for node_id, led in by_broker.items():
                request = DescribeProducersRequest(
                    topics=[
                        TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(led).items()
                    ]
                )
                response: DescribeProducersResponse = await self._cluster.send(node_id, request)
                for topic in response.topics:
                    for one in topic.partitions:
                        producers = [
                            ActiveProducer(
                                producer.producer_id,
                                producer.producer_epoch,
                                producer.last_sequence,
                                producer.last_timestamp,
                                producer.coordinator_epoch,
                                producer.current_txn_start_offset,
                            )
                            for producer in one.active_producers
                        ]
                        answers[TopicPartition(topic.name, one.partition_index)] = outcome(
                            one.error_code, one.error_message, producers
                        )
            return answers

        return await self._each(dict.fromkeys(partitions), ask)

    async def fence_producers(self, transactional_ids: Iterable[str]) -> None:
        """Fence the producers of these transactional ids; the coordinator aborts the transactions they left open.

        Example:

            await admin.fence_producers(["payments-1"])
        """

        async def ask(left: dict[str, None]) -> dict[str, KafkaError | None]:
            answers: dict[str, KafkaError | None] = {}
            for name in left:
                request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1)
                response: InitProducerIdResponse = await self._ask_coordinator(
                    CoordinatorType.TRANSACTION, name, request
                )
                self._forget_moved(CoordinatorType.TRANSACTION, name, response.error_code)
                answers[name] = outcome(response.error_code, None, None)
            return answers

        await self._each(dict.fromkeys(transactional_ids), ask)

    async def abort_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write the abort marker of a transaction that hangs straight to a partition (`describe_producers` has the
        numbers): use it if the coordinator no longer has the transaction.

        Example:

            await admin.abort_transaction(TopicPartition("orders", 0), 1000, 0, coordinator_epoch=-1)
        """

        async def ask() -> None:
            (node_id,) = await self._by_leader([partition])
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            )
            response: WriteTxnMarkersResponse = await self._cluster.send(
                node_id, WriteTxnMarkersRequest(markers=[marker])
            )
            for answered in response.markers:
                for topic in answered.topics:
                    for one in topic.partitions:
                        if one.error_code:
                            raise error_of(one.error_code)

        await self._one(ask)
