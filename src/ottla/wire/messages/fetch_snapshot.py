"""FetchSnapshot (api key 59): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Records, Struct, array, int16, int32, int64, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class FetchSnapshotRequestSnapshotId(Struct):
    end_offset: int64 = 0
    epoch: int32 = 0


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: int32 = 0
    current_leader_epoch: int32 = 0
    snapshot_id: FetchSnapshotRequestSnapshotId = FetchSnapshotRequestSnapshotId()
    position: int64 = 0
    replica_directory_id: uuid = since(1, default=ZERO_UUID, tag=0, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: string = ""
    partitions: array[FetchSnapshotRequestPartitionSnapshot] = []


class FetchSnapshotRequest(Message, api_key=59, versions=(0, 1), flexible=0):
    cluster_id: string | None = since(0, default=None, tag=0)
    replica_id: int32 = -1
    max_bytes: int32 = 0x7FFFFFFF
    topics: array[FetchSnapshotRequestTopicSnapshot] = []


class FetchSnapshotResponseSnapshotId(Struct):
    end_offset: int64 = 0
    epoch: int32 = 0


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int32 = 0
    error_code: int16 = 0
    snapshot_id: FetchSnapshotResponseSnapshotId = FetchSnapshotResponseSnapshotId()
    current_leader: LeaderIdAndEpoch | None = since(0, default=None, tag=0)
    size: int64 = 0
    position: int64 = 0
    unaligned_records: Records = b""


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: string = ""
    partitions: array[FetchSnapshotResponsePartitionSnapshot] = []


class NodeEndpoint(Struct):
    node_id: int32 = since(1, default=0)
    host: string = since(1, default="")
    port: uint16 = since(1, default=0)


class FetchSnapshotResponse(Message, api_key=59, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: array[FetchSnapshotResponseTopicSnapshot] = []
    node_endpoints: array[NodeEndpoint] = since(1, default=[], tag=0)
