"""The share groups of a shard (KIP-932): ShareGroupHeartbeat and ShareGroupDescribe, their records, and the states of
their partitions in the share coordinator.

A member joins with epoch 0 and its subscription; later heartbeats show that it is alive; epoch -1 leaves. The answer
has the member's epoch and, when they change, its partitions. Effects initialize the states of partitions; their result
comes back as a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ottla.cluster import ClusterImage, ImageChanges
from ottla.groups.assignors import EMPTY, Assignment
from ottla.groups.call import Call
from ottla.groups.metadata_hash import group_hash, topic_hash
from ottla.groups.records import GroupRecord
from ottla.groups.share.assignor import assign_simple
from ottla.groups.share.group import Partitions, ShareGroup, ShareMember, replayed_partitions
from ottla.groups.share.group_records import (
    current_assignment_record,
    group_epoch_record,
    member_metadata_record,
    member_tombstones,
    state_partition_record,
    target_assignment_metadata_record,
    target_assignment_record,
)
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.state import ShardState
from ottla.machine import CoordinatorDecision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from ottla.wire.messages.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from ottla.wire.messages.records.share_group_metadata_key import ShareGroupMetadataKey
from ottla.wire.messages.records.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from ottla.wire.messages.records.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from ottla.wire.messages.records.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from ottla.wire.messages.share_group_describe import DescribedGroup
from ottla.wire.messages.share_group_heartbeat import Assignment as ToldAssignment
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
MAX_ID_BYTES = 32767
"""Ids are part of records' keys, where a string has a length of two bytes."""
REBALANCES = "share-group-rebalance"
PENDING_HEARTBEAT_INTERVAL_MS = 500
"""The heartbeat interval while a member's partitions are being initialized: with the usual 5 s a new group would wait
that long for its first record.
"""
SHARE_GROUP_KEYS: frozenset[type[Message]] = frozenset(
    (
        ShareGroupMetadataKey,
        ShareGroupMemberMetadataKey,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupStatePartitionMetadataKey,
    )
)


class InitializeShareState(NamedTuple):
    """An effect: the share coordinator initializes these partitions, which may then be assigned."""

    group_id: str
    state_epoch: int
    partitions: Partitions


class ShareGroups:
    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._topic_hashes: dict[str, int] = {}
        self._initializing_until: dict[tuple[str, bytes], int] = {}
        """Not persisted: by group and topic id, until when an initialization in flight is waited for."""

    # Commands; errors are answered, never raised.

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ShareGroupHeartbeatResponse]:
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ShareGroup) and _changes_nothing(group, request, call):
            response = self._alive(group.id, request.member_id, request.member_epoch, call, is_pending=False)
            return CoordinatorDecision([], response)
        try:
            _check(request)
            if request.member_epoch == LEAVING_EPOCH:
                return self._leave(request, call)
            return self._heartbeat(request, call)
        except KafkaError as error:
            return CoordinatorDecision(
                [], ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            )

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        described = []
        for group_id in group_ids:
            try:
                described.append(self.group(group_id).describe_share_group(self._state.image))
            except KafkaError as error:
                described.append(DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id))
        return described

    def group(self, group_id: str) -> ShareGroup:
        group = self._state.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        reason = "not found." if group is None else "is not a share group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}")

    # Heartbeats.

    def _heartbeat(
        self, request: ShareGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ShareGroupHeartbeatResponse]:
        is_joining = request.member_epoch == JOINING_EPOCH
        found = self._state.groups.get(request.group_id)
        if found is None and not is_joining:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
        group = ShareGroup(request.group_id) if found is None else self.group(request.group_id)
        before = group.members.get(request.member_id) if is_joining else group.member(request.member_id)
        max_size = self._state.config.group_share_max_size
        if before is None and len(group.members) >= max_size:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {max_size} members.",
            )
        if before is not None:
            _check_epoch(before, request.member_epoch)
        member = _updated(before or ShareMember(request.member_id), request, call)
        records: list[GroupRecord] = []
        if member != before:
            records.append(member_metadata_record(group.id, member))
        epoch = group.epoch
        topics = group.topics_with(before, member)
        is_changed = before is None or before.topics != member.topics
        if is_changed or group.needs_refresh:
            metadata_hash = self._metadata_hash(topics)
            if is_changed or metadata_hash != group.metadata_hash:
                epoch += 1
                records.append(group_epoch_record(group.id, epoch, metadata_hash))
                self._state.counts[REBALANCES] += 1
            group.refreshed_epoch = epoch
        target_epoch, target = self._target(group, before, member, epoch, records, call)
        member = self._moved(group, member, target_epoch, target, records)
        effects = self._initialize(group, topics, epoch, records, call.now)
        is_pending = bool(effects or group.partitions.initializing) or epoch > target_epoch
        response = self._alive(group.id, member.id, member.epoch, call, is_pending=is_pending)
        if (
            is_joining
            or request.subscribed_topic_names is not None
            or member.assigned != (EMPTY if before is None else before.assigned)
        ):
            response.assignment = _told(member.assigned)
        return CoordinatorDecision(records, response, effects=effects)

    def _alive(
        self, group_id: str, member_id: str, epoch: int, call: Call, *, is_pending: bool
    ) -> ShareGroupHeartbeatResponse:
        """The member sent a heartbeat: its session begins again. `is_pending`: it can expect another assignment
        soon.
        """
        config = self._state.group_config(group_id)
        self._schedule_session(group_id, member_id, config.share_session_timeout_ms, call.now)
        interval_ms = config.share_heartbeat_interval_ms
        if is_pending:
            interval_ms = min(interval_ms, PENDING_HEARTBEAT_INTERVAL_MS)
        return ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms)

    def _target(
        self,
        group: ShareGroup,
        before: ShareMember | None,
        member: ShareMember,
        epoch: int,
        records: list[GroupRecord],
        call: Call,
    ) -> tuple[int, Assignment]:
        """A new target assignment if it is due: its epoch, and the member's target."""
        if epoch <= group.assignment_epoch or not self._may_compute(group, call.timestamp):
            return group.assignment_epoch, group.targets.get(member.id, EMPTY)
        by_name = self._state.image.topics_by_name
        members = {**group.members, member.id: member}
        ids_of: dict[tuple[str, ...], list[bytes]] = {}
        for one in members.values():
            if one.topics not in ids_of:
                ids_of[one.topics] = sorted(by_name[name].id for name in one.topics if name in by_name)
        partitions = {
            topic_id: sorted(index for index in indexes if index in topic.partitions)
            for topic_id, indexes in group.partitions.initialized.items()
            if (topic := self._state.image.topics_by_id.get(topic_id)) is not None
        }
        targets = assign_simple({id: ids_of[one.topics] for id, one in members.items()}, partitions, group.targets)
        for id, assignment in targets.items():
            if group.targets.get(id) != assignment:
                records.append(target_assignment_record(group.id, id, assignment))
        records.append(target_assignment_metadata_record(group.id, epoch, call.timestamp))
        return epoch, targets[member.id]

    def _may_compute(self, group: ShareGroup, timestamp: int) -> bool:
        """Whether the last target assignment is old enough: a group that many members join at once is assigned in bulk.
        A wall clock that was set back does not delay it."""
        interval_ms = self._state.group_config(group.id).share_assignment_interval_ms
        if not group.assignment_timestamp or not any(group.targets.values()):
            return True
        return not 0 <= timestamp - group.assignment_timestamp < interval_ms

    def _moved(
        self, group: ShareGroup, member: ShareMember, epoch: int, target: Assignment, records: list[GroupRecord]
    ) -> ShareMember:
        """The member with its target, for the topics that it subscribes to."""
        by_name = self._state.image.topics_by_name
        subscribed = {by_name[name].id for name in member.topics if name in by_name}
        assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in subscribed}
        if member.epoch == epoch and member.assigned == assigned:
            return member
        previous_epoch = member.epoch if member.epoch != epoch else member.previous_epoch
        moved = replace(member, epoch=epoch, previous_epoch=previous_epoch, assigned=assigned)
        records.append(current_assignment_record(group.id, moved))
        return moved

    def _initialize(
        self, group: ShareGroup, topics: Sequence[str], epoch: int, records: list[GroupRecord], now: int
    ) -> list[InitializeShareState]:
        """Request states for subscribed partitions that have none, unless a request is in flight."""
        missing: Partitions = {}
        names: dict[bytes, str] = {}
        for name in topics:
            topic = self._state.image.topics_by_name.get(name)
            if topic is None or self._initializing_until.get((group.id, topic.id), now) > now:
                continue
            indexes = topic.partitions.keys() - group.partitions.initialized.get(topic.id, frozenset())
            if indexes:
                missing[topic.id] = frozenset(indexes)
                names[topic.id] = name
        if not missing:
            return []
        until = now + self._state.config.group_share_initialize_retry_interval_ms
        self._initializing_until.update(((group.id, topic_id), until) for topic_id in missing)
        records.append(state_partition_record(group.id, group.partitions.begun(missing, names)))
        return [InitializeShareState(group.id, epoch, missing)]

    # What the share coordinator answered.

    def initialized(self, group_id: str, done: Partitions, failed: Partitions, call: Call) -> CoordinatorDecision[None]:
        """The states of partitions were initialized, or could not be: a later heartbeat retries."""
        for topic_id in (*done, *failed):
            self._initializing_until.pop((group_id, topic_id), None)
        group = self._state.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return CoordinatorDecision([], None)
        known = self._state.image.topics_by_id
        done = {topic_id: indexes for topic_id, indexes in done.items() if topic_id in known}
        names = {topic_id: known[topic_id].name for topic_id in done}
        partitions = group.partitions.given_up(failed).done(done, names)
        records = [] if partitions == group.partitions else [state_partition_record(group_id, partitions)]
        if records and group.members and any(name in group.topic_counts for name in names.values()):
            records.append(group_epoch_record(group_id, group.epoch + 1, group.metadata_hash))
            self._state.counts[REBALANCES] += 1
        return CoordinatorDecision(records, None)

    # Offsets, for administrators.

    def check_empty(self, group_id: str) -> ShareGroup:
        """The group, if its offsets may be altered or deleted."""
        group = self.group(group_id)
        if group.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        return group

    def begin_alter(self, group_id: str, partitions: Partitions) -> CoordinatorDecision[int]:
        """The new state epoch for the partitions: leaders with an older state are fenced. An unknown group is
        created.
        """
        found = self._state.groups.get(group_id)
        group = ShareGroup(group_id) if found is None else self.check_empty(group_id)
        records = [group_epoch_record(group_id, group.epoch, 0)] if found is None else []
        if partitions:
            names = {topic_id: self._state.image.topics_by_id[topic_id].name for topic_id in partitions}
            records.append(state_partition_record(group_id, group.partitions.begun(partitions, names)))
        return CoordinatorDecision(records, group.epoch)

    def begin_delete(self, group_id: str, topic_ids: Sequence[bytes]) -> CoordinatorDecision[list[SharePartitionKey]]:
        """The states to delete; from now on the group does not have these topics."""
        group = self.check_empty(group_id)
        keys = keys_of(group, topic_ids)
        records = [state_partition_record(group_id, group.partitions.being_deleted(topic_ids))] if keys else []
        return CoordinatorDecision(records, keys)

    def deleted(self, group_id: str, topic_ids: Sequence[bytes]) -> CoordinatorDecision[None]:
        group = self._state.groups.get(group_id)
        if not isinstance(group, ShareGroup) or not group.partitions.deleting.intersection(topic_ids):
            return CoordinatorDecision([], None)
        partitions = replace(group.partitions, deleting=group.partitions.deleting - set(topic_ids))
        return CoordinatorDecision([state_partition_record(group_id, partitions)], None)

    # Members go.

    def _leave(
        self, request: ShareGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ShareGroupHeartbeatResponse]:
        group = self.group(request.group_id)
        member = group.member(request.member_id)
        response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVING_EPOCH)
        return self._fence(group, member, response)

    def _fence(self, group: ShareGroup, member: ShareMember, reply: Any) -> CoordinatorDecision[Any]:
        records = member_tombstones(group.id, member.id)
        metadata_hash = self._metadata_hash(group.topics_with(member, None))
        records.append(group_epoch_record(group.id, group.epoch + 1, metadata_hash))
        self._state.timers.cancel(("share-session", group.id, member.id))
        return CoordinatorDecision(records, reply, refused=partial(self._fence_refused, group, member, reply))

    def _fence_refused(
        self, group: ShareGroup, member: ShareMember, reply: Any, error: KafkaError, call: Call
    ) -> CoordinatorDecision[Any]:
        """Nothing was written: it is still a member, and its session begins again."""
        timeout_ms = self._state.group_config(group.id).share_session_timeout_ms
        self._schedule_session(group.id, member.id, timeout_ms, call.now)
        return CoordinatorDecision([], None if reply is None else type(reply)(error_code=error.code))

    def _schedule_session(self, group_id: str, member_id: str, timeout_ms: int, now: int) -> None:
        self._state.timers.schedule(
            ("share-session", group_id, member_id), now + timeout_ms, partial(self._expire, group_id, member_id)
        )

    def _expire(self, group_id: str, member_id: str, now: int, timestamp: int) -> CoordinatorDecision[None]:
        group = self._state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
        if member is None:
            return CoordinatorDecision([], None)
        assert isinstance(group, ShareGroup)
        return self._fence(group, member, None)

    # Records, and the world.

    def loaded(self, now: int) -> None:
        """All records are replayed: members have a whole session for their next heartbeat."""
        for group in self._state.groups.values():
            if isinstance(group, ShareGroup):
                timeout_ms = self._state.group_config(group.id).share_session_timeout_ms
                for member_id in group.members:
                    self._schedule_session(group.id, member_id, timeout_ms, now)

    def metadata_changed(self, changes: ImageChanges, image: ClusterImage) -> None:
        """Groups that read a changed topic check their topics at the next heartbeat."""
        names = {topic.name for topic in (*changes.topics_created.values(), *changes.topics_deleted.values())}
        for (topic_id, index), before in changes.partitions_changed.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                after = topic.partitions.get(index)
                if before is None or after is None or before.replicas != after.replicas:
                    names.add(topic.name)
        for name in names:
            self._topic_hashes.pop(name, None)
        for group in self._state.groups.values():
            if isinstance(group, ShareGroup) and not names.isdisjoint(group.topic_counts):
                group.refreshed_epoch = None

    def topics_deleted(self, topic_ids: Iterable[bytes]) -> list[GroupRecord]:
        """The records with which groups forget deleted topics; the share coordinator forgets their states by itself."""
        gone = set(topic_ids)
        records = []
        for group in self._state.groups.values():
            if isinstance(group, ShareGroup):
                partitions = group.partitions.without(gone)
                if partitions != group.partitions:
                    records.append(state_partition_record(group.id, partitions))
        return records

    def replay(self, key: Any, value: Any) -> None:
        """Apply a record of a share group. Tombstones of unknown things are ignored."""
        group = self._state.groups.get(key.group_id)
        if not isinstance(group, ShareGroup):
            if value is None:
                return
            group = self._state.groups[key.group_id] = ShareGroup(key.group_id)
        kind = type(key)
        if kind is ShareGroupMetadataKey:
            if value is None:
                del self._state.groups[group.id]
            else:
                group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif kind is ShareGroupMemberMetadataKey:
            _replay_member(group, key.member_id, value)
        elif kind is ShareGroupTargetAssignmentMetadataKey:
            group.assignment_epoch = -1 if value is None else value.assignment_epoch
            group.assignment_timestamp = 0 if value is None else value.assignment_timestamp
        elif kind is ShareGroupTargetAssignmentMemberKey:
            if value is None:
                group.targets.pop(key.member_id, None)
            else:
                group.targets[key.member_id] = _assignment(value.topic_partitions)
        elif kind is ShareGroupCurrentMemberAssignmentKey:
            _replay_assignment(group, key.member_id, value)
        elif kind is ShareGroupStatePartitionMetadataKey and value is not None:
            group.partitions = replayed_partitions(value)

    def _metadata_hash(self, topics: Iterable[str]) -> int:
        image = self._state.image
        hashes = []
        for name in topics:
            topic = image.topics_by_name.get(name)
            if topic is not None:
                known = self._topic_hashes.get(name)
                if known is None:
                    known = self._topic_hashes[name] = topic_hash(topic, image)
                hashes.append(known)
        return group_hash(hashes)


def keys_of(group: ShareGroup, topic_ids: Iterable[bytes]) -> list[SharePartitionKey]:
    """The share partitions of topics that may have a state."""
    return [
        SharePartitionKey(group.id, topic_id, index)
        for topic_id in topic_ids
        for index in sorted(group.partitions.of_topic(topic_id))
    ]


def _replay_member(group: ShareGroup, member_id: str, value: Any) -> None:
    if value is None:
        group.remove_member(member_id)
        return
    member = group.members.get(member_id) or ShareMember(member_id)
    group.update_member(
        replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(set(value.subscribed_topic_names))),
        )
    )


def _replay_assignment(group: ShareGroup, member_id: str, value: Any) -> None:
    member = group.members.get(member_id)
    if value is None:
        if member is not None:
            group.update_member(replace(member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=EMPTY))
        return
    group.update_member(
        replace(
            member or ShareMember(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_assignment(value.assigned_partitions),
        )
    )


def _assignment(topics: Iterable[Any]) -> Assignment:
    return {
        topic.topic_id: tuple(sorted(topic.partitions)) for topic in sorted(topics, key=lambda topic: topic.topic_id)
    }


def _told(assigned: Assignment) -> ToldAssignment:
    return ToldAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in assigned.items()
        ]
    )


def _changes_nothing(group: ShareGroup, request: ShareGroupHeartbeatRequest, call: Call) -> bool:
    """Whether it is the usual heartbeat: from a member that has its target, and asks for no change."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and member.epoch == request.member_epoch == group.assignment_epoch == group.epoch
        and request.subscribed_topic_names is None
        and request.rack_id is None
        and call.client_id == member.client_id
        and call.client_host == member.client_host
        and not group.partitions.initializing
        and not group.needs_refresh
    )


def _check(request: ShareGroupHeartbeatRequest) -> None:
    if not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if request.rack_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        if not request.subscribed_topic_names:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
        for name, id in (("GroupId", request.group_id), ("MemberId", request.member_id)):
            if len(id) > MAX_ID_BYTES or len(id.encode()) > MAX_ID_BYTES:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is longer than {MAX_ID_BYTES} bytes.")
    elif request.member_epoch < LEAVING_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """KafkaError unless the member's epoch is its last one, or the previous one (the answer was lost)."""
    if epoch in (JOINING_EPOCH, member.epoch, member.previous_epoch):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _updated(member: ShareMember, request: ShareGroupHeartbeatRequest, call: Call) -> ShareMember:
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
    )
