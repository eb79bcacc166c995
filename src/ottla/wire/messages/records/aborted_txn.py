"""AbortedTxn: a schema that is no request. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int64


class AbortedTxn(Message, versions=(0, 0)):
    producer_id: int64 = 0
    first_offset: int64 = 0
    last_offset: int64 = 0
    last_stable_offset: int64 = 0
