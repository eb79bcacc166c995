"""EndQuorumEpoch (api key 54): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class ReplicaInfo(Struct):
    candidate_id: int32 = since(1, default=0)
    candidate_directory_id: uuid = since(1, default=ZERO_UUID)


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    preferred_successors: array[int32] = since(0, 0, default=[], ignorable=True)
    preferred_candidates: array[ReplicaInfo] = since(1, default=[], ignorable=True)


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: string = ""
    partitions: array[EndQuorumEpochRequestPartitionData] = []


class LeaderEndpoint(Struct):
    name: string = since(1, default="")
    host: string = since(1, default="")
    port: uint16 = since(1, default=0)


class EndQuorumEpochRequest(Message, api_key=54, versions=(0, 1), flexible=1):
    cluster_id: string | None = None
    topics: array[EndQuorumEpochRequestTopicData] = []
    leader_endpoints: array[LeaderEndpoint] = since(1, default=[], ignorable=True)


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: string = ""
    partitions: array[EndQuorumEpochResponsePartitionData] = []


class NodeEndpoint(Struct):
    node_id: int32 = since(1, default=0)
    host: string = since(1, default="")
    port: uint16 = since(1, default=0)


class EndQuorumEpochResponse(Message, api_key=54, versions=(0, 1), flexible=1):
    error_code: int16 = 0
    topics: array[EndQuorumEpochResponseTopicData] = []
    node_endpoints: array[NodeEndpoint] = since(1, default=[], tag=0)
