"""SnapshotHeaderRecord: a schema that is no request. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int64


class SnapshotHeaderRecord(Message, versions=(0, 0), flexible=0):
    version: int16 = 0
    last_contained_log_timestamp: int64 = 0
