"""PartitionRecord: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, array, int8, int32, since, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionRecord(Message, api_key=3, versions=(0, 2), flexible=0):
    partition_id: int32 = -1
    topic_id: uuid = ZERO_UUID
    replicas: array[int32] = []
    isr: array[int32] = []
    removing_replicas: array[int32] = []
    adding_replicas: array[int32] = []
    leader: int32 = -1
    leader_recovery_state: int8 = since(0, default=0, tag=0)
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: array[uuid] = since(1, default=[])
    eligible_leader_replicas: array[int32] | None = since(2, default=None, tag=1)
    last_known_elr: array[int32] | None = since(2, default=None, tag=2)
