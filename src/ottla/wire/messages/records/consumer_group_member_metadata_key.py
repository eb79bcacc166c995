"""ConsumerGroupMemberMetadataKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""
