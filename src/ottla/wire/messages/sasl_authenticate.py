"""SaslAuthenticate (api key 36): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int64, since, string


class SaslAuthenticateRequest(Message, api_key=36, versions=(0, 2), flexible=2):
    auth_bytes: bytes = b""


class SaslAuthenticateResponse(Message, api_key=36, versions=(0, 2), flexible=2):
    error_code: int16 = 0
    error_message: string | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int64 = since(1, default=0, ignorable=True)
