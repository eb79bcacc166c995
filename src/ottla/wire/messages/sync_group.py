"""SyncGroup (api key 14): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string


class SyncGroupRequestAssignment(Struct):
    member_id: string = ""
    assignment: bytes = b""


class SyncGroupRequest(Message, api_key=14, versions=(0, 5), flexible=4):
    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = since(3, default=None)
    protocol_type: string | None = since(5, default=None, ignorable=True)
    protocol_name: string | None = since(5, default=None, ignorable=True)
    assignments: array[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message, api_key=14, versions=(0, 5), flexible=4):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16 = 0
    protocol_type: string | None = since(5, default=None, ignorable=True)
    protocol_name: string | None = since(5, default=None, ignorable=True)
    assignment: bytes = b""
