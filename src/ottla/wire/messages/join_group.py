"""JoinGroup (api key 11): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string


class JoinGroupRequestProtocol(Struct):
    name: string = ""
    metadata: bytes = b""


class JoinGroupRequest(Message, api_key=11, versions=(0, 9), flexible=6):
    group_id: string = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: int32 = since(1, default=-1, ignorable=True)
    member_id: string = ""
    group_instance_id: string | None = since(5, default=None)
    protocol_type: string = ""
    protocols: array[JoinGroupRequestProtocol] = []
    reason: string | None = since(8, default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: string = ""
    group_instance_id: string | None = since(5, default=None, ignorable=True)
    metadata: bytes = b""


class JoinGroupResponse(Message, api_key=11, versions=(0, 9), flexible=6):
    throttle_time_ms: int32 = since(2, default=0, ignorable=True)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: string | None = since(7, default=None, ignorable=True)
    protocol_name: string | None = since(0, default="", nullable=7)
    leader: string = ""
    skip_assignment: bool = since(9, default=False)
    member_id: string = ""
    members: array[JoinGroupResponseMember] = []
