"""CreateTopics (api key 19): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class CreatableReplicaAssignment(Struct):
    partition_index: int32 = 0
    broker_ids: array[int32] = []


class CreatableTopicConfig(Struct):
    name: string = ""
    value: string | None = ""


class CreatableTopic(Struct):
    name: string = ""
    num_partitions: int32 = 0
    replication_factor: int16 = 0
    assignments: array[CreatableReplicaAssignment] = []
    configs: array[CreatableTopicConfig] = []


class CreateTopicsRequest(Message, api_key=19, versions=(2, 7), flexible=5):
    topics: array[CreatableTopic] = []
    timeout_ms: int32 = 60000
    validate_only: bool = False


class CreatableTopicConfigs(Struct):
    name: string = since(5, default="")
    value: string | None = since(5, default="")
    read_only: bool = since(5, default=False)
    config_source: int8 = since(5, default=-1, ignorable=True)
    is_sensitive: bool = since(5, default=False)


class CreatableTopicResult(Struct):
    name: string = ""
    topic_id: uuid = since(7, default=ZERO_UUID, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = ""
    topic_config_error_code: int16 = since(5, default=0, tag=0, ignorable=True)
    num_partitions: int32 = since(5, default=-1, ignorable=True)
    replication_factor: int16 = since(5, default=-1, ignorable=True)
    configs: array[CreatableTopicConfigs] | None = since(5, default=[], ignorable=True)


class CreateTopicsResponse(Message, api_key=19, versions=(2, 7), flexible=5):
    throttle_time_ms: int32 = 0
    topics: array[CreatableTopicResult] = []
