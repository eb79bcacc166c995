"""A transactional producer for simulated hosts, in both versions of the protocol.

Version 2 (KIP-890): Produce v12 and TxnOffsetCommit v5 add the partition by themselves, EndTxn v5 brings the next
epoch.
Version 1: AddPartitionsToTxn and AddOffsetsToTxn come first, and the epoch stays until the next InitProducerId.

It repeats a request until it is answered, as Kafka's clients do, and keeps the requests it sent, so that a world can
deliver one of them once more, much later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla import records
from ottla.sim.checkers import Content
from ottla.sim.client import API_KEYS, Client, NoAnswer
from ottla.sim.transaction_history import Partition
from ottla.wire.apis import response_class
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.wire.message import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

Answer = TypeVar("Answer", bound=Message)

TRANSACTION_KEY = 1
RETRY_S = 0.1
REQUESTS_KEPT = 40
PASSING = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
"""Errors after which a producer waits and tries again."""
NO_ANSWER = ErrorCode.NETWORK_EXCEPTION
"""What clients call it among themselves."""
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""The errors of a producer whose transactional id has a new owner, or whose transaction timed out."""


class Fenced(Exception):
    """Another instance took over, or the coordinator ended the transaction."""


class GaveUp(Exception):
    """No answer after many attempts: whether the request took effect is unknown."""


class Versions(NamedTuple):
    """The versions of its requests that a client speaks."""

    protocol: int
    init_producer_id: int
    produce: int
    end_txn: int
    txn_offset_commit: int
    add: int = 3


VERSION_2 = Versions(2, init_producer_id=5, produce=12, end_txn=5, txn_offset_commit=5)
VERSION_1 = Versions(1, init_producer_id=4, produce=11, end_txn=4, txn_offset_commit=4)
OLD_VERSION_1 = Versions(1, init_producer_id=3, produce=9, end_txn=3, txn_offset_commit=3)
SPOKEN = (VERSION_2, VERSION_1, OLD_VERSION_1)


class Sent(NamedTuple):
    """A request as it went out."""

    message: Message
    version: int

    @property
    def name(self) -> str:
        return type(self.message).__name__.removesuffix("Request")


class TransactionalProducer:
    def __init__(
        self,
        client: Client,
        transactional_id: str,
        versions: Versions = VERSION_2,
        *,
        clock: Callable[[], int],
        timeout_ms: int = 60_000,
        attempts: int = 1_000,
    ) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.versions = versions
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._attempts = attempts
        self.producer = (-1, -1)
        self.sent: deque[Sent] = deque(maxlen=REQUESTS_KEPT)
        self._added: dict[Partition | str, None] = {}
        """The partitions and groups that version 1 has added to the open transaction."""
        self._sequences: dict[Partition, int] = {}
        self._has_written = False

    @property
    def bumps_epochs(self) -> bool:
        return self.versions.protocol >= 2

    async def init(self) -> None:
        """Become the owner of the transactional id; the owner before is fenced."""
        await self._init(-1, -1)

    async def recover(self) -> None:
        """Continue with the next epoch after a request with an unknown outcome (KIP-360)."""
        await self._init(*self.producer)

    async def _init(self, producer_id: int, producer_epoch: int) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        response = await self._until_answered(
            request, self.versions.init_producer_id, InitProducerIdResponse, lambda answer: answer.error_code
        )
        self._go_on_as(response.producer_id, response.producer_epoch)

    def _go_on_as(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != self.producer:
            self.producer = producer_id, producer_epoch
            self._sequences.clear()
        self._added.clear()
        self._has_written = False

    async def produce(self, partition: Partition, contents: Sequence[Content]) -> int:
        """The base offset."""
        if not self.bumps_epochs and partition not in self._added:
            await self._add(partition)
        sequence = self._sequences.get(partition, 0)
        request = self.produce_request(partition, contents, sequence)
        self._has_written = True
        response = await self._until_answered(
            request,
            self.versions.produce,
            ProduceResponse,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self._sequences[partition] = sequence + len(contents)
        return response.responses[0].partition_responses[0].base_offset

    async def produce_all(self, batches: Sequence[tuple[Partition, Sequence[Content]]]) -> list[int]:
        """Several batches in flight at once, as Kafka's producers have; their base offsets. What got no answer, or came
        before what should have been there already, is sent again, in order."""
        requests: list[tuple[Partition, ProduceRequest]] = []
        for partition, contents in batches:
            if not self.bumps_epochs and partition not in self._added:
                await self._add(partition)
            sequence = self._sequences.get(partition, 0)
            requests.append((partition, self.produce_request(partition, contents, sequence)))
            self._sequences[partition] = sequence + len(contents)
        self._has_written = True
        self.sent.extend(Sent(request, self.versions.produce) for _, request in requests)
        offsets: dict[int, int] = {}
        for _ in range(self._attempts):
            waiting = [index for index in range(len(requests)) if index not in offsets]
            answers = await asyncio.gather(*(self._send(requests[index][1]) for index in waiting))
            incomplete: dict[Partition, None] = {}
            for index, (code, offset) in zip(waiting, answers, strict=True):
                partition = requests[index][0]
                if code is ErrorCode.NONE:
                    offsets[index] = offset
                    continue
                if code in FENCED:
                    raise Fenced(f"Produce: {code.name}")
                if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and partition in incomplete:
                    continue
                if code not in (*PASSING, NO_ANSWER):
                    raise KafkaError(code, f"{self.transactional_id}: batch {index} of {len(requests)} to {partition}")
                incomplete[partition] = None
            if len(offsets) == len(requests):
                return [offsets[index] for index in range(len(requests))]
            await asyncio.sleep(RETRY_S)
        raise GaveUp("ProduceRequest")

    async def _send(self, request: ProduceRequest) -> tuple[ErrorCode, int]:
        try:
            response = await self.client.request(request, ProduceResponse, version=self.versions.produce)
        except NoAnswer:
            return NO_ANSWER, -1
        row = response.responses[0].partition_responses[0]
        return ErrorCode(row.error_code), row.base_offset

    def produce_request(self, partition: Partition, contents: Sequence[Content], sequence: int) -> ProduceRequest:
        timestamp = self._clock()
        batch = records.build(
            [records.Record(index, timestamp, key, value, ()) for index, (key, value) in enumerate(contents)],
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(
            name=partition[0], partition_data=[PartitionProduceData(index=partition[1], records=bytes(batch))]
        )
        return ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data])

    async def _add(self, partition: Partition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])],
        )
        await self._until_answered(
            request,
            self.versions.add,
            AddPartitionsToTxnResponse,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        self._added[partition] = None

    async def commit_offset(self, group_id: str, partition: Partition, offset: int, metadata: str) -> None:
        if not self.bumps_epochs and group_id not in self._added:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                group_id=group_id,
            )
            await self._until_answered(
                added, self.versions.add, AddOffsetsToTxnResponse, lambda answer: answer.error_code
            )
            self._added[group_id] = None
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition[1], committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=partition[0], partitions=[row])],
        )
        self._has_written = True
        await self._until_answered(
            request,
            self.versions.txn_offset_commit,
            TxnOffsetCommitResponse,
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    async def end(self, *, is_commit: bool) -> None:
        """Commit or abort. A transaction that version 1 has added nothing to is not known to the coordinator."""
        if not self._added and not (self.bumps_epochs and self._has_written):
            return
        response = await self._until_answered(
            self.end_request(is_commit=is_commit),
            self.versions.end_txn,
            EndTxnResponse,
            lambda answer: answer.error_code,
        )
        if self.bumps_epochs:
            self._go_on_as(response.producer_id, response.producer_epoch)
        else:
            self._go_on_as(*self.producer)

    def end_request(self, *, is_commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=is_commit,
        )

    async def _until_answered(
        self, request: Message, version: int, answer: type[Answer], code_of: Callable[[Any], int]
    ) -> Answer:
        self.sent.append(Sent(request, version))
        for _ in range(self._attempts):
            try:
                response = await self.client.request(request, answer, version=version)
            except NoAnswer:
                pass
            else:
                code = ErrorCode(code_of(response))
                if code is ErrorCode.NONE:
                    return response
                if code in FENCED or (code is ErrorCode.INVALID_TXN_STATE and isinstance(request, EndTxnRequest)):
                    # The answer to a commit of a transaction that the coordinator has aborted says that it was aborted.
                    raise Fenced(f"{type(request).__name__}: {code.name}")
                if code not in PASSING:
                    raise KafkaError(code, f"{self.transactional_id}: {request}")
            await asyncio.sleep(RETRY_S)
        raise GaveUp(type(request).__name__)


async def send_again(client: Client, sent: Sent) -> list[ErrorCode]:
    """Deliver a request once more, whatever it leads to; the codes in the answer."""
    answer = response_class(API_KEYS[type(sent.message).__name__])
    response: Any = await client.request(sent.message, answer, version=sent.version)
    return [ErrorCode(code) for code in _codes(response)]


def _codes(response: Any) -> list[int]:
    if isinstance(response, ProduceResponse):
        return [row.error_code for topic in response.responses for row in topic.partition_responses]
    if isinstance(response, TxnOffsetCommitResponse):
        return [row.error_code for topic in response.topics for row in topic.partitions]
    if isinstance(response, AddPartitionsToTxnResponse):
        return [
            row.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
    return [response.error_code]


async def open_coordinators(
    client: Client, group_id: str, transactional_id: str, configs: dict[str, str] | None = None
) -> None:
    """Have the internal topics made, and synced before they answer: a power loss must take nothing back. `configs` are
    those of `__transaction_state`."""
    for key_type, key, topic in (
        (0, group_id, GROUP_METADATA_TOPIC),
        (TRANSACTION_KEY, transactional_id, TRANSACTION_STATE_TOPIC),
    ):
        while True:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            try:
                response = await client.request(request, FindCoordinatorResponse)
                if response.coordinators[0].error_code == 0:
                    await client.alter_topic_config(topic, "flush.messages", "1")
                    for name, value in (configs or {}).items() if key_type == TRANSACTION_KEY else ():
                        await client.alter_topic_config(topic, name, value)
                    break
            except (NoAnswer, KafkaError):
                pass
            await asyncio.sleep(RETRY_S)


async def committed_offset(client: Client, group_id: str, partition: Partition) -> tuple[int, str]:
    """Where a group stands, when no transaction can change it any more, and the note that was left with that; -1 and
    nothing where it never committed."""
    topic = OffsetFetchRequestTopics(name=partition[0], partition_indexes=[partition[1]])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[topic])], require_stable=True
    )
    while True:
        try:
            response = await client.request(request, OffsetFetchResponse, version=9)
        except NoAnswer:
            await asyncio.sleep(RETRY_S)
            continue
        group = response.groups[0]
        code = ErrorCode(group.error_code or group.topics[0].partitions[0].error_code)
        if code is ErrorCode.NONE:
            row = group.topics[0].partitions[0]
            return row.committed_offset, row.metadata or ""
        if code not in PASSING:
            raise KafkaError(code)
        await asyncio.sleep(RETRY_S)
