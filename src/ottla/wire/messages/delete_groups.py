"""DeleteGroups (api key 42): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string


class DeleteGroupsRequest(Message, api_key=42, versions=(0, 3), flexible=2):
    groups_names: array[string] = []


class DeletableGroupResult(Struct):
    group_id: string = ""
    error_code: int16 = 0
    error_message: string | None = since(3, default=None, ignorable=True)


class DeleteGroupsResponse(Message, api_key=42, versions=(0, 3), flexible=2):
    throttle_time_ms: int32 = 0
    results: array[DeletableGroupResult] = []
