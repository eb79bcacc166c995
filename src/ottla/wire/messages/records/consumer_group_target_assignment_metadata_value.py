"""ConsumerGroupTargetAssignmentMetadataValue: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, int64, since


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions=(0, 0), flexible=0):
    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = since(0, default=0, tag=0, ignorable=True)
