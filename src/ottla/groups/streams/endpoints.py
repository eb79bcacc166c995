"""The partitions that each application instance can serve (Interactive Queries): a part of heartbeats' answers."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster import ClusterImage
from ottla.groups.streams.group import StreamsGroup, StreamsMember
from ottla.groups.streams.tasks import TaskId, by_subtopology
from ottla.wire.messages.records.streams_group_topology_value import StreamsGroupTopologyValue
from ottla.wire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatResponseEndpoint,
    TopicPartition,
)


def partitions_by_endpoint(
    group: StreamsGroup, updated: StreamsMember, topology: StreamsGroupTopologyValue, image: ClusterImage
) -> list[EndpointToPartitions]:
    """One entry for each member with an endpoint; `updated` replaces the member with the same id."""
    inputs = {
        subtopology.subtopology_id: sorted(
            {*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)}
        )
        for subtopology in topology.subtopologies
    }
    members = [*(member for id, member in group.members.items() if id != updated.id), updated]
    return [
        EndpointToPartitions(
            user_endpoint=StreamsGroupHeartbeatResponseEndpoint(host=member.endpoint[0], port=member.endpoint[1]),
            active_partitions=_partitions(member.assigned.active, inputs, image),
            standby_partitions=_partitions(member.assigned.standby | member.assigned.warmup, inputs, image),
        )
        for member in members
        if member.endpoint is not None
    ]


def _partitions(tasks: Iterable[TaskId], inputs: dict[str, list[str]], image: ClusterImage) -> list[TopicPartition]:
    found = []
    for subtopology_id, partitions in by_subtopology(tasks).items():
        for name in inputs.get(subtopology_id, ()):
            topic = image.topics_by_name.get(name)
            if topic is not None:
                of_topic = [partition for partition in partitions if partition in topic.partitions]
                if of_topic:
                    found.append(TopicPartition(topic=name, partitions=of_topic))
    return found
