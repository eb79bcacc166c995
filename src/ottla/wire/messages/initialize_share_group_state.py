"""InitializeShareGroupState (api key 83): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, string, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionData(Struct):
    partition: int32 = 0
    state_epoch: int32 = 0
    start_offset: int64 = 0


class InitializeStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionData] = []


class InitializeShareGroupStateRequest(Message, api_key=83, versions=(0, 0), flexible=0):
    group_id: string = ""
    topics: array[InitializeStateData] = []


class PartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None


class InitializeStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionResult] = []


class InitializeShareGroupStateResponse(Message, api_key=83, versions=(0, 0), flexible=0):
    results: array[InitializeStateResult] = []
