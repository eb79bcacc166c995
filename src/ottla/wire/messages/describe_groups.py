"""DescribeGroups (api key 15): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string


class DescribeGroupsRequest(Message, api_key=15, versions=(0, 6), flexible=5):
    groups: array[string] = []
    include_authorized_operations: bool = since(3, default=False)


class DescribedGroupMember(Struct):
    member_id: string = ""
    group_instance_id: string | None = since(4, default=None, ignorable=True)
    client_id: string = ""
    client_host: string = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = since(6, default=None)
    group_id: string = ""
    group_state: string = ""
    protocol_type: string = ""
    protocol_data: string = ""
    members: array[DescribedGroupMember] = []
    authorized_operations: int32 = since(3, default=-2147483648)


class DescribeGroupsResponse(Message, api_key=15, versions=(0, 6), flexible=5):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    groups: array[DescribedGroup] = []
