"""A streams group as a row of StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.groups.streams.group import StreamsGroup, StreamsMember
from ottla.groups.streams.tasks import MemberTasks, Target, rows
from ottla.wire.messages.records.streams_group_topology_value import StreamsGroupTopologyValue
from ottla.wire.messages.records.streams_group_topology_value import TopicInfo as RecordedTopicInfo
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def describe_streams_group(group: StreamsGroup, assignor: str) -> DescribedGroup:
    configured = group.configured
    partitions = configured.internal_partitions if configured is not None and configured.is_ready else {}
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _topology(group.topology, partitions),
        members=[_member(member, group.targets.get(id)) for id, member in group.members.items()],
        assignor_name=assignor,
    )


def _topology(topology: StreamsGroupTopologyValue, partitions: Mapping[str, int]) -> Topology:
    """With the partition counts of internal topics, once they are decided."""

    def infos(topics: list[RecordedTopicInfo]) -> list[TopicInfo]:
        return [
            TopicInfo(
                name=topic.name,
                partitions=partitions.get(topic.name, topic.partitions),
                replication_factor=topic.replication_factor,
                topic_configs=[KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
            )
            for topic in sorted(topics, key=lambda topic: topic.name)
        ]

    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=sorted(subtopology.source_topics),
                repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
                state_changelog_topics=infos(subtopology.state_changelog_topics),
                repartition_source_topics=infos(subtopology.repartition_source_topics),
            )
            for subtopology in sorted(topology.subtopologies, key=lambda subtopology: subtopology.subtopology_id)
        ],
    )


def _member(member: StreamsMember, target: Target | None) -> Member:
    return Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=None,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(host=member.endpoint[0], port=member.endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags.items()],
        assignment=_assignment(member.assigned),
        target_assignment=Assignment() if target is None else _assignment(target),
    )


def _assignment(tasks: Target | MemberTasks) -> Assignment:
    return Assignment(
        active_tasks=rows(tasks.active, TaskIds),
        standby_tasks=rows(tasks.standby, TaskIds),
        warmup_tasks=rows(tasks.warmup, TaskIds),
    )
