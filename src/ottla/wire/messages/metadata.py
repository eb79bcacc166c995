"""Metadata (api key 3): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class MetadataRequestTopic(Struct):
    topic_id: uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: string | None = since(0, default="", nullable=10)


class MetadataRequest(Message, api_key=3, versions=(0, 13), flexible=9):
    topics: array[MetadataRequestTopic] | None = since(0, default=[], nullable=1)
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = since(8, 10, default=False)
    include_topic_authorized_operations: bool = since(8, default=False)


class MetadataResponseBroker(Struct):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = since(1, default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = since(7, default=-1, ignorable=True)
    replica_nodes: array[int32] = []
    isr_nodes: array[int32] = []
    offline_replicas: array[int32] = since(5, default=[], ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int16 = 0
    name: string | None = since(0, default="", nullable=12)
    topic_id: uuid = since(10, default=ZERO_UUID, ignorable=True)
    is_internal: bool = since(1, default=False, ignorable=True)
    partitions: array[MetadataResponsePartition] = []
    topic_authorized_operations: int32 = since(8, default=-2147483648)


class MetadataResponse(Message, api_key=3, versions=(0, 13), flexible=9):
    throttle_time_ms: int32 = since(3, default=0, ignorable=True)
    brokers: array[MetadataResponseBroker] = []
    cluster_id: string | None = since(2, default=None, ignorable=True)
    controller_id: int32 = since(1, default=-1, ignorable=True)
    topics: array[MetadataResponseTopic] = []
    cluster_authorized_operations: int32 = since(8, 10, default=-2147483648)
    error_code: int16 = since(13, default=0, ignorable=True)
