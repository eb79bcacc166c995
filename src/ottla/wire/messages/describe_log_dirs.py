"""DescribeLogDirs (api key 35): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string


class DescribableLogDirTopic(Struct):
    topic: string = ""
    partitions: array[int32] = []


class DescribeLogDirsRequest(Message, api_key=35, versions=(1, 5), flexible=2):
    topics: array[DescribableLogDirTopic] | None = []


class DescribeLogDirsPartition(Struct):
    partition_index: int32 = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct):
    name: string = ""
    partitions: array[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Struct):
    error_code: int16 = 0
    log_dir: string = ""
    topics: array[DescribeLogDirsTopic] = []
    total_bytes: int64 = since(4, default=-1, ignorable=True)
    usable_bytes: int64 = since(4, default=-1, ignorable=True)
    is_cordoned: bool = since(5, default=False, ignorable=True)


class DescribeLogDirsResponse(Message, api_key=35, versions=(1, 5), flexible=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(3, default=0, ignorable=True)
    results: array[DescribeLogDirsResult] = []
