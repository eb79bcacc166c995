"""OffsetCommitKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, string


class OffsetCommitKey(Message, api_key=1, versions=(0, 0)):
    group: string = ""
    topic: string = ""
    partition: int32 = 0
