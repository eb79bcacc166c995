"""IncrementalAlterConfigs (api key 44): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class AlterableConfig(Struct):
    name: string = ""
    config_operation: int8 = 0
    value: string | None = ""


class AlterConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: array[AlterableConfig] = []


class IncrementalAlterConfigsRequest(Message, api_key=44, versions=(0, 1), flexible=1):
    resources: array[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""


class IncrementalAlterConfigsResponse(Message, api_key=44, versions=(0, 1), flexible=1):
    throttle_time_ms: int32 = 0
    responses: array[AlterConfigsResourceResponse] = []
