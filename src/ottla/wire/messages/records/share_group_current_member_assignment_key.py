"""ShareGroupCurrentMemberAssignmentKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class ShareGroupCurrentMemberAssignmentKey(Message, api_key=14, versions=(0, 0)):
    group_id: string = ""
    member_id: string = ""
