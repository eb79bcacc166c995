"""ListOffsets v1-v11: offsets by timestamp and by Kafka's special timestamps. Nothing is tiered here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.caller import Caller
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.storage import TimestampOffset
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.sentinels import (
    CONSUMER_REPLICA_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition

READ_COMMITTED = 1
UNKNOWN = -1
FIRST_VERSION_WITH_LEADER_EPOCH = 4
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
FIRST_VERSION = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


def list_offsets(request: ListOffsetsRequest, replicas: Replicas, caller: Caller) -> ListOffsetsResponse:
    named_twice = _named_twice(request)
    topics = []
    for topic in request.topics:
        is_visible = caller.may_describe_topic(topic.name)
        rows = []
        for asked in topic.partitions:
            try:
                if not is_visible:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if (topic.name, asked.partition_index) in named_twice:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
                partition = replicas.partition(topic.name, asked.partition_index)
                partition.check_leader_epoch(asked.current_leader_epoch)
                if request.replica_id == CONSUMER_REPLICA_ID:
                    end_offset = _readable_end(partition, request.isolation_level, asked.timestamp, caller.api_version)
                else:
                    end_offset = partition.log.log_end_offset
                rows.append(_find(asked, partition, end_offset, caller.api_version))
            except KafkaError as error:
                rows.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=error.code, timestamp=UNKNOWN, offset=UNKNOWN
                    )
                )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    return ListOffsetsResponse(topics=topics)


def _readable_end(partition: Partition, isolation_level: int, timestamp: int, version: int) -> int:
    """The end of a partition for a consumer. A new leader does not know it until its log end at the election is
    committed (KIP-207).
    """
    log, leader = partition.log, partition.leader
    if (
        leader is not None
        and log.high_watermark < leader.start_offset
        and timestamp not in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)
    ):
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE
            if version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
            else ErrorCode.LEADER_NOT_AVAILABLE
        )
    return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark


def _find(
    asked: ListOffsetsPartition, partition: Partition, end_offset: int, version: int
) -> ListOffsetsPartitionResponse:
    log = partition.log
    timestamp = asked.timestamp
    if version < FIRST_VERSION.get(timestamp, 0) or timestamp < EARLIEST_PENDING_UPLOAD_TIMESTAMP:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    found: TimestampOffset | None = None
    if timestamp == LATEST_TIMESTAMP:
        found = TimestampOffset(UNKNOWN, end_offset, partition.leader_epoch)
    elif timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        found = log.earliest
    elif timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    elif timestamp >= 0:
        found = log.offset_for_timestamp(timestamp)
    if found is not None and found.offset >= end_offset and (timestamp >= 0 or timestamp == MAX_TIMESTAMP):
        found = None  # it exists, but this client may not read it yet
    if found is None:
        found = TimestampOffset(UNKNOWN, UNKNOWN, UNKNOWN)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= FIRST_VERSION_WITH_LEADER_EPOCH else UNKNOWN,
    )


def _named_twice(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (twice if key in seen else seen).add(key)
    return twice


api = Api(key=2, handler=list_offsets, needs=(Need(AclOperation.DESCRIBE, AclResource.TOPIC),))
