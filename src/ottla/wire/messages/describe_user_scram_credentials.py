"""DescribeUserScramCredentials (api key 50): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class UserName(Struct):
    name: string = ""


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions=(0, 0), flexible=0):
    users: array[UserName] | None = []


class CredentialInfo(Struct):
    mechanism: int8 = 0
    iterations: int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: string = ""
    error_code: int16 = 0
    error_message: string | None = ""
    credential_infos: array[CredentialInfo] = []


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: array[DescribeUserScramCredentialsResult] = []
