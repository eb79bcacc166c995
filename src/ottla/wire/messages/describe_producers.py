"""DescribeProducers (api key 61): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, string


class TopicRequest(Struct):
    name: string = ""
    partition_indexes: array[int32] = []


class DescribeProducersRequest(Message, api_key=61, versions=(0, 0), flexible=0):
    topics: array[TopicRequest] = []


class ProducerState(Struct):
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1


class PartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    active_producers: array[ProducerState] = []


class TopicResponse(Struct):
    name: string = ""
    partitions: array[PartitionResponse] = []


class DescribeProducersResponse(Message, api_key=61, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    topics: array[TopicResponse] = []
