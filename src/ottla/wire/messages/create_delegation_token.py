"""CreateDelegationToken (api key 38): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string


class CreatableRenewers(Struct):
    principal_type: string = ""
    principal_name: string = ""


class CreateDelegationTokenRequest(Message, api_key=38, versions=(1, 3), flexible=2):
    owner_principal_type: string | None = since(3, default="")
    owner_principal_name: string | None = since(3, default="")
    renewers: array[CreatableRenewers] = []
    max_lifetime_ms: int64 = 0


class CreateDelegationTokenResponse(Message, api_key=38, versions=(1, 3), flexible=2):
    error_code: int16 = 0
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = since(3, default="")
    token_requester_principal_name: string = since(3, default="")
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: string = ""
    hmac: bytes = b""
    throttle_time_ms: int32 = 0
