"""UnregisterController (api key 94): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int32, string


class UnregisterControllerRequest(Message, api_key=94, versions=(0, 0), flexible=0):
    controller_id: int32 = 0


class UnregisterControllerResponse(Message, api_key=94, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
