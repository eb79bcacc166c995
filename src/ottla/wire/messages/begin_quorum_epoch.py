"""BeginQuorumEpoch (api key 53): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: int32 = 0
    voter_directory_id: uuid = since(1, default=ZERO_UUID, ignorable=True)
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: string = ""
    partitions: array[BeginQuorumEpochRequestPartitionData] = []


class LeaderEndpoint(Struct):
    name: string = since(1, default="")
    host: string = since(1, default="")
    port: uint16 = since(1, default=0)


class BeginQuorumEpochRequest(Message, api_key=53, versions=(0, 1), flexible=1):
    cluster_id: string | None = None
    voter_id: int32 = since(1, default=-1, ignorable=True)
    topics: array[BeginQuorumEpochRequestTopicData] = []
    leader_endpoints: array[LeaderEndpoint] = since(1, default=[], ignorable=True)


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: string = ""
    partitions: array[BeginQuorumEpochResponsePartitionData] = []


class NodeEndpoint(Struct):
    node_id: int32 = since(1, default=0)
    host: string = since(1, default="")
    port: uint16 = since(1, default=0)


class BeginQuorumEpochResponse(Message, api_key=53, versions=(0, 1), flexible=1):
    error_code: int16 = 0
    topics: array[BeginQuorumEpochResponseTopicData] = []
    node_endpoints: array[NodeEndpoint] = since(1, default=[], tag=0)
