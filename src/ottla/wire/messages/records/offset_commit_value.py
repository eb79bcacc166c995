"""OffsetCommitValue: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class OffsetCommitValue(Message, api_key=1, versions=(0, 4), flexible=4):
    offset: int64 = 0
    leader_epoch: int32 = since(3, default=-1, ignorable=True)
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = since(1, 1, default=-1, ignorable=True)
    topic_id: uuid = since(4, default=ZERO_UUID, tag=0, ignorable=True)
