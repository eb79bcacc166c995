"""Heartbeat (api key 12): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int32, since, string


class HeartbeatRequest(Message, api_key=12, versions=(0, 4), flexible=4):
    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = since(3, default=None)


class HeartbeatResponse(Message, api_key=12, versions=(0, 4), flexible=4):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16 = 0
