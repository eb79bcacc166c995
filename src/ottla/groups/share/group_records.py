"""Creates the records of share groups for `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.groups.assignors import Assignment
from ottla.groups.records import GroupRecord
from ottla.wire.messages.records.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from ottla.wire.messages.records.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from ottla.wire.messages.records.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from ottla.wire.messages.records.share_group_metadata_key import ShareGroupMetadataKey
from ottla.wire.messages.records.share_group_metadata_value import ShareGroupMetadataValue
from ottla.wire.messages.records.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from ottla.wire.messages.records.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from ottla.wire.messages.records.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from ottla.wire.messages.records.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.wire.messages.records.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from ottla.wire.messages.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from ottla.groups.share.group import Partitions, ShareMember, SharePartitions


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def member_metadata_record(group_id: str, member: ShareMember) -> GroupRecord:
    return GroupRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topics),
        ),
    )


def target_assignment_record(group_id: str, member_id: str, assignment: Assignment) -> GroupRecord:
    return GroupRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in assignment.items()
            ]
        ),
    )


def target_assignment_metadata_record(group_id: str, epoch: int, timestamp: int) -> GroupRecord:
    return GroupRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp),
    )


def current_assignment_record(group_id: str, member: ShareMember) -> GroupRecord:
    return GroupRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=0,
            assigned_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(indexes))
                for topic_id, indexes in member.assigned.items()
            ],
        ),
    )


def state_partition_record(group_id: str, partitions: SharePartitions) -> GroupRecord:
    def infos(of: Partitions) -> list[TopicPartitionsInfo]:
        return [
            TopicPartitionsInfo(
                topic_id=topic_id, topic_name=partitions.names.get(topic_id, ""), partitions=sorted(indexes)
            )
            for topic_id, indexes in of.items()
        ]

    return GroupRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=infos(partitions.initializing),
            initialized_topics=infos(partitions.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=partitions.names.get(topic_id, ""))
                for topic_id in sorted(partitions.deleting)
            ],
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """In the order that replay needs: the member's partitions before the member."""
    return [
        GroupRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[GroupRecord]:
    """Everything of a group."""
    by_member = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(record for records in by_member for record in records),
        GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        GroupRecord(ShareGroupMetadataKey(group_id=group_id), None),
    ]
