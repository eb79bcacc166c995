"""The consumer groups of a shard (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe, and their records.

A member joins with epoch 0 and its subscription; later heartbeats show that it is alive, and list its partitions when
these change. The answer has the member's epoch and, when they change, its partitions. Epoch -1 leaves; -2 leaves as a
static member that will return. No request ever waits for an answer.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import replace

from ottla.cluster import ImageChanges
from ottla.groups.assignors import assignor_names
from ottla.groups.call import Call
from ottla.groups.classic_groups import ClassicGroups
from ottla.groups.consumer_classic import ClassicMembers
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NOTHING,
    STABLE,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    Ownership,
)
from ottla.groups.consumer_records import current_assignment_record
from ottla.groups.consumer_replay import ConsumerReplay
from ottla.groups.conversion import Conversion
from ottla.groups.membership import Membership, Step
from ottla.groups.reconciliation import Owned
from ottla.groups.records import GroupRecord
from ottla.groups.state import ShardState
from ottla.machine import CoordinatorDecision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import DescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MAX_ID_BYTES = 32767
"""Ids are part of records' keys, where a string has a length of two bytes."""
_CLIENT_MEMBER_ID_VERSION = 1
"""From this version on members choose their own ids, so that a repeated join counts once."""


class ConsumerGroups:
    def __init__(self, state: ShardState, classic: ClassicGroups) -> None:
        self._state = state
        self._membership = Membership(state)
        self._conversion = Conversion(state, classic, self._membership)
        self._membership.downgrade = self._conversion.downgrade_without
        self._classic_members = ClassicMembers(state, self._membership, self._conversion)
        self._replay = ConsumerReplay(state)

    # commands; errors are answered, never raised

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ConsumerGroupHeartbeatResponse]:
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and _changes_nothing(group, request, call):
            return CoordinatorDecision([], self._alive(group, request.member_id, request.member_epoch, call))
        try:
            self._check(request, call.api_version)
            if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
                return self._leave(request, call)
            return self._heartbeat(request, call)
        except KafkaError as error:
            return CoordinatorDecision(
                [], ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            )

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        described = []
        for group_id in group_ids:
            group = self._state.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                described.append(group.describe_consumer_group(self._state.image, self._membership.default_assignor))
            else:
                reason = "not found." if group is None else "is not a consumer group."
                described.append(
                    DescribedGroup(
                        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                        error_message=f"Group {group_id} {reason}",
                        group_id=group_id,
                    )
                )
        return described

    def classic_join(self, request: JoinGroupRequest, call: Call) -> CoordinatorDecision[JoinGroupResponse]:
        return self._classic_members.join(request, call)

    def classic_sync(self, request: SyncGroupRequest, call: Call) -> CoordinatorDecision[SyncGroupResponse]:
        return self._classic_members.sync(request, call)

    def classic_heartbeat(self, request: HeartbeatRequest, call: Call) -> CoordinatorDecision[HeartbeatResponse]:
        return self._classic_members.heartbeat(request, call)

    def classic_leave(self, request: LeaveGroupRequest, call: Call) -> CoordinatorDecision[LeaveGroupResponse]:
        return self._classic_members.leave(request, call)

    # records, and the world

    def replay(self, key: Message, value: Message | None) -> None:
        """Apply a record of one of the consumer groups' kinds."""
        self._replay.replay(key, value)

    def loaded(self, now: int) -> None:
        self._membership.loaded(now)

    def metadata_changed(self, changes: ImageChanges, now: int) -> None:
        """The topics changed; `ShardState.image` is already the new one."""
        self._membership.metadata_changed(changes, self._state.image)

    # heartbeats

    def _check(self, request: ConsumerGroupHeartbeatRequest, api_version: int) -> None:
        epoch = request.member_epoch
        if not request.member_id and (api_version >= _CLIENT_MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVING_EPOCH):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
        if request.instance_id == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "InstanceId can't be empty.")
        if request.rack_id == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
        if epoch == JOINING_EPOCH:
            _check_join(request)
        elif epoch == STATIC_LEAVING_EPOCH:
            if request.instance_id is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
        elif epoch < STATIC_LEAVING_EPOCH:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
        if request.server_assignor is not None:
            names = assignor_names(self._state.config.group_consumer_assignors)
            if request.server_assignor not in names:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_ASSIGNOR,
                    f"ServerAssignor {request.server_assignor} is not supported. "
                    f"Supported assignors: {', '.join(names)}.",
                )

    def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ConsumerGroupHeartbeatResponse]:
        is_joining = request.member_epoch == JOINING_EPOCH
        records: list[GroupRecord] = []
        group = self._state.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            if not is_joining:
                reason = "is not a consumer group." if group is not None else "not found."
                word = "Group" if group is not None else "Consumer group"
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{word} {request.group_id} {reason}")
            group, records = self._conversion.consumer_group(request.group_id)
        self._check_room(group, request.member_id)
        owned = _owned(request)
        step = self._member_step(group, request, owned, records, is_joining=is_joining)
        before = step.member
        step.member = _updated(before, request, call)
        self._membership.subscribe(step, call)
        self._membership.advance(step, owned, call)
        answers = self._conversion.upgraded(group, call.now) if is_joining else []
        member = step.member
        response = self._alive(group, member.id, member.epoch, call)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        if is_joining or is_full or (member.assigned is not before.assigned and member.assigned != before.assigned):
            response.assignment = _assignment(member.assigned)
        return CoordinatorDecision(step.records, response, answers=answers)

    def _alive(self, group: ConsumerGroup, member_id: str, epoch: int, call: Call) -> ConsumerGroupHeartbeatResponse:
        """The member sent a heartbeat: its session begins again."""
        config = self._state.group_config(group.id)
        self._membership.schedule_session(group.id, member_id, config.consumer_session_timeout_ms, call.now)
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=config.consumer_heartbeat_interval_ms
        )

    def _check_room(self, group: ConsumerGroup, member_id: str) -> None:
        max_size = self._state.config.group_consumer_max_size
        if len(group.members) >= max_size and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {max_size} members.",
            )

    def _member_step(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        owned: Owned | None,
        records: list[GroupRecord],
        *,
        is_joining: bool,
    ) -> Step:
        """The member that sent a heartbeat; if it joins it may be new, or replace a static member."""
        member_id = request.member_id or self._new_member_id()
        if request.instance_id is None:
            known = group.members.get(member_id) if is_joining else group.member(member_id)
            if known is None:
                return Step(group, None, ConsumerMember(member_id), records)
            _check_epoch(known, request.member_epoch, owned)
            return Step(group, known, known, records)
        holder = group.static_member(request.instance_id)
        if not is_joining:
            holder = known_static_member(holder, request.instance_id, member_id)
            _check_epoch(holder, request.member_epoch, owned)
            return Step(group, holder, holder, records)
        if holder is None:
            known = group.members.get(member_id)
            return Step(group, known, known or ConsumerMember(member_id), records)
        if not holder.is_classic and holder.epoch != STATIC_LEAVING_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
                f"instance id is owned by {holder.id} member.",
            )
        member = replace(holder, id=member_id, epoch=0, previous_epoch=0)
        step = Step(group, member, member, records)
        self._membership.replace_static(step, holder)
        return step

    def _new_member_id(self) -> str:
        """In the text form of Kafka's Uuid."""
        while True:
            id = urlsafe_b64encode(self._state.rng.randbytes(16)).rstrip(b"=").decode()
            if not id.startswith("-"):
                return id

    # leaving

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ConsumerGroupHeartbeatResponse]:
        group = self._state.group(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.id} is not a consumer group.")
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            holder = group.static_member(request.instance_id)
            member = known_static_member(holder, request.instance_id, request.member_id)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch == LEAVING_EPOCH:
            return self._membership.fence(group, [member], response, call)
        # its partitions stay for the next member with the instance id, which may commit them
        assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
        waiting = replace(member, epoch=STATIC_LEAVING_EPOCH, assigned=assigned, pending_revocation=NOTHING)
        return CoordinatorDecision([current_assignment_record(group.id, waiting)], response)


def _changes_nothing(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, call: Call) -> bool:
    """Whether it is the usual heartbeat: from a member that has reached its target and asks for no change. Only the
    member itself is examined, however large the group is.
    """
    member = group.members.get(request.member_id)
    return (
        member is not None
        and member.epoch == request.member_epoch == group.assignment_epoch == group.epoch
        and member.state == STABLE
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id == member.instance_id
        and call.client_id == member.client_id
        and call.client_host == member.client_host
        and member.classic is None
        and not group.subscriptions.regexes
        and not group.needs_refresh
    )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    for name, id in (("GroupId", request.group_id), ("MemberId", request.member_id)):
        if len(id) > MAX_ID_BYTES or len(id.encode()) > MAX_ID_BYTES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is longer than {MAX_ID_BYTES} bytes.")


def known_static_member(holder: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    """The member with an instance id, if the request comes from it."""
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.id}.",
        )
    return holder


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """KafkaError unless the member's epoch is its last one, or the previous one with unchanged partitions (the answer
    was lost).
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    was_before = epoch < member.epoch and epoch == member.previous_epoch
    if was_before and owned is not None and _has_all(member.assigned, owned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _has_all(assigned: Ownership, owned: Owned) -> bool:
    return all(
        topic_id in assigned and all(partition in assigned[topic_id] for partition in partitions)
        for topic_id, partitions in owned.items()
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, list[int]] = {}
    for topic in request.topic_partitions:
        owned.setdefault(topic.topic_id, []).extend(topic.partitions)
    return owned


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerMember:
    """The member with the changes of its heartbeat; the same object if there are none."""
    names, regex, assignor = request.subscribed_topic_names, request.subscribed_topic_regex, request.server_assignor
    topics = member.topics if names is None else tuple(sorted(set(names)))
    timeout_ms = request.rebalance_timeout_ms
    if (
        topics == member.topics
        and (regex is None or regex == member.regex)
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and (request.rack_id is None or request.rack_id == member.rack_id)
        and (timeout_ms == -1 or timeout_ms == member.rebalance_timeout_ms)
        and (assignor is None or assignor == member.server_assignor)
        and call.client_id == member.client_id
        and call.client_host == member.client_host
        and member.classic is None
    ):
        return member
    return replace(
        member,
        topics=topics,
        regex=member.regex if regex is None else regex,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if assignor is None else assignor,
        client_id=call.client_id,
        client_host=call.client_host,
        classic=None,
    )


def _assignment(ownership: Ownership) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in ownership.items()
        ]
    )
