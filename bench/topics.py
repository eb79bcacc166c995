"""Topics made, deleted and described by requests written here: the same bytes for both servers, no JVM in the way."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from tests.interop.servers import Server, read_exactly

from ottla.records import Record, build
from ottla.wire import decode
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE, PRODUCE_VERSION = 0, 8
METADATA, FIND_COORDINATOR, CREATE_TOPICS, DELETE_TOPICS = 3, 10, 19, 20
METADATA_VERSION, FIND_COORDINATOR_VERSION, CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 12, 4, 7, 5
CLIENT_ID = "ottla-bench"
REQUEST_TIMEOUT_MS = 60_000


class RequestFailed(Exception):
    """A server refused what both must accept."""


class Admin:
    """One connection that asks and waits."""

    def __init__(self, server: Server) -> None:
        self._connection = server.connect(120)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, api_key: int, version: int, request: Message) -> tuple[bytes, float]:
        """The answer's frame, and the seconds from the first byte sent to the last received."""
        frame = b"".join(encode_request(api_key, version, 1, CLIENT_ID, request))
        started = time.perf_counter()
        answer = self.ask_frame(frame)
        return answer, time.perf_counter() - started

    def ask_frame(self, frame: bytes) -> bytes:
        """The answer's frame to a whole request, its size first."""
        self._connection.sendall(frame)
        (size,) = struct.unpack(">i", read_exactly(self._connection, 4))
        return read_exactly(self._connection, size)

    def create(self, names: Sequence[str], partitions: int, replication_factor: int = 1) -> float:
        """Seconds until the answer to one CreateTopics."""
        topics = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
            for name in names
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=REQUEST_TIMEOUT_MS)
        answer, seconds = self.ask(CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
        _, position = decode_response_header(answer, CREATE_TOPICS, CREATE_TOPICS_VERSION)
        response = decode(CreateTopicsResponse, CREATE_TOPICS_VERSION, answer, position)
        _check("CreateTopics", len(names), [topic.error_code for topic in response.topics])
        return seconds

    def delete(self, names: Sequence[str]) -> float:
        """Seconds until the answer to one DeleteTopics."""
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=REQUEST_TIMEOUT_MS)
        answer, seconds = self.ask(DELETE_TOPICS, DELETE_TOPICS_VERSION, request)
        _, position = decode_response_header(answer, DELETE_TOPICS, DELETE_TOPICS_VERSION)
        response = decode(DeleteTopicsResponse, DELETE_TOPICS_VERSION, answer, position)
        _check("DeleteTopics", len(names), [topic.error_code for topic in response.responses])
        return seconds

    def produce_each(self, topic: str, partitions: int, timeout_seconds: float = 30) -> None:
        """One record into every partition, as soon as it has a leader that takes it."""
        end = time.perf_counter() + timeout_seconds
        batch = build([Record(0, int(time.time() * 1000), None, b"x", ())])
        for index in range(partitions):
            data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])]
            request = ProduceRequest(acks=1, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=data)
            while True:
                answer, _ = self.ask(PRODUCE, PRODUCE_VERSION, request)
                _, position = decode_response_header(answer, PRODUCE, PRODUCE_VERSION)
                response = decode(ProduceResponse, PRODUCE_VERSION, answer, position)
                code = response.responses[0].partition_responses[0].error_code
                if not code:
                    break
                if time.perf_counter() > end:
                    raise RequestFailed(f"Produce to {topic}-{index} is answered with error {code}")
                time.sleep(0.05)

    def metadata(self) -> tuple[bytes, float]:
        """One full Metadata answer, and how long it took."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return self.ask(METADATA, METADATA_VERSION, request)

    def wait_for_coordinators(self, keys: Sequence[str], key_type: int = 0, timeout_seconds: float = 60) -> None:
        """Until every group (0) or transactional id (1) has a coordinator; the first call makes the internal topic."""
        end = time.perf_counter() + timeout_seconds
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        while True:
            answer, _ = self.ask(FIND_COORDINATOR, FIND_COORDINATOR_VERSION, request)
            _, position = decode_response_header(answer, FIND_COORDINATOR, FIND_COORDINATOR_VERSION)
            response = decode(FindCoordinatorResponse, FIND_COORDINATOR_VERSION, answer, position)
            codes = [one.error_code for one in response.coordinators if one.error_code]
            if not codes:
                return
            if time.perf_counter() > end:
                raise RequestFailed(
                    f"{len(codes)} of {len(keys)} have no coordinator after {timeout_seconds} s: {codes[:3]}"
                )
            time.sleep(0.05)

    def wait_for_leaders(self, partitions: int, timeout_seconds: float = 60) -> float:
        """Seconds until Metadata names a leader for this many partitions."""
        started = time.perf_counter()
        while led_partitions(self.metadata()[0]) < partitions:
            if time.perf_counter() - started > timeout_seconds:
                raise RequestFailed(f"fewer than {partitions} partitions have a leader after {timeout_seconds} s")
            time.sleep(0.01)
        return time.perf_counter() - started


def led_partitions(answer: bytes) -> int:
    """Partitions with a leader in a Metadata answer; internal topics do not count."""
    _, position = decode_response_header(answer, METADATA, METADATA_VERSION)
    response = decode(MetadataResponse, METADATA_VERSION, answer, position)
    topics = [topic for topic in response.topics if not topic.is_internal]
    return sum(partition.leader_id >= 0 for topic in topics for partition in topic.partitions)


def _check(api: str, expected: int, error_codes: list[int]) -> None:
    refused = [code for code in error_codes if code]
    if refused or len(error_codes) != expected:
        raise RequestFailed(f"{api}: {len(error_codes)} of {expected} answered, {len(refused)} refused {refused[:3]}")
