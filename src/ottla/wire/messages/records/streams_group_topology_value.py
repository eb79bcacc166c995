"""StreamsGroupTopologyValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string


class TopicConfig(Struct):
    key: string = ""
    value: string = ""


class TopicInfo(Struct):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: array[TopicConfig] = []


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


class StreamsGroupTopologyValue(Message, api_key=23, versions=(0, 0), flexible=0):
    epoch: int32 = 0
    subtopologies: array[Subtopology] = []
