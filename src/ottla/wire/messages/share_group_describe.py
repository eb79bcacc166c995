"""ShareGroupDescribe (api key 77): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class ShareGroupDescribeRequest(Message, api_key=77, versions=(1, 1), flexible=0):
    group_ids: array[string] = []
    include_authorized_operations: bool = False


class TopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: array[int32] = []


class Assignment(Struct):
    topic_partitions: array[TopicPartitions] = []


class Member(Struct):
    member_id: string = ""
    rack_id: string | None = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: array[string] = []
    assignment: Assignment = Assignment()


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: string = ""
    members: array[Member] = []
    authorized_operations: int32 = -2147483648


class ShareGroupDescribeResponse(Message, api_key=77, versions=(1, 1), flexible=0):
    throttle_time_ms: int32 = 0
    groups: array[DescribedGroup] = []
