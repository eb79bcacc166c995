"""AlterReplicaLogDirs (api key 34): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string


class AlterReplicaLogDirTopic(Struct):
    name: string = ""
    partitions: array[int32] = []


class AlterReplicaLogDir(Struct):
    path: string = ""
    topics: array[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Message, api_key=34, versions=(1, 2), flexible=2):
    dirs: array[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: string = ""
    partitions: array[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Message, api_key=34, versions=(1, 2), flexible=2):
    throttle_time_ms: int32 = 0
    results: array[AlterReplicaLogDirTopicResult] = []
