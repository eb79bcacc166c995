"""RemoveTopicRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, uuid
from ottla.wire.primitives import ZERO_UUID


class RemoveTopicRecord(Message, api_key=9, versions=(0, 0), flexible=0):
    topic_id: uuid = ZERO_UUID
