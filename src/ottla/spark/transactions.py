"""Requests about transactions, over blocking connections. They speak as Kafka's clients did before 4.0 (KIP-98), which
every broker since 0.11 understands: partitions are added by name, and a transaction's end may be asked for twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.cluster import CoordinatorType
from ottla.client.core.offsets import OffsetAndMetadata, read_offset_fetch, shape_offset_fetch
from ottla.client.core.partitions import TopicPartition, by_topic
from ottla.client.errors import ErrorCode, KafkaError, UnsupportedByBroker, check_error, error_code, error_of
from ottla.spark.blocking_cluster import OFFSET_FETCH, BlockingCluster
from ottla.spark.blocking_connection import BlockingConnection
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

INIT_PRODUCER_ID = 22
TWO_PHASE_COMMIT_VERSION = 6
"""InitProducerId in this version is offered where transactions may wait for their end without a timeout (KIP-939)."""
LAST_ADD_PARTITIONS_VERSION = 3
LAST_END_TXN_VERSION = 4
LAST_TXN_OFFSET_COMMIT_VERSION = 4
LAST_OFFSET_FETCH_VERSION = 9
LONG_TIMEOUT_MS = 15 * 60 * 1000
"""transaction.max.timeout.ms of a broker unless it was changed."""
SHORT_TIMEOUT_MS = 60_000
REQUIRED_APIS = (22, 24, 25, 26, 28, 66)


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int


NO_IDENTITY = ProducerIdentity(-1, -1)


def has_transactions(cluster: BlockingCluster) -> bool:
    """Whether the brokers know all that an exactly-once sink needs."""
    connection = cluster.until_done(cluster.any)
    return all(api_key in connection.versions.spoken for api_key in REQUIRED_APIS)


def init_idempotent_producer(cluster: BlockingCluster) -> ProducerIdentity:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=SHORT_TIMEOUT_MS)
    return cluster.until_done(lambda: _identity(cluster.any().request(request)))


def init_transactional_producer(
    cluster: BlockingCluster,
    transactional_id: str,
    *,
    timeout_ms: int | None = None,
    may_wait_for_ever: bool = False,
) -> ProducerIdentity:
    """Take over a transactional id: its last owner is fenced, and its open transaction is aborted.

    Without a timeout given, the longest that brokers allow by default is asked for. A transaction that waits for
    another one's decision is asked to have none at all, where brokers allow that.
    """
    if may_wait_for_ever and _offers_two_phase_commit(cluster, transactional_id):
        try:
            return _init(cluster, transactional_id, LONG_TIMEOUT_MS, is_two_phase=True)
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
    if timeout_ms is not None:
        return _init(cluster, transactional_id, timeout_ms)
    try:
        return _init(cluster, transactional_id, LONG_TIMEOUT_MS)
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        return _init(cluster, transactional_id, SHORT_TIMEOUT_MS)


def fence_producer(cluster: BlockingCluster, transactional_id: str, identity: ProducerIdentity) -> None:
    """No batch of this producer is taken any more. Nothing happens if the id has been taken over meanwhile."""
    try:
        _init(cluster, transactional_id, SHORT_TIMEOUT_MS, expected=identity)
    except KafkaError as error:
        if error.code not in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            raise


def _offers_two_phase_commit(cluster: BlockingCluster, transactional_id: str) -> bool:
    connection = cluster.until_done(lambda: cluster.coordinator(CoordinatorType.TRANSACTION, transactional_id))
    return connection.versions.spoken.get(INIT_PRODUCER_ID, (0, 0))[1] >= TWO_PHASE_COMMIT_VERSION


def _init(
    cluster: BlockingCluster,
    transactional_id: str,
    timeout_ms: int,
    *,
    is_two_phase: bool = False,
    expected: ProducerIdentity = NO_IDENTITY,
) -> ProducerIdentity:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        enable2_pc=is_two_phase,
        producer_id=expected.producer_id,
        producer_epoch=expected.producer_epoch,
    )
    return cluster.ask_coordinator(
        CoordinatorType.TRANSACTION,
        transactional_id,
        lambda: request,
        _identity,
        max_version=TWO_PHASE_COMMIT_VERSION if is_two_phase else None,
    )


def _identity(response: InitProducerIdResponse) -> ProducerIdentity:
    check_error(response.error_code)
    return ProducerIdentity(response.producer_id, response.producer_epoch)


def add_partitions(
    cluster: BlockingCluster, transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()
        ],
    )

    def read(response: Any) -> None:
        _check_codes(
            one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        )

    cluster.ask_coordinator(
        CoordinatorType.TRANSACTION, transactional_id, lambda: request, read, max_version=LAST_ADD_PARTITIONS_VERSION
    )


def _check_codes(codes: Iterable[int]) -> None:
    """Raise the worst: what cannot pass before what may."""
    found = [error_code(code) for code in codes if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    for code in sorted(found, key=lambda one: one.is_retriable):
        raise error_of(code)


def commit_offset(
    cluster: BlockingCluster,
    transactional_id: str,
    identity: ProducerIdentity,
    group_id: str,
    partition: TopicPartition,
    committed: OffsetAndMetadata,
) -> None:
    """Commit one offset of a group with the transaction."""
    producer_id, producer_epoch = identity
    add = AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, group_id=group_id
    )
    cluster.ask_coordinator(
        CoordinatorType.TRANSACTION, transactional_id, lambda: add, lambda response: check_error(response.error_code)
    )
    one = TxnOffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=committed.offset,
        committed_metadata=committed.metadata,
    )
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=partition.topic, partitions=[one])],
    )

    def read(response: Any) -> None:
        _check_codes(one.error_code for topic in response.topics for one in topic.partitions)

    cluster.ask_coordinator(
        CoordinatorType.GROUP, group_id, lambda: request, read, max_version=LAST_TXN_OFFSET_COMMIT_VERSION
    )


def committed_offsets(cluster: BlockingCluster, group_id: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """All that is committed to a group. The answer waits for transactions that may still commit offsets to it."""

    def ask() -> Mapping[TopicPartition, OffsetAndMetadata]:
        connection = cluster.coordinator(CoordinatorType.GROUP, group_id)
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=None,
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)],
            require_stable=True,
        )
        version = connection.version_of(OFFSET_FETCH, LAST_OFFSET_FETCH_VERSION)
        shape_offset_fetch(request, version)
        code, committed, refused = read_offset_fetch(
            connection.request(request, max_version=version), lambda topic_id: None
        )
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            cluster.forget_coordinator(CoordinatorType.GROUP, group_id)
        check_error(code)
        _check_codes(refused.values())
        return committed

    return cluster.until_done(ask)


def end_transactions(
    cluster: BlockingCluster, transactions: Sequence[tuple[str, ProducerIdentity]], *, committed: bool
) -> dict[str, ErrorCode]:
    """End transactions side by side: the ids whose end was refused for good, and why. What has ended already, the same
    way, is no error."""
    left = list(transactions)
    refused: dict[str, ErrorCode] = {}

    def end_the_rest() -> None:
        again: list[tuple[str, ProducerIdentity]] = []
        passing: ErrorCode | None = None
        for (name, identity), code in zip(left, _end_all(cluster, left, committed), strict=True):
            if code and code.is_retriable:
                cluster.forget_coordinator(CoordinatorType.TRANSACTION, name)
                again.append((name, identity))
                passing = code
            elif code:
                refused[name] = code
        left[:] = again
        if passing is not None:
            raise error_of(passing, f"{len(left)} transactions could not be ended")

    cluster.until_done(end_the_rest)
    return refused


def _end_all(
    cluster: BlockingCluster, transactions: Sequence[tuple[str, ProducerIdentity]], committed: bool
) -> list[ErrorCode]:
    """One request for each, all on their way before the first answer is read."""
    connections = [cluster.coordinator(CoordinatorType.TRANSACTION, name) for name, _ in transactions]
    tickets = []
    try:
        for connection, (name, identity) in zip(connections, transactions, strict=True):
            request = EndTxnRequest(
                transactional_id=name,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                committed=committed,
            )
            tickets.append(connection.send(request, max_version=LAST_END_TXN_VERSION))
        answers = [connection.receive(ticket) for connection, ticket in zip(connections, tickets, strict=True)]
    except BaseException:
        for connection in connections:  # the answers still under way are for no caller
            connection.close()
        raise
    return [error_code(answer.error_code) for answer in answers]


def open_transactions(cluster: BlockingCluster, prefix: str) -> list[str]:
    """The transactional ids with this prefix that have an open transaction, at any broker."""
    return sorted(name for name, _ in _open_transactions(cluster, prefix, _names_at))


def open_identities(cluster: BlockingCluster, prefix: str) -> list[tuple[str, ProducerIdentity]]:
    """The open transactions with this prefix, each with its producer id and epoch: `end_transactions` then ends this
    transaction and no later one."""
    return sorted(_open_transactions(cluster, prefix, _identities_at))


_Found = list[tuple[str, ProducerIdentity]]


def _open_transactions(
    cluster: BlockingCluster, prefix: str, look_at: Callable[[BlockingConnection, str], _Found]
) -> _Found:
    def ask() -> _Found:
        cluster.refresh([])
        return [one for node_id in cluster.metadata.brokers for one in look_at(cluster.node(node_id), prefix)]

    try:
        return cluster.until_done(ask)
    except UnsupportedByBroker:
        return []


def _names_at(connection: BlockingConnection, prefix: str) -> _Found:
    response: ListTransactionsResponse = connection.request(
        ListTransactionsRequest(state_filters=["Ongoing"]), max_version=0
    )
    check_error(response.error_code)
    names = [one.transactional_id for one in response.transaction_states]
    return [(name, NO_IDENTITY) for name in names if name.startswith(prefix)]


def _identities_at(connection: BlockingConnection, prefix: str) -> _Found:
    names = [name for name, _ in _names_at(connection, prefix)]
    if not names:
        return []
    response: DescribeTransactionsResponse = connection.request(DescribeTransactionsRequest(transactional_ids=names))
    return [
        (one.transactional_id, ProducerIdentity(one.producer_id, one.producer_epoch))
        for one in response.transaction_states
        if not one.error_code and one.transaction_state == "Ongoing"
    ]
