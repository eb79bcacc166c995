"""StreamsGroupMemberMetadataValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, string, uint16


class Endpoint(Struct):
    host: string = ""
    port: uint16 = 0


class KeyValue(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupMemberMetadataValue(Message, api_key=19, versions=(0, 0), flexible=0):
    instance_id: string | None = ""
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: Endpoint | None = None
    client_tags: array[KeyValue] = []
