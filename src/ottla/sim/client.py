"""A small Kafka client for simulated hosts: requests and answers over simulated sockets, nothing clever.

It is deliberately not Ottla's own client: it retries nothing by itself, so that workloads see every refusal, every
broken connection and every silence, and decide what that means for what they promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

from ottla import records
from ottla.net import Channel, ReceiveBuffers
from ottla.sim.loop import Loop
from ottla.sim.network import Network, Socket
from ottla.wire import decode, frames
from ottla.wire.apis import APIS, response_class
from ottla.wire.config_resources import ResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.greeting import Versions
from ottla.wire.message import Message
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

Answer = TypeVar("Answer", bound=Message)

REQUEST_TIMEOUT_S = 10.0
RECEIVE_BYTES = 16 * 1024
MAX_FRAME_BYTES = 2**31 - 1
PRODUCE_VERSION = 12
"""The last version with topic names; later ones have topic ids."""
FETCH_VERSION = 12
NEWEST = Versions({api.key: (api.min_version, api.max_version) for api in APIS.values()})
"""Simulated brokers support every version of this client, so it does not ask for their versions."""
API_KEYS = {f"{api.name}Request": api.key for api in APIS.values()}


class NoAnswer(Exception):
    """The connection broke or the answer did not come in time: whether the request took effect is unknown."""


class Fetched(NamedTuple):
    records: list[records.Record]
    next_offset: int
    high_watermark: int
    log_start_offset: int


class Connection:
    """Requests in flight on one channel; each answer goes to the request with its correlation id."""

    def __init__(self, loop: Loop, sock: Socket) -> None:
        self._loop = loop
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        buffers = ReceiveBuffers(RECEIVE_BYTES)
        self._channel = Channel(loop, sock, buffers, max_frame_bytes=MAX_FRAME_BYTES, supports_sendfile=False)
        self._channel.start(self)

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    def send(self, correlation_id: int, frame: list[Any], expects_answer: bool) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = self._loop.create_future()
        if expects_answer:
            self._waiting[correlation_id] = answer
        else:
            answer.set_result(b"")
        self._channel.send([b"".join(frame)])
        return answer

    def close(self) -> None:
        self._channel.close()

    def frame_received(self, frame: memoryview) -> None:
        answer = self._waiting.pop(int.from_bytes(frame[:4], "big"))
        if not answer.done():
            answer.set_result(bytes(frame))

    def channel_closed(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        for answer in waiting:
            if not answer.done():
                answer.set_exception(NoAnswer("the connection closed"))


class Client:
    """One program that talks to one broker."""

    def __init__(self, network: Network, host: str, broker: tuple[str, int]) -> None:
        self._loop = network.loop
        self._sockets = network.host(host)
        self._broker = broker
        self._connection: Connection | None = None
        self._correlation_ids = count(1)
        self.host = host
        self.asked_id = 1
        """The broker that the last request went to."""

    @property
    def broker(self) -> str:
        return self._broker[0]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def request(
        self,
        message: Message,
        answer: type[Answer],
        *,
        version: int | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        expects_answer: bool = True,
    ) -> Answer:
        """Send one request and wait for its answer; NoAnswer when that fails."""
        key = API_KEYS[type(message).__name__]
        if version is None:
            version = NEWEST.choose(key)
            assert version is not None
        if self._connection is None or self._connection.is_closed:
            self._connection = Connection(self._loop, self._sockets.connect(*self._broker))
        correlation_id = next(self._correlation_ids)
        frame = frames.encode_request(key, version, correlation_id, self.host, message)
        future = self._connection.send(correlation_id, frame, expects_answer)
        try:
            async with asyncio.timeout(timeout_s):
                data = await future
        except TimeoutError:
            self._connection.close()
            raise NoAnswer(f"no answer within {timeout_s} s") from None
        if not expects_answer:
            return answer()
        assert response_class(key) is answer
        _, position = frames.decode_response_header(data, key, version)
        return decode(answer, version, memoryview(data), position)

    # What workloads do

    async def metadata(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> MetadataResponse:
        return await self.request(MetadataRequest(topics=None), MetadataResponse, timeout_s=timeout_s)

    async def create_topic(
        self, name: str, partitions: int = 1, configs: dict[str, str] | None = None, *, replicas: int = 1
    ) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        response = await self.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CreateTopicsResponse)
        _check(response.topics[0].error_code, response.topics[0].error_message)

    async def create_partitions(self, name: str, partition_count: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=partition_count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
        response = await self.request(request, CreatePartitionsResponse)
        _check(response.results[0].error_code, response.results[0].error_message)

    async def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[], timeout_ms=10_000)
        response = await self.request(request, DeleteTopicsResponse)
        _check(response.responses[0].error_code, response.responses[0].error_message)

    async def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        change = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await self.request(request, IncrementalAlterConfigsResponse)
        _check(response.responses[0].error_code, response.responses[0].error_message)

    async def topic_config(self, topic: str, name: str) -> str | None:
        resource = DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=[name]
        )
        response = await self.request(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
        _check(response.results[0].error_code, response.results[0].error_message)
        return next((config.value for config in response.results[0].configs if config.name == name), None)

    async def init_producer_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await self.request(request, InitProducerIdResponse)
        _check(response.error_code)
        return response.producer_id, response.producer_epoch

    async def produce(self, topic: str, partition: int, batch: bytes | bytearray, *, acks: int = -1) -> int:
        """The base offset (of the first copy, if this was a duplicate); -1 with acks=0."""
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
        response = await self.request(request, ProduceResponse, version=PRODUCE_VERSION, expects_answer=acks != 0)
        if acks == 0:
            return -1
        outcome = response.responses[0].partition_responses[0]
        _check(outcome.error_code, outcome.error_message)
        return outcome.base_offset

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_wait_ms: int = 0,
        size: int = 100_000,
        leader_epoch: int = -1,
    ) -> Fetched:
        row = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=size, current_leader_epoch=leader_epoch
        )
        data = FetchTopic(topic=topic, partitions=[row])
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=size, topics=[data])
        response = await self.request(request, FetchResponse, version=FETCH_VERSION)
        _check(response.error_code)
        outcome = response.responses[0].partitions[0]
        _check(outcome.error_code)
        found, next_offset = whole_batches(b"" if outcome.records is None else bytes(outcome.records), offset)
        return Fetched(found, next_offset, outcome.high_watermark, outcome.log_start_offset)

    async def list_offset(self, topic: str, partition: int, timestamp: int, *, leader_epoch: int = -1) -> int:
        row = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch)
        data = ListOffsetsTopic(name=topic, partitions=[row])
        response = await self.request(ListOffsetsRequest(replica_id=-1, topics=[data]), ListOffsetsResponse, version=7)
        outcome = response.topics[0].partitions[0]
        _check(outcome.error_code)
        return outcome.offset

    async def delete_records(self, topic: str, partition: int, offset: int) -> int:
        data = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
        )
        response = await self.request(DeleteRecordsRequest(topics=[data], timeout_ms=10_000), DeleteRecordsResponse)
        outcome = response.topics[0].partitions[0]
        _check(outcome.error_code)
        return outcome.low_watermark

    async def read_all(self, topic: str, partition: int = 0) -> list[records.Record]:
        """Every record from the log start to the high watermark."""
        offset = await self.list_offset(topic, partition, EARLIEST_TIMESTAMP)
        end = await self.list_offset(topic, partition, LATEST_TIMESTAMP)
        found: list[records.Record] = []
        while offset < end:
            fetched = await self.fetch(topic, partition, offset)
            if fetched.next_offset == offset:
                if fetched.high_watermark <= offset:
                    break
                raise AssertionError(f"{topic}-{partition}: no batch at {offset}, though it ends at {end}")
            found += fetched.records
            offset = fetched.next_offset
        return found


def _split(data: bytes) -> list[tuple[int, records.BatchHeader]]:
    try:
        return records.split(data)
    except records.CorruptRecords as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a consumer was served what is no batch: {error}") from None


def whole_batches(data: bytes, offset: int) -> tuple[list[records.Record], int]:
    """The records from offset on in the whole batches of a fetch answer, and the offset to fetch next."""
    found: list[records.Record] = []
    for position, header in _split(data):
        batch = data[position : position + header.size]
        if not records.crc_ok(batch, 0, header.size):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a consumer was served a broken batch at {header.base_offset}")
        if not header.is_control:
            found += [record for record in records.read(batch) if record.offset >= offset]
        offset = max(offset, header.next_offset)
    return found, offset


def batch_of(
    values: Sequence[bytes | None],
    timestamp: int,
    *,
    keys: Sequence[bytes | None] | None = None,
    compression: records.Compression = records.Compression.NONE,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
) -> bytearray:
    rows = [
        records.Record(
            offset=index, timestamp=timestamp, key=None if keys is None else keys[index], value=value, headers=()
        )
        for index, value in enumerate(values)
    ]
    return records.build(
        rows, compression=compression, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
    )


def _check(code: int, message: str | None = None) -> None:
    if code:
        raise KafkaError(ErrorCode(code), message)
