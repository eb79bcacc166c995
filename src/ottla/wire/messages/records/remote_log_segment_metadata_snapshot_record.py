"""RemoteLogSegmentMetadataSnapshotRecord: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int32, int64, since, uuid
from ottla.wire.primitives import ZERO_UUID


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int32 = 0
    offset: int64 = 0


class RemoteLogSegmentMetadataSnapshotRecord(Message, api_key=3, versions=(0, 0), flexible=0):
    segment_id: uuid = ZERO_UUID
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
