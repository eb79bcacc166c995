"""ConsumerGroupMemberMetadataValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, since, string


class ClassicProtocol(Struct):
    name: string = ""
    metadata: bytes = b""


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32 = 0
    supported_protocols: array[ClassicProtocol] = []


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions=(0, 0), flexible=0):
    instance_id: string | None = ""
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: array[string] = []
    subscribed_topic_regex: string | None = ""
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = since(0, default=ClassicMemberMetadata(), nullable=0, tag=0)
