"""AlterPartitionReassignments (api key 45): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string


class ReassignablePartition(Struct):
    partition_index: int32 = 0
    replicas: array[int32] | None = None


class ReassignableTopic(Struct):
    name: string = ""
    partitions: array[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions=(0, 1), flexible=0):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: array[ReassignableTopic] = []


class ReassignablePartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReassignableTopicResponse(Struct):
    name: string = ""
    partitions: array[ReassignablePartitionResponse] = []


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: bool = since(1, default=True, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = ""
    responses: array[ReassignableTopicResponse] = []
