"""What the records of a streams group change in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.groups.streams.group import StreamsGroup, StreamsMember
from ottla.groups.streams.group_records import replayed_target, with_assignment, with_metadata
from ottla.groups.streams.requests import LEAVING_EPOCH
from ottla.groups.streams.tasks import NO_MEMBER_TASKS
from ottla.wire import Message
from ottla.wire.messages.records.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from ottla.wire.messages.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.wire.messages.records.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.messages.records.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from ottla.wire.messages.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from ottla.wire.messages.records.streams_group_topology_key import StreamsGroupTopologyKey

STREAMS_GROUP_KEYS: frozenset[type[Message]] = frozenset(
    (
        StreamsGroupMetadataKey,
        StreamsGroupMemberMetadataKey,
        StreamsGroupTopologyKey,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupCurrentMemberAssignmentKey,
    )
)


def replay_record(group: StreamsGroup, key: Any, value: Any) -> None:
    """Let a record take effect, but for the tombstone of the group itself."""
    kind = type(key)
    if kind is StreamsGroupMetadataKey:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = {config.key: config.value for config in value.last_assignment_configs or ()}
    elif kind is StreamsGroupTopologyKey:
        group.set_topology(value)
    elif kind is StreamsGroupMemberMetadataKey:
        if value is None:
            group.remove_member(key.member_id)
        else:
            member = group.members.get(key.member_id) or StreamsMember(key.member_id)
            group.update_member(with_metadata(member, value))
    elif kind is StreamsGroupTargetAssignmentMetadataKey:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp = 0 if value is None else value.assignment_timestamp
    elif kind is StreamsGroupTargetAssignmentMemberKey:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = replayed_target(value)
    elif kind is StreamsGroupCurrentMemberAssignmentKey:
        _replay_assignment(group, key.member_id, value)


def _replay_assignment(group: StreamsGroup, member_id: str, value: Any) -> None:
    member = group.members.get(member_id)
    if value is not None:
        group.update_member(with_assignment(member or StreamsMember(member_id), value))
    elif member is not None:
        group.update_member(
            replace(
                member,
                epoch=LEAVING_EPOCH,
                previous_epoch=LEAVING_EPOCH,
                assigned=NO_MEMBER_TASKS,
                revoking=NO_MEMBER_TASKS,
            )
        )
