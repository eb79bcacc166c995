"""StreamsGroupDescribe (api key 89): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, string, uint16


class StreamsGroupDescribeRequest(Message, api_key=89, versions=(0, 1), flexible=0):
    group_ids: array[string] = []
    include_authorized_operations: bool = False
    include_topology_description: bool = since(1, default=False)


class KeyValue(Struct):
    key: string = ""
    value: string = ""


class TopicInfo(Struct):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: array[KeyValue] = []


class Subtopology(Struct):
    subtopology_id: string = ""
    source_topics: array[string] = []
    repartition_sink_topics: array[string] = []
    state_changelog_topics: array[TopicInfo] = []
    repartition_source_topics: array[TopicInfo] = []


class Topology(Struct):
    epoch: int32 = 0
    subtopologies: array[Subtopology] | None = None


class Endpoint(Struct):
    host: string = ""
    port: uint16 = 0


class TaskOffset(Struct):
    subtopology_id: string = ""
    partition: int32 = 0
    offset: int64 = 0


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: array[int32] = []


class Assignment(Struct):
    active_tasks: array[TaskIds] = []
    standby_tasks: array[TaskIds] = []
    warmup_tasks: array[TaskIds] = []


class Member(Struct):
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: string | None = None
    rack_id: string | None = None
    client_id: string = ""
    client_host: string = ""
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: Endpoint | None = None
    client_tags: array[KeyValue] = []
    task_offsets: array[TaskOffset] = []
    task_end_offsets: array[TaskOffset] = []
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: bool = False


class TopologyDescriptionNode(Struct):
    name: string = since(1, default="")
    node_type: int8 = since(1, default=0)
    source_topics: array[string] = since(1, default=[])
    sink_topic: string | None = since(1, default=None)
    stores: array[string] = since(1, default=[])
    successors: array[string] = since(1, default=[])


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: string = since(1, default="")
    nodes: array[TopologyDescriptionNode] = since(1, default=[])


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = since(1, default=TopologyDescriptionNode())
    processor: TopologyDescriptionNode = since(1, default=TopologyDescriptionNode())


class TopologyDescription(Struct):
    subtopologies: array[TopologyDescriptionSubtopology] = since(1, default=[])
    global_stores: array[TopologyDescriptionGlobalStore] = since(1, default=[])


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    topology: Topology | None = None
    members: array[Member] = []
    authorized_operations: int32 = -2147483648
    topology_description: TopologyDescription | None = since(1, default=None)
    topology_description_status: int8 = since(1, default=0)
    assignor_name: string | None = since(1, default=None, ignorable=True)


class StreamsGroupDescribeResponse(Message, api_key=89, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    groups: array[DescribedGroup] = []
