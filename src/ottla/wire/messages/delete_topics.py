"""DeleteTopics (api key 20): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class DeleteTopicState(Struct):
    name: string | None = since(6, default=None)
    topic_id: uuid = since(6, default=ZERO_UUID)


class DeleteTopicsRequest(Message, api_key=20, versions=(1, 6), flexible=4):
    topics: array[DeleteTopicState] = since(6, default=[])
    topic_names: array[string] = since(0, 5, default=[], ignorable=True)
    timeout_ms: int32 = 0


class DeletableTopicResult(Struct):
    name: string | None = since(0, default="", nullable=6)
    topic_id: uuid = since(6, default=ZERO_UUID, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = since(5, default=None, ignorable=True)


class DeleteTopicsResponse(Message, api_key=20, versions=(1, 6), flexible=4):
    throttle_time_ms: int32 = 0
    responses: array[DeletableTopicResult] = []
