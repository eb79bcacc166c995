"""RemoveAccessControlEntryRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, uuid
from ottla.wire.primitives import ZERO_UUID


class RemoveAccessControlEntryRecord(Message, api_key=19, versions=(0, 0), flexible=0):
    id: uuid = ZERO_UUID
