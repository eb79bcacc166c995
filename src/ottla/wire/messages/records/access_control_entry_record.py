"""AccessControlEntryRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int8, string, uuid
from ottla.wire.primitives import ZERO_UUID


class AccessControlEntryRecord(Message, api_key=18, versions=(0, 0), flexible=0):
    id: uuid = ZERO_UUID
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 0
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0
