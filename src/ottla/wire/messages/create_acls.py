"""CreateAcls (api key 30): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    resource_pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class CreateAclsRequest(Message, api_key=30, versions=(1, 3), flexible=2):
    creations: array[AclCreation] = []


class AclCreationResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""


class CreateAclsResponse(Message, api_key=30, versions=(1, 3), flexible=2):
    throttle_time_ms: int32 = 0
    results: array[AclCreationResult] = []
