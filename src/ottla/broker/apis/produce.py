"""Produce v3-v13: acks 0, 1 and all; idempotent and transactional producers."""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.coordinators.verification import Verdicts, is_verified, overtaken, produce_transactional
from ottla.broker.replicas.acknowledgements import Acknowledgements
from ottla.broker.serving.api import Api, Caller
from ottla.records import HEADER_SIZE, Compression
from ottla.records.batch import LOG_OVERHEAD, MAGIC
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.replicas.partitions import Partition

FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_ZSTD = 7
CODEC_MASK = 0x07
ALL = -1
ADMIN_CLIENT_ID = "__admin_client"
LENGTH_POSITION = 8
MAGIC_POSITION = 16
ATTRIBUTES_POSITION = 22
LEAST_LENGTH = 14
"""Of a message of magic 0 without key and value; no batch is shorter."""
TRANSACTIONAL = 0x10
WITHOUT_START_OFFSET = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""As in Kafka, these refusals do not carry the log's start offset."""

_LENGTH = Struct(">i")
_MAGIC_BYTE = Struct(">b")


def produce(
    request: ProduceRequest, node: Node, caller: Caller
) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
    if request.acks not in (1, -1, 0):
        return refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        return produce_transactional(request, node, caller)
    return append_all(request, node, caller)


def append_all(
    request: ProduceRequest, node: Node, caller: Caller, verdicts: Verdicts | None = None
) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
    """Append what a request holds. `verdicts` is what the coordinator said of a transactional request; None if the
    request is not transactional."""
    acks = request.acks
    timestamp, now = node.clock(), node.now()
    uses_topic_ids = caller.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    partitions = node.partitions
    topics: list[TopicProduceResponse] = []
    unflushed: list[Partition] = []
    uncommitted: list[tuple[Partition, int, PartitionProduceResponse]] = []
    misdirected: list[tuple[Partition, PartitionProduceResponse]] = []
    produced_bytes = 0
    failed = False
    for topic in request.topic_data:
        if uses_topic_ids:
            of_topic = partitions.by_id.get(topic.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            of_topic = partitions.by_name.get(topic.name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows: list[PartitionProduceResponse] = []
        messages_in = bytes_in = 0
        name = topic.name
        for data in topic.partition_data:
            partition = of_topic.get(data.index) if of_topic is not None else None
            try:
                if partition is None:
                    partition = node.hosting.find(topic.topic_id if uses_topic_ids else topic.name, data.index)
                    if partition is None:
                        raise KafkaError(unknown if of_topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if partition.is_internal and caller.client_id != ADMIN_CLIENT_ID:
                    raise KafkaError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is internal: clients cannot write to it"
                    )
                if caller.api_version < FIRST_VERSION_WITH_ZSTD and _is_zstd(data.records):
                    raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                if not partition.is_alone:
                    partition.check_leader()
                    if acks == ALL:
                        partition.check_in_sync()
            except KafkaError as error:
                row = _refused(data.index, error)
                if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None:
                    misdirected.append((partition, row))
                rows.append(row)
                failed = True
                continue
            name = partition.topic
            row, messages = append_to(partition, data.records, timestamp, now, node, verdicts)
            rows.append(row)
            if row.error_code:
                failed = True
                continue
            if partition.log.high_watermark < row.base_offset + messages:
                if partition.is_alone or partition.log.is_flush_due:
                    unflushed.append(partition)
                if acks == ALL and not partition.is_alone:
                    uncommitted.append((partition, row.base_offset + messages, row))
            messages_in += messages
            bytes_in += len(data.records or b"")
        if bytes_in:
            meter = node.metrics.topic(name)
            meter.produces += 1
            meter.messages_in += messages_in
            meter.bytes_in += bytes_in
            produced_bytes += bytes_in
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows))
    response = ProduceResponse(responses=topics)
    if misdirected and caller.api_version >= FIRST_VERSION_WITH_LEADERS:
        _name_leaders(response, misdirected, node, caller)
    if node.quotas.is_produce_quota_set and produced_bytes:
        response.throttle_time_ms = caller.throttle_ms = node.quotas.record_produced(caller, produced_bytes, now)
    if acks == 0:
        if failed:
            # There is no answer to carry the error: as in Kafka, the closed connection tells the producer.
            caller.is_refused = True
        for partition in unflushed:
            node.spawn(partition.flush())
        return None
    flushed = node.spawn(_answer_when_flushed(response, unflushed, node)) if unflushed else None
    if uncommitted:
        future: asyncio.Future[ProduceResponse] = node.loop.create_future()
        Acknowledgements(future, node.deadlines, response, uncommitted, request.timeout_ms, flushed)
        return future
    return flushed if flushed is not None else response


def _is_zstd(records: memoryview | None) -> bool:
    """Whether the first batch is whole and says that zstd compressed it."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[MAGIC_POSITION] == MAGIC
        and LOG_OVERHEAD + _LENGTH.unpack_from(records, LENGTH_POSITION)[0] <= len(records)
        and records[ATTRIBUTES_POSITION] & CODEC_MASK == Compression.ZSTD
    )


def check_framing(records: memoryview | None) -> memoryview:
    """The records, if they are one whole batch of magic 2; anything else does not reach the log. As in Kafka, lengths
    and magic bytes that no message can have are CORRUPT_MESSAGE, which producers send again; the rest is
    INVALID_RECORD, which they give up."""
    if records is None or len(records) == 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request holds no record batch for this partition")
    size = batch_size(records, 0)
    if size < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the record batch is cut off: the request holds {len(records)} bytes of it"
        )
    magic = records[MAGIC_POSITION]
    if magic != MAGIC:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"record batches of magic {magic} are not accepted: magic 2 came with Kafka 0.11"
        )
    if batch_size(records, size) >= 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request holds one record batch per partition, not more")
    return records


def batch_size(records: memoryview, position: int) -> int:
    """The bytes of the batch at a position; -1 if it is not there as a whole. KafkaError CORRUPT_MESSAGE if its length
    or magic byte is one that no message of any version has."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return -1
    (length,) = _LENGTH.unpack_from(records, position + LENGTH_POSITION)
    if length < LEAST_LENGTH:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than the minimum record overhead ({LEAST_LENGTH})"
        )
    if left <= MAGIC_POSITION:
        return -1
    (magic,) = _MAGIC_BYTE.unpack_from(records, position + MAGIC_POSITION)
    if not 0 <= magic <= MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size: int = LOG_OVERHEAD + length
    return size if size <= left else -1


def append_to(
    partition: Partition,
    records: memoryview | None,
    timestamp: int,
    now: int,
    node: Node,
    verdicts: Verdicts | None = None,
) -> tuple[PartitionProduceResponse, int]:
    """Append what a request holds for one partition; what is answered, and how many records the log grew by."""
    try:
        records = check_framing(records)
        may_open = True
        if len(records) > ATTRIBUTES_POSITION and records[ATTRIBUTES_POSITION] & TRANSACTIONAL:
            if verdicts is None:
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without a transactional id"
                )
            may_open = is_verified(partition, verdicts)
    except KafkaError as error:
        node.metrics.topic(partition.topic).failed_produces += 1
        return _refused(partition.index, error), 0
    try:
        appended = partition.append(records, timestamp, now, may_open)
    except KafkaError as error:
        return refused(partition, overtaken(error, verdicts), node), 0
    row = PartitionProduceResponse(
        index=partition.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start_offset,
    )
    return row, appended.last_offset - appended.base_offset + 1


def refused(partition: Partition, error: KafkaError, node: Node) -> PartitionProduceResponse:
    """The answer for a partition whose log did not take what was sent to it."""
    node.metrics.topic(partition.topic).failed_produces += 1
    row = _refused(partition.index, error)
    if error.code not in WITHOUT_START_OFFSET:
        row.log_start_offset = partition.log.log_start_offset
    return row


async def _answer_when_flushed(response: ProduceResponse, partitions: list[Partition], node: Node) -> ProduceResponse:
    # Shielded: a producer that leaves meanwhile must not keep what it wrote from its readers.
    flushes = [asyncio.shield(node.spawn(partition.flush())) for partition in partitions]
    outcomes = await asyncio.gather(*flushes, return_exceptions=True)
    for partition, outcome in zip(partitions, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, OSError | KafkaError):
                raise outcome
            _fail(response, partition)
    return response


def _name_leaders(
    response: ProduceResponse, misdirected: list[tuple[Partition, PartitionProduceResponse]], node: Node, caller: Caller
) -> None:
    """KIP-951: a client at the wrong place is told the right one."""
    leaders: dict[int, None] = {}
    for partition, row in misdirected:
        row.current_leader = LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)
        leaders[partition.leader_id] = None
    response.node_endpoints = [
        NodeEndpoint(node_id=id, host=host, port=port, rack=rack)
        for id, host, port, rack in node.brokers(caller.peer.listener)
        if id in leaders
    ]


def _fail(response: ProduceResponse, partition: Partition) -> None:
    for topic in response.responses:
        if partition.topic_id == topic.topic_id or partition.topic == topic.name:
            for row in topic.partition_responses:
                if row.index == partition.index:
                    row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    row.base_offset = -1


def _refused(index: int, error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
            for batch_index, message in getattr(error, "record_errors", ())
        ],
    )


def refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


api = Api(key=0, handler=produce)
