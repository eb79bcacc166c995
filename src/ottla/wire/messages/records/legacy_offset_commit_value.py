"""LegacyOffsetCommitValue: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int64, string


class LegacyOffsetCommitValue(Message, api_key=0, versions=(0, 0)):
    offset: int64 = 0
    metadata: string = ""
    commit_timestamp: int64 = 0
