"""ControlRecordTypeSchema: a schema that is no request. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16


class ControlRecordTypeSchema(Message, versions=(0, 0)):
    type: int16 = 0
