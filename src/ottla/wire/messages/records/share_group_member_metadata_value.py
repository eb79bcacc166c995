"""ShareGroupMemberMetadataValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, array, string


class ShareGroupMemberMetadataValue(Message, api_key=10, versions=(0, 0), flexible=0):
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: array[string] = []
