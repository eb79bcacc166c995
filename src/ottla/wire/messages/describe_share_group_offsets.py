"""DescribeShareGroupOffsets (api key 90): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: string = ""
    partitions: array[int32] = []


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: string = ""
    topics: array[DescribeShareGroupOffsetsRequestTopic] | None = []


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions=(0, 1), flexible=0):
    groups: array[DescribeShareGroupOffsetsRequestGroup] = []


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32 = 0
    start_offset: int64 = 0
    leader_epoch: int32 = 0
    lag: int64 = since(1, default=-1, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    partitions: array[DescribeShareGroupOffsetsResponsePartition] = []


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: string = ""
    topics: array[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: int16 = 0
    error_message: string | None = None


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    groups: array[DescribeShareGroupOffsetsResponseGroup] = []
