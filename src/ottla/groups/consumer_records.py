"""Creates the records of consumer groups for `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.groups.assignors import Assignment
from ottla.groups.consumer_member import ConsumerMember, Ownership
from ottla.groups.records import GroupRecord
from ottla.wire.messages.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.wire.messages.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from ottla.wire.messages.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ottla.wire.messages.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.wire.messages.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.wire.messages.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.wire.messages.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.wire.messages.records.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.wire.messages.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.wire.messages.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ottla.wire.messages.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    classic = member.classic
    return GroupRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topics),
            subscribed_topic_regex=member.regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in classic.protocols
                ],
            ),
        ),
    )


def target_assignment_record(group_id: str, member_id: str, assignment: Assignment) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )


def target_assignment_metadata_record(group_id: str, epoch: int, timestamp: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp),
    )


def current_assignment_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_topic_partitions(member.assigned),
            partitions_pending_revocation=_topic_partitions(member.pending_revocation),
        ),
    )


def _topic_partitions(ownership: Ownership) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in ownership.items()
    ]


def regular_expression_record(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp: int
) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(topics=list(topics), version=version, timestamp=timestamp),
    )


def regular_expression_tombstone(group_id: str, regex: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    """Removes the record that Kafka 4.0 had in place of the metadata hash."""
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """In the order that replay needs: the member's partitions before the member."""
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[GroupRecord]:
    """Everything of a group, in Kafka's order."""
    by_member = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(records[0] for records in by_member),
        *(records[1] for records in by_member),
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(records[2] for records in by_member),
        *(regular_expression_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
