"""Fetch (api key 1): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Records, Struct, array, int8, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class ReplicaState(Struct):
    replica_id: int32 = since(15, default=-1)
    replica_epoch: int64 = since(15, default=-1)


class FetchPartition(Struct):
    partition: int32 = 0
    current_leader_epoch: int32 = since(9, default=-1, ignorable=True)
    fetch_offset: int64 = 0
    last_fetched_epoch: int32 = since(12, default=-1)
    log_start_offset: int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: int32 = 0
    replica_directory_id: uuid = since(17, default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: int64 = since(18, default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)


class FetchTopic(Struct):
    topic: string = since(0, 12, default="", ignorable=True)
    topic_id: uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: array[FetchPartition] = []


class ForgottenTopic(Struct):
    topic: string = since(7, 12, default="", ignorable=True)
    topic_id: uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: array[int32] = since(7, default=[])


class FetchRequest(Message, api_key=1, versions=(4, 18), flexible=12):
    cluster_id: string | None = since(12, default=None, tag=0, ignorable=True)
    replica_id: int32 = since(0, 14, default=-1)
    replica_state: ReplicaState | None = since(15, default=None, tag=1)
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 0x7FFFFFFF
    isolation_level: int8 = 0
    session_id: int32 = since(7, default=0, ignorable=True)
    session_epoch: int32 = since(7, default=-1, ignorable=True)
    topics: array[FetchTopic] = []
    forgotten_topics_data: array[ForgottenTopic] = since(7, default=[])
    rack_id: string = since(11, default="", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int32 = since(12, default=-1)
    end_offset: int64 = since(12, default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = since(12, default=-1)
    leader_epoch: int32 = since(12, default=-1)


class SnapshotId(Struct):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Struct):
    producer_id: int64 = 0
    first_offset: int64 = 0


class PartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: int64 = -1
    log_start_offset: int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = since(12, default=None, tag=0)
    current_leader: LeaderIdAndEpoch | None = since(12, default=None, tag=1)
    snapshot_id: SnapshotId | None = since(12, default=None, tag=2)
    aborted_transactions: array[AbortedTransaction] | None = []
    preferred_read_replica: int32 = since(11, default=-1)
    records: Records | None = None


class FetchableTopicResponse(Struct):
    topic: string = since(0, 12, default="", ignorable=True)
    topic_id: uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: array[PartitionData] = []


class NodeEndpoint(Struct):
    node_id: int32 = since(16, default=0)
    host: string = since(16, default="")
    port: int32 = since(16, default=0)
    rack: string | None = since(16, default=None)


class FetchResponse(Message, api_key=1, versions=(4, 18), flexible=12):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(7, default=0, ignorable=True)
    session_id: int32 = since(7, default=0)
    responses: array[FetchableTopicResponse] = []
    node_endpoints: array[NodeEndpoint] = since(16, default=[], tag=0)
