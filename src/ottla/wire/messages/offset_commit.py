"""OffsetCommit (api key 8): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class OffsetCommitRequestPartition(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = since(6, default=-1, ignorable=True)
    committed_metadata: string | None = ""


class OffsetCommitRequestTopic(Struct):
    name: string = since(0, 9, default="", ignorable=True)
    topic_id: uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: array[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Message, api_key=8, versions=(2, 10), flexible=8):
    group_id: string = ""
    generation_id_or_member_epoch: int32 = -1
    member_id: string = ""
    group_instance_id: string | None = since(7, default=None)
    retention_time_ms: int64 = since(2, 4, default=-1, ignorable=True)
    topics: array[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: string = since(0, 9, default="", ignorable=True)
    topic_id: uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: array[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Message, api_key=8, versions=(2, 10), flexible=8):
    throttle_time_ms: int32 = since(3, default=0, ignorable=True)
    topics: array[OffsetCommitResponseTopic] = []
