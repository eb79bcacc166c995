"""Vote (api key 52): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class VoteRequestPartitionData(Struct):
    partition_index: int32 = 0
    replica_epoch: int32 = 0
    replica_id: int32 = 0
    replica_directory_id: uuid = since(1, default=ZERO_UUID, ignorable=True)
    voter_directory_id: uuid = since(1, default=ZERO_UUID, ignorable=True)
    last_offset_epoch: int32 = 0
    last_offset: int64 = 0
    pre_vote: bool = since(2, default=False)


class VoteRequestTopicData(Struct):
    topic_name: string = ""
    partitions: array[VoteRequestPartitionData] = []


class VoteRequest(Message, api_key=52, versions=(0, 2), flexible=0):
    cluster_id: string | None = None
    voter_id: int32 = since(1, default=-1, ignorable=True)
    topics: array[VoteRequestTopicData] = []


class VoteResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    vote_granted: bool = False


class VoteResponseTopicData(Struct):
    topic_name: string = ""
    partitions: array[VoteResponsePartitionData] = []


class NodeEndpoint(Struct):
    node_id: int32 = since(1, default=0)
    host: string = since(1, default="")
    port: uint16 = since(1, default=0)


class VoteResponse(Message, api_key=52, versions=(0, 2), flexible=0):
    error_code: int16 = 0
    topics: array[VoteResponseTopicData] = []
    node_endpoints: array[NodeEndpoint] = since(1, default=[], tag=0)
