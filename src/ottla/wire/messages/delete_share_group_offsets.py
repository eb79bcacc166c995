"""DeleteShareGroupOffsets (api key 92): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: string = ""


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions=(0, 0), flexible=0):
    group_id: string = ""
    topics: array[DeleteShareGroupOffsetsRequestTopic] = []


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    error_code: int16 = 0
    error_message: string | None = None


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: array[DeleteShareGroupOffsetsResponseTopic] = []
