"""ReadShareGroupStateSummary (api key 87): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionData(Struct):
    partition: int32 = 0
    leader_epoch: int32 = 0


class ReadStateSummaryData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionData] = []


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions=(0, 1), flexible=0):
    group_id: string = ""
    topics: array[ReadStateSummaryData] = []


class PartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = since(1, default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionResult] = []


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions=(0, 1), flexible=0):
    results: array[ReadStateSummaryResult] = []
