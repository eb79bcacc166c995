"""ReadShareGroupState (api key 84): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, string, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionData(Struct):
    partition: int32 = 0
    leader_epoch: int32 = 0


class ReadStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionData] = []


class ReadShareGroupStateRequest(Message, api_key=84, versions=(0, 0), flexible=0):
    group_id: string = ""
    topics: array[ReadStateData] = []


class StateBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class PartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32 = 0
    start_offset: int64 = 0
    state_batches: array[StateBatch] = []


class ReadStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionResult] = []


class ReadShareGroupStateResponse(Message, api_key=84, versions=(0, 0), flexible=0):
    results: array[ReadStateResult] = []
