"""DescribeDelegationToken (api key 41): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string


class DescribeDelegationTokenOwner(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribeDelegationTokenRequest(Message, api_key=41, versions=(1, 3), flexible=2):
    owners: array[DescribeDelegationTokenOwner] | None = []


class DescribedDelegationTokenRenewer(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribedDelegationToken(Struct):
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = since(3, default="")
    token_requester_principal_name: string = since(3, default="")
    issue_timestamp: int64 = 0
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: string = ""
    hmac: bytes = b""
    renewers: array[DescribedDelegationTokenRenewer] = []


class DescribeDelegationTokenResponse(Message, api_key=41, versions=(1, 3), flexible=2):
    error_code: int16 = 0
    tokens: array[DescribedDelegationToken] = []
    throttle_time_ms: int32 = 0
