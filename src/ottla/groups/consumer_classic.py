"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The coordinator assigns, so no member leads and none waits: JoinGroup answers at once with the member's epoch as the
generation, SyncGroup with its partitions in the leader's encoding, and Heartbeat says REBALANCE_IN_PROGRESS
when the member has to join again, to give partitions up or to get more. Its subscription lists the partitions that it
owns; an eager member has revoked all before it joins and owns none.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import replace
from functools import partial

from ottla.groups.call import Call
from ottla.groups.classic_joins import refuse
from ottla.groups.classic_responses import heartbeat_answer, join_error, leaving, left, sync_error
from ottla.groups.consumer_group import CONSUMER_PROTOCOL, ConsumerGroup
from ottla.groups.consumer_member import (
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ClassicMetadata,
    ClassicProtocol,
    ConsumerMember,
)
from ottla.groups.consumer_protocol import (
    decode_subscription,
    encode_assignment,
    partitions_by_topic_id,
)
from ottla.groups.conversion import Conversion
from ottla.groups.membership import Membership, Step
from ottla.groups.state import ShardState
from ottla.machine import CoordinatorDecision
from ottla.wire import WireError
from ottla.wire.consumer_protocol import protocol_version
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_REBALANCE_TIMEOUT_VERSION = 1
_MEMBER_ID_REQUIRED_VERSION = 4
_MANDATORY_PROTOCOL_VERSION = 5


class ClassicMembers:
    def __init__(self, state: ShardState, membership: Membership, conversion: Conversion) -> None:
        self._state = state
        self._membership = membership
        self._conversion = conversion

    def join(self, request: JoinGroupRequest, call: Call) -> CoordinatorDecision[JoinGroupResponse]:
        refusal = refuse(request, call, self._state)
        if refusal is not None:
            return CoordinatorDecision([], refusal)
        if call.api_version < _REBALANCE_TIMEOUT_VERSION:
            request.rebalance_timeout_ms = request.session_timeout_ms
        try:
            return self._join(self._group(request.group_id), request, call)
        except KafkaError as error:
            return CoordinatorDecision([], join_error(error.code, call.api_version))

    def sync(self, request: SyncGroupRequest, call: Call) -> CoordinatorDecision[SyncGroupResponse]:
        if call.api_version >= _MANDATORY_PROTOCOL_VERSION and (
            request.protocol_type is None or request.protocol_name is None
        ):
            return CoordinatorDecision([], sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        try:
            group = self._group(request.group_id)
            member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
            assert member.classic is not None
            _check_protocol(member.classic, request)
            self._check_rebalance(group, member, call)
        except KafkaError as error:
            return CoordinatorDecision([], sync_error(error.code))
        self._state.timers.cancel(("consumer-sync", group.id, member.id))
        self._membership.schedule_session(group.id, member.id, member.classic.session_timeout_ms, call.now)
        version = protocol_version(member.classic.protocols[0].metadata)
        return CoordinatorDecision(
            [],
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=encode_assignment(member.assigned, version, self._state.image),
            ),
        )

    def heartbeat(self, request: HeartbeatRequest, call: Call) -> CoordinatorDecision[HeartbeatResponse]:
        try:
            group = self._group(request.group_id)
            member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        except KafkaError as error:
            return CoordinatorDecision([], heartbeat_answer(error.code))
        assert member.classic is not None
        self._membership.schedule_session(group.id, member.id, member.classic.session_timeout_ms, call.now)
        if (
            member.epoch < group.assignment_epoch
            or member.state == UNREVOKED_PARTITIONS
            or (member.state == UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        ):
            self._schedule_join(group.id, member, call.now)
            return CoordinatorDecision([], heartbeat_answer(ErrorCode.REBALANCE_IN_PROGRESS))
        return CoordinatorDecision([], heartbeat_answer(ErrorCode.NONE))

    def leave(self, request: LeaveGroupRequest, call: Call) -> CoordinatorDecision[LeaveGroupResponse]:
        """Members of either protocol leave, or an administrator removes them; each has its own result."""
        try:
            group = self._group(request.group_id)
        except KafkaError as error:
            return CoordinatorDecision([], LeaveGroupResponse(error_code=error.code))
        members: dict[str, ConsumerMember] = {}
        outcomes = []
        for identity in leaving(request, call.api_version):
            code = ErrorCode.NONE
            try:
                member = _leaving_member(group, identity)
                members[member.id] = member
            except KafkaError as error:
                code = error.code
            outcomes.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        return self._membership.fence(group, list(members.values()), left(outcomes, call.api_version), call)

    def _group(self, group_id: str) -> ConsumerGroup:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        return group

    # joining

    def _join(
        self, group: ConsumerGroup, request: JoinGroupRequest, call: Call
    ) -> CoordinatorDecision[JoinGroupResponse]:
        if self._state.config.group_consumer_migration_policy == "disabled":
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self._new_member_id()
        if len(group.members) >= self._state.config.group_consumer_max_size and member_id not in group.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        names = [protocol.name for protocol in request.protocols]
        if not group.supports_classic_protocols(request.protocol_type, names):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if (
            not request.member_id
            and request.group_instance_id is None
            and call.api_version >= _MEMBER_ID_REQUIRED_VERSION
        ):
            return CoordinatorDecision([], join_error(ErrorCode.MEMBER_ID_REQUIRED, call.api_version, member_id))
        try:
            subscription = decode_subscription(bytes(request.protocols[0].metadata))
        except WireError:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        step = self._member_step(group, request, member_id)
        holder = group.static_member(request.group_instance_id)
        step.member = _updated(step.member, request, subscription, call)
        self._membership.subscribe(step, call)
        owned = partitions_by_topic_id(
            ((topic.topic, topic.partitions) for topic in subscription.owned_partitions), self._state.image
        )
        if holder is not None and self._conversion.may_downgrade_replacing(group, holder):
            # Kafka rebalances only when the target is outdated. But the target is what the classic group begins with: a
            # member that has not reached it would never get partitions that others just gave up for it.
            is_rebalancing = group.assignment_epoch < step.epoch or not all(
                member.is_reconciled_to(group.assignment_epoch) for member in group.members.values()
            )
            if not is_rebalancing:
                self._membership.reconcile(step, group.assignment_epoch, group.target(step.member), owned, call)
            reply = _joined(step.member)
            return self._conversion.downgrade_replacing(step, holder, reply, call, is_rebalancing=is_rebalancing)
        self._membership.advance(step, owned, call)
        self._state.timers.cancel(("consumer-join", group.id, step.member.id))
        self._membership.schedule_session(group.id, step.member.id, request.session_timeout_ms, call.now)
        self._schedule_fence("consumer-sync", group.id, step.member.id, request.rebalance_timeout_ms, call.now)
        return CoordinatorDecision(step.records, _joined(step.member))

    def _member_step(self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> Step:
        instance_id = request.group_instance_id
        if instance_id is None:
            known = group.members.get(member_id)
            return Step(group, known, known or ConsumerMember(member_id))
        holder = group.static_member(instance_id)
        if request.member_id:
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder.id != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
            return Step(group, holder, holder)
        if holder is None:
            return Step(group, None, ConsumerMember(member_id))
        member = replace(holder, id=member_id, epoch=0, previous_epoch=0)
        step = Step(group, member, member)
        self._membership.replace_static(step, holder)
        return step

    def _new_member_id(self) -> str:
        return urlsafe_b64encode(self._state.rng.randbytes(16)).rstrip(b"=").decode()

    # deadlines

    def _check_rebalance(self, group: ConsumerGroup, member: ConsumerMember, call: Call) -> None:
        if group.assignment_epoch > member.epoch and member.state != UNREVOKED_PARTITIONS:
            self._schedule_join(group.id, member, call.now)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def _schedule_join(self, group_id: str, member: ConsumerMember, now: int) -> None:
        """The member must join again; its time runs from the first time it was asked."""
        if ("consumer-join", group_id, member.id) not in self._state.timers:
            self._schedule_fence("consumer-join", group_id, member.id, member.rebalance_timeout_ms, now)

    def _schedule_fence(self, kind: str, group_id: str, member_id: str, timeout_ms: int, now: int) -> None:
        self._state.timers.schedule(
            (kind, group_id, member_id),
            now + timeout_ms,
            partial(self._membership.fence_by_id, group_id, member_id),
        )


def _updated(
    member: ConsumerMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, call: Call
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    updated = replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        client_id=call.client_id,
        client_host=call.client_host,
        classic=ClassicMetadata(
            request.session_timeout_ms,
            tuple(ClassicProtocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )
    return member if updated == member else updated


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=member.classic.protocols[0].name,
    )


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    holder = group.static_member(instance_id)
    if holder is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member with instance id {instance_id} is not a member of group {group.id}."
        )
    if holder.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.id}.",
        )
    return holder


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """A static member may be named only by its instance id."""
    if identity.group_instance_id is not None and not identity.member_id:
        holder = group.static_member(identity.group_instance_id)
        if holder is not None:
            return holder
    return _member(group, identity.member_id, identity.group_instance_id)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = _member(group, member_id, instance_id)
    if not member.is_classic:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.id} does not use the classic protocol.")
    if generation != member.epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} of {member.id}.",
        )
    return member


def _check_protocol(classic: ClassicMetadata, request: SyncGroupRequest) -> None:
    is_other_type = request.protocol_type is not None and request.protocol_type != CONSUMER_PROTOCOL
    is_other_name = request.protocol_name is not None and request.protocol_name != classic.protocols[0].name
    if is_other_type or is_other_name:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
