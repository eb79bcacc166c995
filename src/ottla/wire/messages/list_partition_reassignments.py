"""ListPartitionReassignments (api key 46): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    name: string = ""
    partition_indexes: array[int32] = []


class ListPartitionReassignmentsRequest(Message, api_key=46, versions=(0, 0), flexible=0):
    timeout_ms: int32 = 60000
    topics: array[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: int32 = 0
    replicas: array[int32] = []
    adding_replicas: array[int32] = []
    removing_replicas: array[int32] = []


class OngoingTopicReassignment(Struct):
    name: string = ""
    partitions: array[OngoingPartitionReassignment] = []


class ListPartitionReassignmentsResponse(Message, api_key=46, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    topics: array[OngoingTopicReassignment] = []
