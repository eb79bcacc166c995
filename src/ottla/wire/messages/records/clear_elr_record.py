"""ClearElrRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class ClearElrRecord(Message, api_key=28, versions=(0, 0), flexible=0):
    topic_name: string = ""
