"""ConsumerGroupDescribe (api key 69): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class ConsumerGroupDescribeRequest(Message, api_key=69, versions=(0, 1), flexible=0):
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
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: array[string] = []
    subscribed_topic_regex: string | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: int8 = since(1, default=-1, ignorable=True)


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


class ConsumerGroupDescribeResponse(Message, api_key=69, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    groups: array[DescribedGroup] = []
