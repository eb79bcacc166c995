"""ElectLeaders (api key 43): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string


class TopicPartitions(Struct):
    topic: string = ""
    partitions: array[int32] = []


class ElectLeadersRequest(Message, api_key=43, versions=(0, 2), flexible=2):
    election_type: int8 = since(1, default=0)
    topic_partitions: array[TopicPartitions] | None = []
    timeout_ms: int32 = 60000


class PartitionResult(Struct):
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReplicaElectionResult(Struct):
    topic: string = ""
    partition_result: array[PartitionResult] = []


class ElectLeadersResponse(Message, api_key=43, versions=(0, 2), flexible=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(1, default=0)
    replica_election_results: array[ReplicaElectionResult] = []
