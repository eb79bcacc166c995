"""ConfigRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int8, string


class ConfigRecord(Message, api_key=4, versions=(0, 0), flexible=0):
    resource_type: int8 = 0
    resource_name: string = ""
    name: string = ""
    value: string | None = ""
