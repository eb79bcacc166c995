"""ProducerIdsRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int32, int64


class ProducerIdsRecord(Message, api_key=15, versions=(0, 0), flexible=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    next_producer_id: int64 = 0
