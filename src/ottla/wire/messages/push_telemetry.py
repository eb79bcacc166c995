"""PushTelemetry (api key 72): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int8, int16, int32, uuid
from ottla.wire.primitives import ZERO_UUID


class PushTelemetryRequest(Message, api_key=72, versions=(0, 0), flexible=0):
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    terminating: bool = False
    compression_type: int8 = 0
    metrics: bytes = b""


class PushTelemetryResponse(Message, api_key=72, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
