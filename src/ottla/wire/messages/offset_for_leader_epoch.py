"""OffsetForLeaderEpoch (api key 23): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string


class OffsetForLeaderPartition(Struct):
    partition: int32 = 0
    current_leader_epoch: int32 = -1
    leader_epoch: int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: string = ""
    partitions: array[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Message, api_key=23, versions=(2, 4), flexible=4):
    replica_id: int32 = since(3, default=-2, ignorable=True)
    topics: array[OffsetForLeaderTopic] = []


class EpochEndOffset(Struct):
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: int32 = -1
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: string = ""
    partitions: array[EpochEndOffset] = []


class OffsetForLeaderEpochResponse(Message, api_key=23, versions=(2, 4), flexible=4):
    throttle_time_ms: int32 = 0
    topics: array[OffsetForLeaderTopicResult] = []
