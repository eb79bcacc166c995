"""ConsumerProtocolAssignment: a schema that is no request. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, string


class TopicPartition(Struct):
    topic: string = ""
    partitions: array[int32] = []


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: array[TopicPartition] = []
    user_data: bytes | None = None
