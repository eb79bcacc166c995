"""ConsumerGroupCurrentMemberAssignmentValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int32, since, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[int32] = []
    assignment_epochs: array[int32] | None = since(0, default=[], tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions=(0, 0), flexible=0):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: array[TopicPartitions] = []
    partitions_pending_revocation: array[TopicPartitions] = []
