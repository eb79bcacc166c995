"""ShareFetch (api key 78): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Records, Struct, array, int8, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class AcknowledgementBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: array[int8] = []


class FetchPartition(Struct):
    partition_index: int32 = 0
    partition_max_bytes: int32 = since(0, 0, default=0)
    acknowledgement_batches: array[AcknowledgementBatch] = []


class FetchTopic(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[FetchPartition] = []


class ForgottenTopic(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[int32] = []


class ShareFetchRequest(Message, api_key=78, versions=(1, 2), flexible=0):
    group_id: string | None = None
    member_id: string | None = ""
    share_session_epoch: int32 = 0
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 0x7FFFFFFF
    max_records: int32 = 0
    batch_size: int32 = 0
    share_acquire_mode: int8 = since(2, default=0, ignorable=True)
    is_renew_ack: bool = since(2, default=False)
    topics: array[FetchTopic] = []
    forgotten_topics_data: array[ForgottenTopic] = []


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class AcquiredRecords(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_count: int16 = 0


class PartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: string | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Records | None = since(0, default=None, nullable=(0, 0))
    acquired_records: array[AcquiredRecords] = []


class ShareFetchableTopicResponse(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[PartitionData] = []


class NodeEndpoint(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None


class ShareFetchResponse(Message, api_key=78, versions=(1, 2), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = 0
    responses: array[ShareFetchableTopicResponse] = []
    node_endpoints: array[NodeEndpoint] = []
