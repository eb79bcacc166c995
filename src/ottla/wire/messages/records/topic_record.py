"""TopicRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicRecord(Message, api_key=2, versions=(0, 0), flexible=0):
    name: string = ""
    topic_id: uuid = ZERO_UUID
