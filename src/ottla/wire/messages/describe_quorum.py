"""DescribeQuorum (api key 55): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int32 = 0


class DescribeQuorumRequestTopicData(Struct):
    topic_name: string = ""
    partitions: array[DescribeQuorumRequestPartitionData] = []


class DescribeQuorumRequest(Message, api_key=55, versions=(0, 2), flexible=0):
    topics: array[DescribeQuorumRequestTopicData] = []


class ReplicaState(Struct):
    replica_id: int32 = 0
    replica_directory_id: uuid = since(2, default=ZERO_UUID)
    log_end_offset: int64 = 0
    last_fetch_timestamp: int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = since(1, default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = since(2, default="", ignorable=True)
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: array[ReplicaState] = []
    observers: array[ReplicaState] = []


class DescribeQuorumResponseTopicData(Struct):
    topic_name: string = ""
    partitions: array[DescribeQuorumResponsePartitionData] = []


class Listener(Struct):
    name: string = since(2, default="")
    host: string = since(2, default="")
    port: uint16 = since(2, default=0)


class Node(Struct):
    node_id: int32 = since(2, default=0)
    listeners: array[Listener] = since(2, default=[])


class DescribeQuorumResponse(Message, api_key=55, versions=(0, 2), flexible=0):
    error_code: int16 = 0
    error_message: string | None = since(2, default="", ignorable=True)
    topics: array[DescribeQuorumResponseTopicData] = []
    nodes: array[Node] = since(2, default=[])
