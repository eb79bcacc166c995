"""DescribeTopicPartitions (api key 75): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicRequest(Struct):
    name: string = ""


class DescribeTopicPartitionsRequestCursor(Struct):
    topic_name: string = ""
    partition_index: int32 = 0


class DescribeTopicPartitionsRequest(Message, api_key=75, versions=(0, 0), flexible=0):
    topics: array[TopicRequest] = []
    response_partition_limit: int32 = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = -1
    replica_nodes: array[int32] = []
    isr_nodes: array[int32] = []
    eligible_leader_replicas: array[int32] | None = None
    last_known_elr: array[int32] | None = None
    offline_replicas: array[int32] = []


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16 = 0
    name: string | None = ""
    topic_id: uuid = ZERO_UUID
    is_internal: bool = False
    partitions: array[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: int32 = -2147483648


class DescribeTopicPartitionsResponseCursor(Struct):
    topic_name: string = ""
    partition_index: int32 = 0


class DescribeTopicPartitionsResponse(Message, api_key=75, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    topics: array[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None
