"""StreamsGroupTopologyDescriptionUpdate (api key 93): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, string


class TopologyDescriptionNode(Struct):
    name: string = ""
    node_type: int8 = 0
    source_topics: array[string] = []
    sink_topic: string | None = None
    stores: array[string] = []
    successors: array[string] = []


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: string = ""
    nodes: array[TopologyDescriptionNode] = []


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = TopologyDescriptionNode()
    processor: TopologyDescriptionNode = TopologyDescriptionNode()


class TopologyDescription(Struct):
    subtopologies: array[TopologyDescriptionSubtopology] = []
    global_stores: array[TopologyDescriptionGlobalStore] = []


class StreamsGroupTopologyDescriptionUpdateRequest(Message, api_key=93, versions=(0, 0), flexible=0):
    group_id: string = ""
    member_id: string = ""
    topology_epoch: int32 = 0
    topology_description: TopologyDescription = TopologyDescription()


class StreamsGroupTopologyDescriptionUpdateResponse(Message, api_key=93, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
