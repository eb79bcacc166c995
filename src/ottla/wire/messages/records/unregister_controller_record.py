"""UnregisterControllerRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32


class UnregisterControllerRecord(Message, api_key=29, versions=(0, 0), flexible=0):
    controller_id: int32 = 0
