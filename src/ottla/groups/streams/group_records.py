"""Creates and decodes the records of streams groups in `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.groups.records import GroupRecord
from ottla.groups.streams.tasks import MemberTasks, Target, TaskId, by_subtopology, rows, task_set
from ottla.wire.messages.records.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from ottla.wire.messages.records.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from ottla.wire.messages.records.streams_group_current_member_assignment_value import TaskIds as CurrentTaskIds
from ottla.wire.messages.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.wire.messages.records.streams_group_member_metadata_value import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataValue,
)
from ottla.wire.messages.records.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.messages.records.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from ottla.wire.messages.records.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from ottla.wire.messages.records.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from ottla.wire.messages.records.streams_group_target_assignment_member_value import TaskIds as TargetTaskIds
from ottla.wire.messages.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from ottla.wire.messages.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from ottla.wire.messages.records.streams_group_topology_key import StreamsGroupTopologyKey
from ottla.wire.messages.records.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from ottla.wire.messages.streams_group_heartbeat import TopicInfo as SentTopicInfo
from ottla.wire.messages.streams_group_heartbeat import Topology

if TYPE_CHECKING:
    from ottla.groups.streams.group import StreamsMember


def group_epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> GroupRecord:
    return GroupRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)],
        ),
    )


def topology_record(group_id: str, topology: StreamsGroupTopologyValue) -> GroupRecord:
    return GroupRecord(StreamsGroupTopologyKey(group_id=group_id), topology)


def member_metadata_record(group_id: str, member: StreamsMember) -> GroupRecord:
    return GroupRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        StreamsGroupMemberMetadataValue(
            instance_id=None,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None
            if member.endpoint is None
            else Endpoint(host=member.endpoint[0], port=member.endpoint[1]),
            client_tags=[KeyValue(key=key, value=member.tags[key]) for key in sorted(member.tags)],
        ),
    )


def target_assignment_record(group_id: str, member_id: str, target: Target) -> GroupRecord:
    return GroupRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=rows(target.active, TargetTaskIds),
            standby_tasks=rows(target.standby, TargetTaskIds),
            warmup_tasks=rows(target.warmup, TargetTaskIds),
        ),
    )


def target_assignment_metadata_record(group_id: str, epoch: int, timestamp: int) -> GroupRecord:
    return GroupRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp),
    )


def current_assignment_record(group_id: str, member: StreamsMember) -> GroupRecord:
    return GroupRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=_with_epochs(member.assigned.active),
            standby_tasks=_without_epochs(member.assigned.standby),
            warmup_tasks=_without_epochs(member.assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(member.revoking.active),
            standby_tasks_pending_revocation=_without_epochs(member.revoking.standby),
            warmup_tasks_pending_revocation=_without_epochs(member.revoking.warmup),
        ),
    )


def _with_epochs(tasks: Mapping[TaskId, int]) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[TaskId(subtopology_id, partition)] for partition in partitions],
        )
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def _without_epochs(tasks: Iterable[TaskId]) -> list[CurrentTaskIds]:
    return rows(tasks, CurrentTaskIds)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """In the order that replay needs: the member's tasks before the member."""
    return [
        GroupRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[GroupRecord]:
    """Everything of a group. Kafka replays the topology's tombstone after the group's own."""
    by_member = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(record for records in by_member for record in records),
        GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        GroupRecord(StreamsGroupMetadataKey(group_id=group_id), None),
        GroupRecord(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


# What members and records say.


def recorded_topology(topology: Topology) -> StreamsGroupTopologyValue:
    """The record of a topology that a member sends."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=list(subtopology.source_topics),
                source_topic_regex=list(subtopology.source_topic_regex),
                state_changelog_topics=[_topic_info(topic) for topic in subtopology.state_changelog_topics],
                repartition_sink_topics=list(subtopology.repartition_sink_topics),
                repartition_source_topics=[_topic_info(topic) for topic in subtopology.repartition_source_topics],
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in subtopology.copartition_groups
                ],
            )
            for subtopology in topology.subtopologies
        ],
    )


def _topic_info(topic: SentTopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs],
    )


def with_metadata(member: StreamsMember, value: Any) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        tags={tag.key: tag.value for tag in value.client_tags},
    )


def with_assignment(member: StreamsMember, value: Any) -> StreamsMember:
    epoch = value.member_epoch
    return replace(
        member,
        epoch=epoch,
        previous_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=MemberTasks(
            _epochs(value.active_tasks, epoch), task_set(value.standby_tasks), task_set(value.warmup_tasks)
        ),
        revoking=MemberTasks(
            _epochs(value.active_tasks_pending_revocation, epoch),
            task_set(value.standby_tasks_pending_revocation),
            task_set(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs(task_rows: Iterable[Any], default: int) -> dict[TaskId, int]:
    """The epoch in which a member got each of its tasks; records from before Kafka 4.3 do not have it."""
    found: dict[TaskId, int] = {}
    for row in task_rows:
        epochs = row.assignment_epochs or ()
        if len(epochs) != len(row.partitions):
            epochs = [default] * len(row.partitions)
        for partition, epoch in zip(row.partitions, epochs, strict=True):
            found[TaskId(row.subtopology_id, partition)] = epoch
    return found


def replayed_target(value: Any) -> Target:
    return Target(task_set(value.active_tasks), task_set(value.standby_tasks), task_set(value.warmup_tasks))
