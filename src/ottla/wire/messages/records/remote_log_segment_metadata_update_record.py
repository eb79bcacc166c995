"""RemoteLogSegmentMetadataUpdateRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, Struct, int8, int32, int64, string, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicIdPartitionEntry(Struct):
    name: string = ""
    id: uuid = ZERO_UUID
    partition: int32 = 0


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = TopicIdPartitionEntry()
    id: uuid = ZERO_UUID


class RemoteLogSegmentMetadataUpdateRecord(Message, api_key=1, versions=(0, 0), flexible=0):
    remote_log_segment_id: RemoteLogSegmentIdEntry = RemoteLogSegmentIdEntry()
    broker_id: int32 = 0
    event_timestamp_ms: int64 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0
