"""GroupMetadataValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, int64, since, string


class MemberMetadata(Struct):
    member_id: string = ""
    group_instance_id: string | None = since(3, default=None, ignorable=True)
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout: int32 = since(1, default=-1, ignorable=True)
    session_timeout: int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(Message, api_key=2, versions=(0, 4), flexible=4):
    protocol_type: string = ""
    generation: int32 = 0
    protocol: string | None = ""
    leader: string | None = ""
    current_state_timestamp: int64 = since(2, default=-1, ignorable=True)
    members: array[MemberMetadata] = []
