"""A producer's transactions: what is written between begin and commit appears as a whole, or not at all (KIP-98).

    UNINITIALIZED --init--> READY --begin--> IN_TRANSACTION --commit--> COMMITTING --> READY
                                                    |--abort---> ABORTING  --> READY
    any --fenced--> FATAL

When a batch or a request of the transaction fails for good, the transaction can only be aborted (`abortable_error`).

With transactions of the second kind (KIP-890, `transaction.version` 2) the broker adds partitions by itself when they
are first written to, and every end of a transaction gives the producer a new epoch, so that a late batch cannot become
part of the next one. With older brokers the producer adds partitions before it writes, and asks for a new epoch after a
failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any

from ottla.client.cluster import Cluster, CoordinatorType
from ottla.client.config import ProducerConfig
from ottla.client.core.offsets import OffsetAndMetadata
from ottla.client.core.partitions import by_topic
from ottla.client.core.sequences import Sequences
from ottla.client.errors import (
    CommitFailed,
    ErrorCode,
    KafkaError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    error_of,
    is_retriable,
)
from ottla.client.metadata import ConsumerGroupMetadata, TopicPartition
from ottla.client.offset_requests import NO_MEMBER
from ottla.records.batch import MAX_PRODUCER_EPOCH
from ottla.wire import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.primitives import ZERO_UUID

LANE = "coordinator"
_LAST_V1_END_TXN = 4
_LAST_V1_OFFSET_COMMIT = 4
_LAST_OFFSET_COMMIT_BY_NAME = 5
_NO_MEMBER_OF_TRANSACTION = (*NO_MEMBER, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
_LAST_CLIENT_ADD_PARTITIONS = 3

_COORDINATOR_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_FATAL = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
)


class State(Enum):
    UNINITIALIZED = "not initialized"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FATAL = "fenced or failed for good"


class Transactions:
    def __init__(self, config: ProducerConfig, cluster: Cluster, sequences: Sequences) -> None:
        assert config.transactional_id is not None
        self._config = config
        self._cluster = cluster
        self._sequences = sequences
        self._id = config.transactional_id
        self.state = State.UNINITIALIZED
        self.abortable_error: KafkaError | None = None
        self.fatal_error: KafkaError | None = None
        self.is_v2 = False
        self.wake: Callable[[], None] = lambda: None
        self._is_ending = False
        self._is_started = False
        """Whether the coordinator may know of the transaction: an empty one is never ended there."""
        self._needs_epoch = False
        self._added: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, None] = {}
        self._adding: asyncio.Task[None] | None = None

    @property
    def is_aborting(self) -> bool:
        return self.state is State.ABORTING

    @property
    def is_left_open(self) -> bool:
        """Whether a transaction is open, or its end was begun and given up, and no task is ending it."""
        return self.state in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING) and not self._is_ending

    def check(self, *allowed: State) -> None:
        """Raises unless the producer is in one of these states."""
        if self.fatal_error is not None:
            raise self.fatal_error
        if self.state not in allowed:
            wanted = " or ".join(state.value for state in allowed)
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"the producer is {self.state.value}; it should be {wanted}")

    # For the sender

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether a batch of the transaction may go to a partition; if not yet, the sender is woken when it may."""
        if self.is_v2:
            self._is_started = True
            return True
        if partition in self._added:
            return True
        self._wanted[partition] = None
        if self._adding is None:
            self._adding = asyncio.create_task(self._add_partitions())
        return False

    def batch_failed(self, error: KafkaError) -> None:
        """A batch of the transaction was given up."""
        self._needs_epoch = True
        if error.code is ErrorCode.PRODUCER_FENCED:
            self._fail(error)
        elif self.state in (State.IN_TRANSACTION, State.COMMITTING) and self.abortable_error is None:
            self.abortable_error = error

    def _fail(self, error: KafkaError) -> None:
        self.state = State.FATAL
        if self.fatal_error is None:
            self.fatal_error = error

    # What the producer does

    async def init(self) -> None:
        """Take over the transactional id: the last producer with it is fenced, and its open transaction is ended."""
        if self.state is State.READY:
            return
        self.check(State.UNINITIALIZED)
        await self._within(self._init(-1, -1))
        self.state = State.READY

    def begin(self) -> None:
        self.check(State.READY)
        self.is_v2 = self._cluster.finalized_feature("transaction.version") >= 2
        self.state = State.IN_TRANSACTION
        self.abortable_error = None
        self._is_started = False
        self._added.clear()
        self._wanted.clear()

    async def end(self, committed: bool, drained: Callable[[], Awaitable[None]]) -> None:
        """Commit or abort, once `drained` has seen every batch done."""
        ending = State.COMMITTING if committed else State.ABORTING
        self.check(State.IN_TRANSACTION, ending)
        if committed and self.abortable_error is not None:
            raise TransactionAborted(f"the transaction can only be aborted: {self.abortable_error}")
        self.state = ending
        self._is_ending = True
        try:
            await self._within(self._end(committed, drained))
        finally:
            self._is_ending = False

    async def _end(self, committed: bool, drained: Callable[[], Awaitable[None]]) -> None:
        await drained()
        if self.fatal_error is not None:
            raise self.fatal_error
        if committed and self.abortable_error is not None:
            self.state = State.IN_TRANSACTION
            raise TransactionAborted(f"the transaction can only be aborted: {self.abortable_error}")
        if self._adding is not None:
            self._adding.cancel()
        if self._is_started:
            try:
                await self._end_txn(committed)
            except TransactionAborted as error:
                self.abortable_error = error
                self.state = State.IN_TRANSACTION
                raise
        if self._needs_epoch and not self.is_v2:
            await self._init(self._sequences.producer_id, self._sequences.producer_epoch)
        self._needs_epoch = False
        self.abortable_error = None
        self.state = State.READY

    async def _end_txn(self, committed: bool) -> None:
        def request() -> EndTxnRequest:
            return EndTxnRequest(
                transactional_id=self._id,
                producer_id=self._sequences.producer_id,
                producer_epoch=self._sequences.producer_epoch,
                committed=committed,
            )

        response: EndTxnResponse = await self._ask(
            CoordinatorType.TRANSACTION, self._id, request, None if self.is_v2 else _LAST_V1_END_TXN
        )
        if self.is_v2 and response.producer_id >= 0:
            self._sequences.begin(response.producer_id, response.producer_epoch)

    async def _init(self, producer_id: int, producer_epoch: int) -> None:
        if producer_epoch >= MAX_PRODUCER_EPOCH - 1:
            producer_id = producer_epoch = -1

        def request() -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=self._config.transaction_timeout_ms,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )

        response: InitProducerIdResponse = await self._ask(CoordinatorType.TRANSACTION, self._id, request)
        self._sequences.begin(response.producer_id, response.producer_epoch)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets with the transaction."""
        self.check(State.IN_TRANSACTION)
        if self.abortable_error is not None:
            raise TransactionAborted(f"the transaction can only be aborted: {self.abortable_error}")
        if not offsets:
            return
        try:
            await self._within(self._send_offsets(offsets, group))
        except KafkaError as error:
            if self.fatal_error is None and self.abortable_error is None:
                self.abortable_error = error
            raise

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        sequences = self._sequences
        self._is_started = True
        if not self.is_v2:
            await self._ask(
                CoordinatorType.TRANSACTION,
                self._id,
                lambda: AddOffsetsToTxnRequest(
                    transactional_id=self._id,
                    producer_id=sequences.producer_id,
                    producer_epoch=sequences.producer_epoch,
                    group_id=group.group_id,
                ),
            )

        # A retry keeps these: a topic that was created anew under the same name does not get offsets of the old one.
        ids = {topic: self._topic_id(topic) for topic, _ in offsets}

        def request() -> TxnOffsetCommitRequest:
            topics: dict[str, TxnOffsetCommitRequestTopic] = {}
            for (topic, partition), given in offsets.items():
                committed = OffsetAndMetadata(given) if isinstance(given, int) else given
                topics.setdefault(
                    topic, TxnOffsetCommitRequestTopic(name=topic, topic_id=ids[topic])
                ).partitions.append(
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        committed_metadata=committed.metadata,
                    )
                )
            return TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=group.group_id,
                producer_id=sequences.producer_id,
                producer_epoch=sequences.producer_epoch,
                generation_id_or_member_epoch=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.group_instance_id,
                topics=list(topics.values()),
            )

        max_version: int | None = _LAST_V1_OFFSET_COMMIT
        if self.is_v2:
            max_version = _LAST_OFFSET_COMMIT_BY_NAME if ZERO_UUID in ids.values() else None
        try:
            await self._ask(CoordinatorType.GROUP, group.group_id, request, max_version)
        except KafkaError as error:
            if error.code in _NO_MEMBER_OF_TRANSACTION:
                raise CommitFailed(
                    error.code, f"the group has gone on without this member: {error.code.text}"
                ) from None
            raise

    def _topic_id(self, topic: str) -> bytes:
        info = self._cluster.metadata.topics.get(topic)
        return ZERO_UUID if info is None else info.topic_id

    async def _add_partitions(self) -> None:
        """AddPartitionsToTxn for all that want to be added, until none is left (transactions of the first kind)."""
        try:
            while self._wanted:
                wanted = list(self._wanted)

                def request(wanted: list[TopicPartition] = wanted) -> AddPartitionsToTxnRequest:
                    return AddPartitionsToTxnRequest(
                        v3_and_below_transactional_id=self._id,
                        v3_and_below_producer_id=self._sequences.producer_id,
                        v3_and_below_producer_epoch=self._sequences.producer_epoch,
                        v3_and_below_topics=[
                            AddPartitionsToTxnTopic(name=topic, partitions=partitions)
                            for topic, partitions in by_topic(wanted).items()
                        ],
                    )

                self._is_started = True
                await self._ask(CoordinatorType.TRANSACTION, self._id, request, _LAST_CLIENT_ADD_PARTITIONS)
                self._added.update(wanted)
                for partition in wanted:
                    self._wanted.pop(partition, None)
        except KafkaError as error:
            self._wanted.clear()
            if self.fatal_error is None and self.abortable_error is None:
                self.abortable_error = error
        finally:
            self._adding = None
            self.wake()

    async def close(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait([self._adding])

    # Requests to coordinators

    async def _within(self, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                await work
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise RequestTimedOut(f"no success within max.block.ms ({self._config.max_block_ms} ms)") from None

    async def _ask(
        self,
        kind: CoordinatorType,
        key: str,
        make: Callable[[], Message],
        max_version: int | None = None,
    ) -> Any:
        """The answer of a coordinator, after as many tries as it takes; what cannot be tried again is raised."""
        attempt = 0
        while True:
            pause_ms = None
            try:
                node_id = await self._cluster.coordinator(key, kind, timeout_ms=self._config.max_block_ms)
                response = await self._cluster.send(node_id, make(), lane=LANE, max_version=max_version)
                code = _code(response)
                if code is ErrorCode.NONE:
                    return response
                if code in _COORDINATOR_MOVED:
                    self._cluster.forget_coordinator(key, kind)
                elif code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    pause_ms = 20.0
                raise error_of(code)
            except KafkaError as error:
                if isinstance(error, ProducerFenced) or error.code in _FATAL:
                    self._fail(error)
                    raise
                if not is_retriable(error):
                    raise
                if error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT):
                    self._cluster.forget_coordinator(key, kind)
            attempt += 1
            await asyncio.sleep((pause_ms or self._cluster.retry_backoff.pause_ms(attempt)) / 1000)


def _code(response: Any) -> ErrorCode:
    """The most severe error of a response, of the request or of one of its partitions."""
    codes: list[int] = []
    if isinstance(response, TxnOffsetCommitResponse):
        codes = [partition.error_code for topic in response.topics for partition in topic.partitions]
    elif isinstance(response, AddPartitionsToTxnResponse):
        codes = [
            partition.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ]
    else:
        codes = [response.error_code]
    found = [error_of(code).code for code in codes if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    final = [code for code in found if not code.is_retriable]
    return (final or found or [ErrorCode.NONE])[0]
