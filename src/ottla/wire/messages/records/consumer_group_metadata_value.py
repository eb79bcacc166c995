"""ConsumerGroupMetadataValue: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, int64, since


class ConsumerGroupMetadataValue(Message, api_key=3, versions=(0, 0), flexible=0):
    epoch: int32 = 0
    metadata_hash: int64 = since(0, default=0, tag=0)
