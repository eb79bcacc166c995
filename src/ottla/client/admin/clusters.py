"""The cluster itself: brokers, disks, the quorum; and transactions that hang."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.cluster import CoordinatorType
from ottla.client.core.partitions import by_topic
from ottla.client.errors import KafkaError, error_of
from ottla.client.metadata import Broker, TopicPartition
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_METADATA_TOPIC = "__cluster_metadata"


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]
    fenced_ids: tuple[int, ...] = ()


class LogDir(NamedTuple):
    """A data folder of a broker."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaLog]
    error: KafkaError | None = None


class ReplicaLog(NamedTuple):
    size_bytes: int
    offset_lag: int
    is_future: bool


class QuorumReplica(NamedTuple):
    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


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
    """Where its open transaction begins, -1 if it has none."""


class ClusterCalls(AdminCalls):
    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        async def ask() -> ClusterDescription:
            response: DescribeClusterResponse = await self._ask_any(
                DescribeClusterRequest(include_fenced_brokers=include_fenced)
            )
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            brokers = sorted(Broker(one.broker_id, one.host, one.port, one.rack) for one in response.brokers)
            fenced = sorted(one.broker_id for one in response.brokers if one.is_fenced)
            return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers), tuple(fenced))

        return await self._one(ask)

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, list[LogDir]]:
        """The data folders of brokers, and what lies in them."""
        wanted = None
        if partitions is not None:
            wanted = [
                DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]

        async def ask(left: dict[int, None]) -> dict[int, list[LogDir] | KafkaError]:
            answers: dict[int, list[LogDir] | KafkaError] = {}
            await self._brokers()
            for broker_id in left:
                response: DescribeLogDirsResponse = await self._cluster.send(
                    broker_id, DescribeLogDirsRequest(topics=wanted)
                )
                folders = [
                    LogDir(
                        one.log_dir,
                        one.total_bytes,
                        one.usable_bytes,
                        {
                            TopicPartition(topic.name, part.partition_index): ReplicaLog(
                                part.partition_size, part.offset_lag, part.is_future_key
                            )
                            for topic in one.topics
                            for part in topic.partitions
                        },
                        error_of(one.error_code) if one.error_code else None,
                    )
                    for one in response.results
                ]
                answers[broker_id] = outcome(response.error_code, None, folders)
            return answers

        ids = await self._one(self._brokers) if broker_ids is None else list(broker_ids)
        return await self._each(dict.fromkeys(ids), ask)

    async def describe_quorum(self) -> QuorumDescription:
        """The quorum of controllers: its leader, and how far each voter and observer has got."""

        async def ask() -> QuorumDescription:
            request = DescribeQuorumRequest(
                topics=[
                    DescribeQuorumRequestTopicData(
                        topic_name=_METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
                    )
                ]
            )
            response: DescribeQuorumResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            found = response.topics[0].partitions[0]
            if found.error_code:
                raise error_of(found.error_code, found.error_message)
            return QuorumDescription(
                found.leader_id,
                found.leader_epoch,
                found.high_watermark,
                tuple(_replica(one) for one in found.current_voters),
                tuple(_replica(one) for one in found.observers),
            )

        return await self._one(ask)

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that will not come back."""

        async def ask() -> None:
            response: UnregisterBrokerResponse = await self._ask_controller(
                UnregisterBrokerRequest(broker_id=broker_id)
            )
            if response.error_code:
                raise error_of(response.error_code, response.error_message)

        await self._one(ask)

    # Transactions

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that all brokers know, or those that fit."""

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
                for one in response.transaction_states:
                    found[one.transactional_id] = TransactionListing(
                        one.transactional_id, one.producer_id, one.transaction_state
                    )
            return [found[name] for name in sorted(found)]

        return await self._one(ask)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
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
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """Who writes to partitions, as their leaders know it; the first step in finding a transaction that hangs."""

        async def ask(left: dict[TopicPartition, None]) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            answers: dict[TopicPartition, list[ActiveProducer] | KafkaError] = {}
            for node_id, led in (await self._by_leader(left)).items():
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
        """Fence whoever uses these transactional ids; what they left open is aborted."""

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
        numbers): the coordinator knows nothing of it any more."""

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


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id, state.log_end_offset, state.last_fetch_timestamp, state.last_caught_up_timestamp
    )
