"""DeleteRecords (api key 21): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int32 = 0
    offset: int64 = 0


class DeleteRecordsTopic(Struct):
    name: string = ""
    partitions: array[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Message, api_key=21, versions=(0, 2), flexible=2):
    topics: array[DeleteRecordsTopic] = []
    timeout_ms: int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32 = 0
    low_watermark: int64 = 0
    error_code: int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: string = ""
    partitions: array[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Message, api_key=21, versions=(0, 2), flexible=2):
    throttle_time_ms: int32 = 0
    topics: array[DeleteRecordsTopicResult] = []
