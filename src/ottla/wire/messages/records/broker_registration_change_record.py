"""BrokerRegistrationChangeRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, array, int8, int32, int64, since, uuid


class BrokerRegistrationChangeRecord(Message, api_key=17, versions=(0, 3), flexible=0):
    broker_id: int32 = 0
    broker_epoch: int64 = 0
    fenced: int8 = since(0, default=0, tag=0)
    in_controlled_shutdown: int8 = since(1, default=0, tag=1)
    log_dirs: array[uuid] = since(2, default=[], tag=2)
    cordoned_log_dirs: array[uuid] | None = since(3, default=None, tag=3)
