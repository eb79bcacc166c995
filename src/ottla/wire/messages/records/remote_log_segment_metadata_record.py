"""RemoteLogSegmentMetadataRecord: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicIdPartitionEntry(Struct):
    name: string = ""
    id: uuid = ZERO_UUID
    partition: int32 = 0


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = TopicIdPartitionEntry()
    id: uuid = ZERO_UUID


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int32 = 0
    offset: int64 = 0


class RemoteLogSegmentMetadataRecord(Message, api_key=0, versions=(0, 0), flexible=0):
    remote_log_segment_id: RemoteLogSegmentIdEntry = RemoteLogSegmentIdEntry()
    start_offset: int64 = 0
    end_offset: int64 = 0
    broker_id: int32 = 0
    max_timestamp_ms: int64 = 0
    event_timestamp_ms: int64 = 0
    segment_leader_epochs: array[SegmentLeaderEpochEntry] = []
    segment_size_in_bytes: int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0
    txn_index_empty: bool = since(0, default=False, tag=0)
