"""BeginTransactionRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, since, string


class BeginTransactionRecord(Message, api_key=23, versions=(0, 0), flexible=0):
    name: string | None = since(0, default=None, tag=0)
