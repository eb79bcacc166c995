"""LeaveGroup (api key 13): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string


class MemberIdentity(Struct):
    member_id: string = since(3, default="")
    group_instance_id: string | None = since(3, default=None)
    reason: string | None = since(5, default=None, ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions=(0, 5), flexible=4):
    group_id: string = ""
    member_id: string = since(0, 2, default="")
    members: array[MemberIdentity] = since(3, default=[])


class MemberResponse(Struct):
    member_id: string = since(3, default="")
    group_instance_id: string | None = since(3, default="")
    error_code: int16 = since(3, default=0)


class LeaveGroupResponse(Message, api_key=13, versions=(0, 5), flexible=4):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16 = 0
    members: array[MemberResponse] = since(3, default=[])
