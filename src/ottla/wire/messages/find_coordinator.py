"""FindCoordinator (api key 10): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string


class FindCoordinatorRequest(Message, api_key=10, versions=(0, 6), flexible=3):
    key: string = since(0, 3, default="")
    key_type: int8 = since(1, default=0)
    coordinator_keys: array[string] = since(4, default=[])


class Coordinator(Struct):
    key: string = since(4, default="")
    node_id: int32 = since(4, default=0)
    host: string = since(4, default="")
    port: int32 = since(4, default=0)
    error_code: int16 = since(4, default=0)
    error_message: string | None = since(4, default="", ignorable=True)


class FindCoordinatorResponse(Message, api_key=10, versions=(0, 6), flexible=3):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16 = since(0, 3, default=0)
    error_message: string | None = since(1, 3, default="", ignorable=True)
    node_id: int32 = since(0, 3, default=0)
    host: string = since(0, 3, default="")
    port: int32 = since(0, 3, default=0)
    coordinators: array[Coordinator] = since(4, default=[])
