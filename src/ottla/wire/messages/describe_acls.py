"""DescribeAcls (api key 29): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class DescribeAclsRequest(Message, api_key=29, versions=(1, 3), flexible=2):
    resource_type_filter: int8 = 0
    resource_name_filter: string | None = ""
    pattern_type_filter: int8 = 3
    principal_filter: string | None = ""
    host_filter: string | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


class AclDescription(Struct):
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DescribeAclsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    acls: array[AclDescription] = []


class DescribeAclsResponse(Message, api_key=29, versions=(1, 3), flexible=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    resources: array[DescribeAclsResource] = []
