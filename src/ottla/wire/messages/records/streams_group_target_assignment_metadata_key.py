"""StreamsGroupTargetAssignmentMetadataKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class StreamsGroupTargetAssignmentMetadataKey(Message, api_key=20, versions=(0, 0)):
    group_id: string = ""
