"""StreamsGroupHeartbeat (api key 88): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, string, uint16


class KeyValue(Struct):
    key: string = ""
    value: string = ""


class TopicInfo(Struct):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: array[KeyValue] = []


class CopartitionGroup(Struct):
    source_topics: array[int16] = []
    source_topic_regex: array[int16] = []
    repartition_source_topics: array[int16] = []


class Subtopology(Struct):
    subtopology_id: string = ""
    source_topics: array[string] = []
    source_topic_regex: array[string] = []
    state_changelog_topics: array[TopicInfo] = []
    repartition_sink_topics: array[string] = []
    repartition_source_topics: array[TopicInfo] = []
    copartition_groups: array[CopartitionGroup] = []


class Topology(Struct):
    epoch: int32 = 0
    subtopologies: array[Subtopology] = []


class StreamsGroupHeartbeatRequestTaskIds(Struct):
    subtopology_id: string = ""
    partitions: array[int32] = []


class StreamsGroupHeartbeatRequestEndpoint(Struct):
    host: string = ""
    port: uint16 = 0


class TaskOffset(Struct):
    subtopology_id: string = ""
    partition: int32 = 0
    offset: int64 = 0


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions=(0, 1), flexible=0):
    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    endpoint_information_epoch: int32 = 0
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    topology: Topology | None = None
    active_tasks: array[StreamsGroupHeartbeatRequestTaskIds] | None = None
    standby_tasks: array[StreamsGroupHeartbeatRequestTaskIds] | None = None
    warmup_tasks: array[StreamsGroupHeartbeatRequestTaskIds] | None = None
    process_id: string | None = None
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = None
    client_tags: array[KeyValue] | None = None
    task_offsets: array[TaskOffset] | None = None
    task_end_offsets: array[TaskOffset] | None = None
    shutdown_application: bool = False


class Status(Struct):
    status_code: int8 = 0
    status_detail: string = ""


class StreamsGroupHeartbeatResponseTaskIds(Struct):
    subtopology_id: string = ""
    partitions: array[int32] = []


class StreamsGroupHeartbeatResponseEndpoint(Struct):
    host: string = ""
    port: uint16 = 0


class TopicPartition(Struct):
    topic: string = ""
    partitions: array[int32] = []


class EndpointToPartitions(Struct):
    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = StreamsGroupHeartbeatResponseEndpoint()
    active_partitions: array[TopicPartition] = []
    standby_partitions: array[TopicPartition] = []


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string = ""
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    acceptable_recovery_lag_legacy: int32 = since(0, 0, default=0)
    task_offset_interval_ms: int32 = 0
    acceptable_recovery_lag: int64 = since(1, default=-1, ignorable=True)
    status: array[Status] | None = []
    active_tasks: array[StreamsGroupHeartbeatResponseTaskIds] | None = None
    standby_tasks: array[StreamsGroupHeartbeatResponseTaskIds] | None = None
    warmup_tasks: array[StreamsGroupHeartbeatResponseTaskIds] | None = None
    topology_description_required: bool = since(1, default=False)
    endpoint_information_epoch: int32 = 0
    partitions_by_user_endpoint: array[EndpointToPartitions] | None = None
