"""ShareGroupTargetAssignmentMemberValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicPartition(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[int32] = []


class ShareGroupTargetAssignmentMemberValue(Message, api_key=13, versions=(0, 0), flexible=0):
    topic_partitions: array[TopicPartition] = []
