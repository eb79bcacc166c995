"""DeleteShareGroupState (api key 86): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionData(Struct):
    partition: int32 = 0


class DeleteStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionData] = []


class DeleteShareGroupStateRequest(Message, api_key=86, versions=(0, 0), flexible=0):
    group_id: string = ""
    topics: array[DeleteStateData] = []


class PartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None


class DeleteStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionResult] = []


class DeleteShareGroupStateResponse(Message, api_key=86, versions=(0, 0), flexible=0):
    results: array[DeleteStateResult] = []
