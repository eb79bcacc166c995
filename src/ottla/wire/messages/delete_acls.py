"""DeleteAcls (api key 31): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class DeleteAclsFilter(Struct):
    resource_type_filter: int8 = 0
    resource_name_filter: string | None = ""
    pattern_type_filter: int8 = 3
    principal_filter: string | None = ""
    host_filter: string | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsRequest(Message, api_key=31, versions=(1, 3), flexible=2):
    filters: array[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsFilterResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    matching_acls: array[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Message, api_key=31, versions=(1, 3), flexible=2):
    throttle_time_ms: int32 = 0
    filter_results: array[DeleteAclsFilterResult] = []
