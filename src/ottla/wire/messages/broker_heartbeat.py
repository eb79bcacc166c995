"""BrokerHeartbeat (api key 63): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, array, int16, int32, int64, since, uuid


class BrokerHeartbeatRequest(Message, api_key=63, versions=(0, 2), flexible=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: array[uuid] = since(1, default=[], tag=0)
    cordoned_log_dirs: array[uuid] | None = since(2, default=None, tag=1)


class BrokerHeartbeatResponse(Message, api_key=63, versions=(0, 2), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
