"""AbortTransactionRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, since, string


class AbortTransactionRecord(Message, api_key=25, versions=(0, 0), flexible=0):
    reason: string | None = since(0, default=None, tag=0)
