"""ListConfigResources (api key 74): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string


class ListConfigResourcesRequest(Message, api_key=74, versions=(0, 1), flexible=0):
    resource_types: array[int8] = since(1, default=[])


class ConfigResource(Struct):
    resource_name: string = ""
    resource_type: int8 = since(1, default=16, ignorable=True)


class ListConfigResourcesResponse(Message, api_key=74, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: array[ConfigResource] = []
