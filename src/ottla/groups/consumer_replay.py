"""Applies the records of consumer groups: at once when they are written, and again at a start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_member import ConsumerMember
from ottla.groups.regex import ResolvedRegex
from ottla.groups.state import ShardState
from ottla.wire import Message
from ottla.wire.messages.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.wire.messages.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.wire.messages.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.wire.messages.records.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.wire.messages.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)

NO_ASSIGNMENT_EPOCH = -1


class ConsumerReplay:
    """Tombstones of unknown things are ignored: compaction may keep them longer than what they delete."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._handlers: dict[type[Message], Callable[[ConsumerGroup, Any, Any], None]] = {
            ConsumerGroupMetadataKey: self._group_metadata,
            ConsumerGroupPartitionMetadataKey: self._partition_metadata,
            ConsumerGroupMemberMetadataKey: self._member_metadata,
            ConsumerGroupTargetAssignmentMetadataKey: self._target_assignment_metadata,
            ConsumerGroupTargetAssignmentMemberKey: self._target_assignment,
            ConsumerGroupCurrentMemberAssignmentKey: self._current_assignment,
            ConsumerGroupRegularExpressionKey: self._regular_expression,
        }

    def replay(self, key: Any, value: Message | None) -> None:
        group = self._state.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            # the existing group was created by offsets that were committed before
            group = self._state.groups[key.group_id] = ConsumerGroup(key.group_id)
        self._handlers[type(key)](group, key, value)

    def _group_metadata(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        if value is None:
            del self._state.groups[group.id]
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _partition_metadata(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        group.has_partition_metadata = value is not None

    def _member_metadata(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        if value is None:
            group.remove_member(key.member_id)
        else:
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.update_member(member.with_metadata(value))

    def _target_assignment_metadata(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        if value is None:
            group.assignment_epoch = NO_ASSIGNMENT_EPOCH
            group.assignment_timestamp = 0
        else:
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp = value.assignment_timestamp

    def _target_assignment(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = {
                topic.topic_id: tuple(sorted(topic.partitions))
                for topic in sorted(value.topic_partitions, key=lambda topic: topic.topic_id)
            }

    def _current_assignment(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        member = group.members.get(key.member_id)
        if value is not None:
            group.update_member((member or ConsumerMember(key.member_id)).with_assignment(value))
        elif member is not None:
            group.update_member(member.without_assignment())

    def _regular_expression(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        group.subscriptions.resolve(
            key.regular_expression,
            None if value is None else ResolvedRegex(tuple(sorted(value.topics)), value.version, value.timestamp),
        )
