"""Produce (api key 0): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Records, Struct, array, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionProduceData(Struct):
    index: int32 = 0
    records: Records | None = None


class TopicProduceData(Struct):
    name: string = since(0, 12, default="", ignorable=True)
    topic_id: uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: array[PartitionProduceData] = []


class ProduceRequest(Message, api_key=0, versions=(3, 13), flexible=9):
    transactional_id: string | None = None
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: array[TopicProduceData] = []


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32 = since(8, default=0)
    batch_index_error_message: string | None = since(8, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = since(10, default=-1)
    leader_epoch: int32 = since(10, default=-1)


class PartitionProduceResponse(Struct):
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    log_append_time_ms: int64 = -1
    log_start_offset: int64 = since(5, default=-1, ignorable=True)
    record_errors: array[BatchIndexAndErrorMessage] = since(8, default=[], ignorable=True)
    error_message: string | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = since(10, default=None, tag=0)


class TopicProduceResponse(Struct):
    name: string = since(0, 12, default="", ignorable=True)
    topic_id: uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_responses: array[PartitionProduceResponse] = []


class NodeEndpoint(Struct):
    node_id: int32 = since(10, default=0)
    host: string = since(10, default="")
    port: int32 = since(10, default=0)
    rack: string | None = since(10, default=None)


class ProduceResponse(Message, api_key=0, versions=(3, 13), flexible=9):
    responses: array[TopicProduceResponse] = []
    throttle_time_ms: int32 = 0
    node_endpoints: array[NodeEndpoint] = since(10, default=[], tag=0)
