"""PartitionChangeRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, array, int8, int32, since, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionChangeRecord(Message, api_key=5, versions=(0, 2), flexible=0):
    partition_id: int32 = -1
    topic_id: uuid = ZERO_UUID
    isr: array[int32] | None = since(0, default=None, tag=0)
    leader: int32 = since(0, default=-2, tag=1)
    replicas: array[int32] | None = since(0, default=None, tag=2)
    removing_replicas: array[int32] | None = since(0, default=None, tag=3)
    adding_replicas: array[int32] | None = since(0, default=None, tag=4)
    leader_recovery_state: int8 = since(0, default=-1, tag=5)
    directories: array[uuid] | None = since(1, default=None, tag=8)
    eligible_leader_replicas: array[int32] | None = since(2, default=None, tag=6)
    last_known_elr: array[int32] | None = since(2, default=None, tag=7)
