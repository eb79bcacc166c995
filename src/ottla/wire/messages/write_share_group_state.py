"""WriteShareGroupState (api key 85): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class StateBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class PartitionData(Struct):
    partition: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = since(1, default=-1, ignorable=True)
    state_batches: array[StateBatch] = []


class WriteStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionData] = []


class WriteShareGroupStateRequest(Message, api_key=85, versions=(0, 1), flexible=0):
    group_id: string = ""
    topics: array[WriteStateData] = []


class PartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None


class WriteStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionResult] = []


class WriteShareGroupStateResponse(Message, api_key=85, versions=(0, 1), flexible=0):
    results: array[WriteStateResult] = []
