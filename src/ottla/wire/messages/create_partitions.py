"""CreatePartitions (api key 37): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: array[int32] = []


class CreatePartitionsTopic(Struct):
    name: string = ""
    count: int32 = 0
    assignments: array[CreatePartitionsAssignment] | None = []


class CreatePartitionsRequest(Message, api_key=37, versions=(0, 3), flexible=2):
    topics: array[CreatePartitionsTopic] = []
    timeout_ms: int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct):
    name: string = ""
    error_code: int16 = 0
    error_message: string | None = None


class CreatePartitionsResponse(Message, api_key=37, versions=(0, 3), flexible=2):
    throttle_time_ms: int32 = 0
    results: array[CreatePartitionsTopicResult] = []
