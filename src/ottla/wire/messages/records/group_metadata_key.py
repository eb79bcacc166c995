"""GroupMetadataKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class GroupMetadataKey(Message, api_key=2, versions=(0, 0)):
    group: string = ""
