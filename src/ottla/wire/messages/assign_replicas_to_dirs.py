"""AssignReplicasToDirs (api key 73): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, uuid
from ottla.wire.primitives import ZERO_UUID


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: int32 = 0


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[AssignReplicasToDirsRequestPartitionData] = []


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: uuid = ZERO_UUID
    topics: array[AssignReplicasToDirsRequestTopicData] = []


class AssignReplicasToDirsRequest(Message, api_key=73, versions=(0, 0), flexible=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    directories: array[AssignReplicasToDirsRequestDirectoryData] = []


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[AssignReplicasToDirsResponsePartitionData] = []


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: uuid = ZERO_UUID
    topics: array[AssignReplicasToDirsResponseTopicData] = []


class AssignReplicasToDirsResponse(Message, api_key=73, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: array[AssignReplicasToDirsResponseDirectoryData] = []
