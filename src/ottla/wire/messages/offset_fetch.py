"""OffsetFetch (api key 9): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class OffsetFetchRequestTopic(Struct):
    name: string = since(0, 7, default="")
    partition_indexes: array[int32] = since(0, 7, default=[])


class OffsetFetchRequestTopics(Struct):
    name: string = since(8, 9, default="", ignorable=True)
    topic_id: uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: array[int32] = since(8, default=[])


class OffsetFetchRequestGroup(Struct):
    group_id: string = since(8, default="")
    member_id: string | None = since(9, default=None, ignorable=True)
    member_epoch: int32 = since(9, default=-1, ignorable=True)
    topics: array[OffsetFetchRequestTopics] | None = since(8, default=[])


class OffsetFetchRequest(Message, api_key=9, versions=(1, 10), flexible=6):
    group_id: string = since(0, 7, default="")
    topics: array[OffsetFetchRequestTopic] | None = since(0, 7, default=[], nullable=(2, 7))
    groups: array[OffsetFetchRequestGroup] = since(8, default=[])
    require_stable: bool = since(7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int32 = since(0, 7, default=0)
    committed_offset: int64 = since(0, 7, default=0)
    committed_leader_epoch: int32 = since(5, 7, default=-1, ignorable=True)
    metadata: string | None = since(0, 7, default="")
    error_code: int16 = since(0, 7, default=0)


class OffsetFetchResponseTopic(Struct):
    name: string = since(0, 7, default="")
    partitions: array[OffsetFetchResponsePartition] = since(0, 7, default=[])


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32 = since(8, default=0)
    committed_offset: int64 = since(8, default=0)
    committed_leader_epoch: int32 = since(8, default=-1, ignorable=True)
    metadata: string | None = since(8, default="")
    error_code: int16 = since(8, default=0)


class OffsetFetchResponseTopics(Struct):
    name: string = since(8, 9, default="", ignorable=True)
    topic_id: uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: array[OffsetFetchResponsePartitions] = since(8, default=[])


class OffsetFetchResponseGroup(Struct):
    group_id: string = since(8, default="")
    topics: array[OffsetFetchResponseTopics] = since(8, default=[])
    error_code: int16 = since(8, default=0)


class OffsetFetchResponse(Message, api_key=9, versions=(1, 10), flexible=6):
    throttle_time_ms: int32 = since(3, default=0, ignorable=True)
    topics: array[OffsetFetchResponseTopic] = since(0, 7, default=[])
    error_code: int16 = since(2, 7, default=0, ignorable=True)
    groups: array[OffsetFetchResponseGroup] = since(8, default=[])
