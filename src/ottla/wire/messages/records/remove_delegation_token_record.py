"""RemoveDelegationTokenRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class RemoveDelegationTokenRecord(Message, api_key=26, versions=(0, 0), flexible=0):
    token_id: string = ""
