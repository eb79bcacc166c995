"""Brokers that a blocking cluster can talk to without a network: sockets that answer each request as it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from struct import unpack
from typing import Any

from ottla import records
from ottla.records import Record
from ottla.records.batch import BatchHeader, read_header
from ottla.wire import Message, decode
from ottla.wire.apis import APIS, request_class
from ottla.wire.frames import decode_request_header, encode_response
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.describe_configs import DescribeConfigsResponse
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.find_coordinator import FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.unit.spark.in_place import InPlace

UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
OUT_OF_ORDER_SEQUENCE_NUMBER = 45


class Brokers:
    """A cluster of `node_count` brokers at h:1, h:2, ...; partition p of each topic is led by node p % node_count + 1,
    and node 1 coordinates all transactions."""

    def __init__(self, topics: dict[str, int], node_count: int = 1) -> None:
        self.topics = topics
        self.node_count = node_count
        self.in_place = InPlace(self.connect)
        """What a worker of this world stands on."""
        self.sockets: list[Socket] = []
        self.refusing: set[int] = set()
        """Nodes that take no connection."""
        self.breaking: set[int] = set()
        """Nodes whose connections end at the next Produce request, once."""
        self.late_leaders: set[int] = set()
        """Partitions whose leader refuses the next batch, as one does right after a topic was created."""
        self.first_sequences: dict[tuple[str, int], int] = {}
        self.next_sequences: dict[tuple[str, int], int] = {}
        self.added: list[tuple[str, int]] = []
        """What was added to transactions."""
        self.written: Counter[tuple[str, int]] = Counter()
        """Records in each partition; every batch has a sequence number."""
        self.readable_count = 0
        """How many records each partition has to read, ten in a batch; the value of each is its offset."""
        self.fetch_sizes: list[int] = []
        """The bytes that each Fetch asked for."""
        self.outstanding_at_questions: list[int] = []
        """How many answers to Produce requests were unread on any connection when AddPartitionsToTxn came."""

    def connect(self, port: int) -> Socket:
        if port in self.refusing:
            raise ConnectionRefusedError(111, "Connection refused")
        self.sockets.append(Socket(self, port))
        return self.sockets[-1]

    def leader(self, partition: int) -> int:
        return partition % self.node_count + 1


class Socket:
    """A connection to one broker. A read without an answer under way has to wait, and in vain."""

    def __init__(self, brokers: Brokers, node_id: int) -> None:
        self.node_id = node_id
        self.asked: list[str] = []
        self.is_closed = False
        self._brokers = brokers
        self._incoming = bytearray()

    def setsockopt(self, *_: object) -> None:
        pass

    def getsockopt(self, *_: object) -> int:
        return 0

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.is_closed = True

    def send(self, data: Any, /) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Iterable[Any], *_: object) -> int:
        data = b"".join(buffers)
        (size,) = unpack(">i", data[:4])
        assert size == len(data) - 4, "a request is sent at once"
        header, position = decode_request_header(memoryview(data)[4:])
        name = APIS[header.api_key].name
        self.asked.append(name)
        if name == "Produce" and self.node_id in self._brokers.breaking:
            self._brokers.breaking.discard(self.node_id)
            raise ConnectionResetError(104, "Connection reset by peer")
        request = decode(request_class(header.api_key), header.api_version, memoryview(data)[4:], position)
        response = getattr(self, f"_{name}")(request)
        if response is not None:
            for piece in encode_response(header.api_key, header.api_version, header.correlation_id, response):
                self._incoming += piece
        return len(data)

    def recv_into(self, view: Any, /) -> int:
        if not self._incoming:
            raise BlockingIOError
        count = min(len(view), len(self._incoming))
        view[:count] = self._incoming[:count]
        del self._incoming[:count]
        return count

    @property
    def has_unread(self) -> bool:
        return bool(self._incoming)

    # Answers

    def _ApiVersions(self, request: Any) -> Message:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=api.min_version, max_version=api.max_version)
                for key, api in APIS.items()
            ]
        )

    def _Metadata(self, request: Any) -> Message:
        brokers = self._brokers
        names = list(brokers.topics) if request.topics is None else [one.name for one in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host="h", port=node) for node in range(1, brokers.node_count + 1)
            ],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        count = self._brokers.topics.get(name)
        if count is None:
            return MetadataResponseTopic(name=name, error_code=UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            MetadataResponsePartition(partition_index=one, leader_id=self._brokers.leader(one)) for one in range(count)
        ]
        return MetadataResponseTopic(name=name, partitions=partitions)

    def _FindCoordinator(self, request: Any) -> Message:
        return FindCoordinatorResponse(node_id=1, host="h", port=1)

    def _DescribeConfigs(self, request: Any) -> Message:
        return DescribeConfigsResponse(results=[])

    def _EndTxn(self, request: Any) -> Message:
        return EndTxnResponse(error_code=0)

    def _AddPartitionsToTxn(self, request: Any) -> Message:
        brokers = self._brokers
        brokers.outstanding_at_questions.append(sum(one.has_unread for one in brokers.sockets))
        topics = request.v3_and_below_topics
        brokers.added += [(topic.name, number) for topic in topics for number in topic.partitions]
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=number) for number in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )

    def _Produce(self, request: Any) -> Message | None:
        brokers = self._brokers
        answers = []
        for topic in request.topic_data:
            answered = []
            for one in topic.partition_data:
                code = NOT_LEADER_OR_FOLLOWER
                if one.index in brokers.late_leaders:
                    brokers.late_leaders.discard(one.index)
                elif brokers.leader(one.index) == self.node_id:
                    assert request.transactional_id is None or (topic.name, one.index) in brokers.added
                    code = self._append((topic.name, one.index), read_header(bytes(one.records)))
                answered.append(PartitionProduceResponse(index=one.index, error_code=code))
            answers.append(TopicProduceResponse(name=topic.name, partition_responses=answered))
        return ProduceResponse(responses=answers) if request.acks else None

    def _Fetch(self, request: Any) -> Message:
        """One batch, whatever the size that is asked for."""
        (topic,) = request.topics
        (asked,) = topic.partitions
        self._brokers.fetch_sizes.append(asked.partition_max_bytes)
        answer = PartitionData(partition_index=asked.partition, high_watermark=self._brokers.readable_count)
        if self._brokers.leader(asked.partition) != self.node_id:
            answer.error_code = NOT_LEADER_OR_FOLLOWER
        else:
            first = asked.fetch_offset // 10 * 10
            values = [b"%d" % number for number in range(first, min(first + 10, self._brokers.readable_count))]
            answer.records = (
                bytes(records.build([Record(timestamp=5, key=None, value=one) for one in values], base_offset=first))
                if values
                else b""
            )
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, partitions=[answer])])

    def _append(self, partition: tuple[str, int], header: BatchHeader) -> int:
        """As an idempotent producer's batches are: in the order of their numbers, and each once. Any number may be the
        first, as in Apache Kafka."""
        expected = self._brokers.next_sequences.get(partition, header.base_sequence)
        if header.base_sequence != expected:
            is_known = header.base_sequence < expected and self._brokers.first_sequences[partition] == 0
            return 0 if is_known else OUT_OF_ORDER_SEQUENCE_NUMBER
        self._brokers.first_sequences.setdefault(partition, header.base_sequence)
        self._brokers.next_sequences[partition] = expected + header.count
        self._brokers.written[partition] += header.count
        return 0
