"""ConsumerGroupPartitionMetadataValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class PartitionMetadata(Struct):
    partition: int32 = 0
    racks: array[string] = []


class TopicMetadata(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    num_partitions: int32 = 0
    partition_metadata: array[PartitionMetadata] = []


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions=(0, 0), flexible=0):
    topics: array[TopicMetadata] = []
