"""ShareGroupMetadataValue: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, int64


class ShareGroupMetadataValue(Message, api_key=11, versions=(0, 0), flexible=0):
    epoch: int32 = 0
    metadata_hash: int64 = 0
