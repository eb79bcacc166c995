"""Topics made, deleted and described by requests written here: the same bytes for both servers, no JVM in the way."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from tests.interop.servers import Server, read_exactly

from ottla.wire import decode
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

METADATA, CREATE_TOPICS, DELETE_TOPICS = 3, 19, 20
METADATA_VERSION, CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 12, 7, 5
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
        self._connection.sendall(frame)
        (size,) = struct.unpack(">i", read_exactly(self._connection, 4))
        answer = read_exactly(self._connection, size)
        return answer, time.perf_counter() - started

    def create(self, names: Sequence[str], partitions: int) -> float:
        """Seconds until the answer to one CreateTopics."""
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
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

    def metadata(self) -> tuple[bytes, float]:
        """One full Metadata answer, and how long it took."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return self.ask(METADATA, METADATA_VERSION, request)

    def wait_for_leaders(self, partitions: int, timeout_seconds: float = 60) -> float:
        """Seconds until Metadata names a leader for this many partitions."""
        started = time.perf_counter()
        while led_partitions(self.metadata()[0]) < partitions:
            if time.perf_counter() - started > timeout_seconds:
                raise RequestFailed(f"fewer than {partitions} partitions have a leader after {timeout_seconds} s")
            time.sleep(0.01)
        return time.perf_counter() - started


def led_partitions(answer: bytes) -> int:
    """Partitions with a leader in a Metadata answer."""
    _, position = decode_response_header(answer, METADATA, METADATA_VERSION)
    response = decode(MetadataResponse, METADATA_VERSION, answer, position)
    return sum(partition.leader_id >= 0 for topic in response.topics for partition in topic.partitions)


def _check(api: str, expected: int, error_codes: list[int]) -> None:
    refused = [code for code in error_codes if code]
    if refused or len(error_codes) != expected:
        raise RequestFailed(f"{api}: {len(error_codes)} of {expected} answered, {len(refused)} refused {refused[:3]}")
