"""NoOpRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message


class NoOpRecord(Message, api_key=20, versions=(0, 0), flexible=0):
    pass
