"""ListOffsets (api key 2): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, string


class ListOffsetsPartition(Struct):
    partition_index: int32 = 0
    current_leader_epoch: int32 = since(4, default=-1, ignorable=True)
    timestamp: int64 = 0


class ListOffsetsTopic(Struct):
    name: string = ""
    partitions: array[ListOffsetsPartition] = []


class ListOffsetsRequest(Message, api_key=2, versions=(1, 11), flexible=6):
    replica_id: int32 = 0
    isolation_level: int8 = since(2, default=0)
    topics: array[ListOffsetsTopic] = []
    timeout_ms: int32 = since(10, default=0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = since(4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: string = ""
    partitions: array[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Message, api_key=2, versions=(1, 11), flexible=6):
    throttle_time_ms: int32 = since(2, default=0, ignorable=True)
    topics: array[ListOffsetsTopicResponse] = []
