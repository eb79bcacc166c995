"""UnfenceBrokerRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, int64


class UnfenceBrokerRecord(Message, api_key=8, versions=(0, 0), flexible=0):
    id: int32 = 0
    epoch: int64 = 0
