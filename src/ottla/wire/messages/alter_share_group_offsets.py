"""AlterShareGroupOffsets (api key 91): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, string, uuid
from ottla.wire.primitives import ZERO_UUID


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int32 = 0
    start_offset: int64 = 0


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: string = ""
    partitions: array[AlterShareGroupOffsetsRequestPartition] = []


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions=(0, 0), flexible=0):
    group_id: string = ""
    topics: array[AlterShareGroupOffsetsRequestTopic] = []


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    partitions: array[AlterShareGroupOffsetsResponsePartition] = []


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: array[AlterShareGroupOffsetsResponseTopic] = []
