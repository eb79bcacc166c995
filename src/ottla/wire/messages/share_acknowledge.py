"""ShareAcknowledge (api key 79): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class AcknowledgementBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: array[int8] = []


class AcknowledgePartition(Struct):
    partition_index: int32 = 0
    acknowledgement_batches: array[AcknowledgementBatch] = []


class AcknowledgeTopic(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[AcknowledgePartition] = []


class ShareAcknowledgeRequest(Message, api_key=79, versions=(1, 2), flexible=0):
    group_id: string | None = None
    member_id: string | None = ""
    share_session_epoch: int32 = 0
    is_renew_ack: bool = since(2, default=False)
    topics: array[AcknowledgeTopic] = []


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class PartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionData] = []


class NodeEndpoint(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None


class ShareAcknowledgeResponse(Message, api_key=79, versions=(1, 2), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = since(2, default=0, ignorable=True)
    responses: array[ShareAcknowledgeTopicResponse] = []
    node_endpoints: array[NodeEndpoint] = []
