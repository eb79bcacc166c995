"""ConsumerGroupHeartbeat (api key 68): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[int32] = []


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions=(0, 1), flexible=0):
    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: array[string] | None = None
    subscribed_topic_regex: string | None = since(1, default=None)
    server_assignor: string | None = None
    topic_partitions: array[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[int32] = []


class Assignment(Struct):
    topic_partitions: array[ConsumerGroupHeartbeatResponseTopicPartitions] = []


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None
