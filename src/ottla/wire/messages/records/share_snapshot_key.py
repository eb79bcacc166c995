"""ShareSnapshotKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class ShareSnapshotKey(Message, api_key=0, versions=(0, 0)):
    group_id: string = ""
    topic_id: uuid = ZERO_UUID
    partition: int32 = 0
