"""DescribeConfigs (api key 32): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string


class DescribeConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configuration_keys: array[string] | None = []


class DescribeConfigsRequest(Message, api_key=32, versions=(1, 4), flexible=4):
    resources: array[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: bool = since(3, default=False)


class DescribeConfigsSynonym(Struct):
    name: string = ""
    value: string | None = ""
    source: int8 = 0


class DescribeConfigsResourceResult(Struct):
    name: string = ""
    value: string | None = ""
    read_only: bool = False
    config_source: int8 = -1
    is_sensitive: bool = False
    synonyms: array[DescribeConfigsSynonym] = []
    config_type: int8 = since(3, default=0, ignorable=True)
    documentation: string | None = since(3, default="", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""
    configs: array[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message, api_key=32, versions=(1, 4), flexible=4):
    throttle_time_ms: int32 = 0
    results: array[DescribeConfigsResult] = []
