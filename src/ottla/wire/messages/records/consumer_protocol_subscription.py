"""ConsumerProtocolSubscription: a schema that is no request. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, since, string


class TopicPartition(Struct):
    topic: string = since(1, default="")
    partitions: array[int32] = since(1, default=[])


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: array[string] = []
    user_data: bytes | None = None
    owned_partitions: array[TopicPartition] = since(1, default=[], ignorable=True)
    generation_id: int32 = since(2, default=-1, ignorable=True)
    rack_id: string | None = since(3, default=None, ignorable=True)
