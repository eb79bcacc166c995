"""AlterConfigs (api key 33): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class AlterableConfig(Struct):
    name: string = ""
    value: string | None = ""


class AlterConfigsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: array[AlterableConfig] = []


class AlterConfigsRequest(Message, api_key=33, versions=(0, 2), flexible=2):
    resources: array[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    resource_name: string = ""


class AlterConfigsResponse(Message, api_key=33, versions=(0, 2), flexible=2):
    throttle_time_ms: int32 = 0
    responses: array[AlterConfigsResourceResponse] = []
