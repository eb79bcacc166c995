"""ListGroups (api key 16): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string


class ListGroupsRequest(Message, api_key=16, versions=(0, 5), flexible=3):
    states_filter: array[string] = since(4, default=[])
    types_filter: array[string] = since(5, default=[])


class ListedGroup(Struct):
    group_id: string = ""
    protocol_type: string = ""
    group_state: string = since(4, default="", ignorable=True)
    group_type: string = since(5, default="", ignorable=True)


class ListGroupsResponse(Message, api_key=16, versions=(0, 5), flexible=3):
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    error_code: int16 = 0
    groups: array[ListedGroup] = []
