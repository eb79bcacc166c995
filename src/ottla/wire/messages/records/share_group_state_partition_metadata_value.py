"""ShareGroupStatePartitionMetadataValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class TopicPartitionsInfo(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: array[int32] = []


class TopicInfo(Struct):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""


class ShareGroupStatePartitionMetadataValue(Message, api_key=15, versions=(0, 0), flexible=0):
    initializing_topics: array[TopicPartitionsInfo] = []
    initialized_topics: array[TopicPartitionsInfo] = []
    deleting_topics: array[TopicInfo] = []
