"""TxnOffsetCommit (api key 28): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = since(2, default=-1, ignorable=True)
    committed_metadata: string | None = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: string = since(0, 5, default="", ignorable=True)
    topic_id: uuid = since(6, default=ZERO_UUID, ignorable=True)
    partitions: array[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Message, api_key=28, versions=(0, 6), flexible=3):
    transactional_id: string = ""
    group_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id_or_member_epoch: int32 = since(3, default=-1)
    member_id: string = since(3, default="")
    group_instance_id: string | None = since(3, default=None)
    topics: array[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: string = since(0, 5, default="", ignorable=True)
    topic_id: uuid = since(6, default=ZERO_UUID, ignorable=True)
    partitions: array[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Message, api_key=28, versions=(0, 6), flexible=3):
    throttle_time_ms: int32 = 0
    topics: array[TxnOffsetCommitResponseTopic] = []
