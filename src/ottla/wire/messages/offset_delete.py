"""OffsetDelete (api key 47): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: string = ""
    partitions: array[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Message, api_key=47, versions=(0, 0)):
    group_id: string = ""
    topics: array[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: string = ""
    partitions: array[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Message, api_key=47, versions=(0, 0)):
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: array[OffsetDeleteResponseTopic] = []
