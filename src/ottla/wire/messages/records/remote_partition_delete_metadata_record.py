"""RemotePartitionDeleteMetadataRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, Struct, int8, int32, int64, string, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicIdPartitionEntry(Struct):
    name: string = ""
    id: uuid = ZERO_UUID
    partition: int32 = 0


class RemotePartitionDeleteMetadataRecord(Message, api_key=2, versions=(0, 0), flexible=0):
    topic_id_partition: TopicIdPartitionEntry = TopicIdPartitionEntry()
    broker_id: int32 = 0
    event_timestamp_ms: int64 = 0
    remote_partition_delete_state: int8 = 0
