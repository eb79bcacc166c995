"""AlterUserScramCredentials (api key 51): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class ScramCredentialDeletion(Struct):
    name: string = ""
    mechanism: int8 = 0


class ScramCredentialUpsertion(Struct):
    name: string = ""
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message, api_key=51, versions=(0, 0), flexible=0):
    deletions: array[ScramCredentialDeletion] = []
    upsertions: array[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Struct):
    user: string = ""
    error_code: int16 = 0
    error_message: string | None = ""


class AlterUserScramCredentialsResponse(Message, api_key=51, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    results: array[AlterUserScramCredentialsResult] = []
