"""Envelope (api key 58): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16


class EnvelopeRequest(Message, api_key=58, versions=(0, 0), flexible=0):
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


class EnvelopeResponse(Message, api_key=58, versions=(0, 0), flexible=0):
    response_data: bytes | None = None
    error_code: int16 = 0
