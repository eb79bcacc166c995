"""ShareGroupTargetAssignmentMetadataKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class ShareGroupTargetAssignmentMetadataKey(Message, api_key=12, versions=(0, 0)):
    group_id: string = ""
