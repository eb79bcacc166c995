"""ShareGroupHeartbeat (api key 76): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class ShareGroupHeartbeatRequest(Message, api_key=76, versions=(1, 1), flexible=0):
    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    rack_id: string | None = None
    subscribed_topic_names: array[string] | None = None


class TopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[int32] = []


class Assignment(Struct):
    topic_partitions: array[TopicPartitions] = []


class ShareGroupHeartbeatResponse(Message, api_key=76, versions=(1, 1), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None
