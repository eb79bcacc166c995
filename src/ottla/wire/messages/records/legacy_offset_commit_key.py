"""LegacyOffsetCommitKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, string


class LegacyOffsetCommitKey(Message, api_key=0, versions=(0, 0)):
    group: string = ""
    topic: string = ""
    partition: int32 = 0
