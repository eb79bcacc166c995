"""The classic groups of a shard: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and their records.

The state within a rebalance is not written: parked members, ids without a member, a generation without an assignment.
After a restart the last complete generation counts, and members find out by their heartbeats. So commands change the
group directly, and the replay of their record finds it changed already; only a record that this shard did not just make
(at start, or from another coordinator) rebuilds the group.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.groups.call import Call
from ottla.groups.classic_group import ClassicGroup, ClassicState
from ottla.groups.classic_joins import ClassicJoins
from ottla.groups.classic_member import ParkedRequest
from ottla.groups.classic_rebalance import ClassicRebalances, Step
from ottla.groups.classic_responses import (
    heartbeat_answer,
    leaving,
    left,
    refuse_join,
    refuse_sync,
    sync_error,
    synced,
    write_error,
)
from ottla.groups.state import ShardState
from ottla.machine import Answer, CoordinatorDecision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

COMPLETED_REBALANCES = "group-completed-rebalance-count"
_MANDATORY_PROTOCOL_VERSION = 5
"""SyncGroup: from it on, a member says which protocol it thinks was chosen."""


class ClassicGroups:
    """All classic groups of one shard. Every answer is equal to that of Kafka 4.3.1."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._rebalances = ClassicRebalances(state)
        self._joins = ClassicJoins(state, self._rebalances)

    # --- commands

    def join(self, request: JoinGroupRequest, call: Call) -> CoordinatorDecision[JoinGroupResponse]:
        """Park a member until the next generation begins."""
        return self._joins.join(request, call)

    def sync(self, request: SyncGroupRequest, call: Call) -> CoordinatorDecision[SyncGroupResponse]:
        """A member of the generation asks for its assignment; the leader's request has the assignments of all."""
        if call.api_version >= _MANDATORY_PROTOCOL_VERSION and (
            request.protocol_type is None or request.protocol_name is None
        ):
            return CoordinatorDecision([], sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if not request.group_id:
            return CoordinatorDecision([], sync_error(ErrorCode.INVALID_GROUP_ID))
        group = self._rebalances.find(request.group_id)
        if group is None or group.is_empty:
            return CoordinatorDecision([], sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        try:
            _check_sync(group, request)
        except KafkaError as error:
            return CoordinatorDecision([], sync_error(error.code))
        member = group.members[request.member_id]
        self._rebalances.note_sync(group, member.id)
        if group.current is ClassicState.STABLE:
            return CoordinatorDecision([], synced(group, member.assignment))
        step = Step(call.now, call.timestamp)
        if member.awaiting_sync is not None:
            step.answers.append(refuse_sync(member.awaiting_sync, ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = ParkedRequest(call.waiter, call.api_version)
        if group.is_leader(member.id):
            self._assign(group, request, step)
        return step.decide()

    def heartbeat(self, request: HeartbeatRequest, call: Call) -> CoordinatorDecision[HeartbeatResponse]:
        """A member is alive; the answer says whether it must join again."""
        return CoordinatorDecision([], heartbeat_answer(self._hear(request, call)))

    def leave(self, request: LeaveGroupRequest, call: Call) -> CoordinatorDecision[LeaveGroupResponse]:
        """Members leave, or an administrator removes them; each has its own result."""
        if not request.group_id:
            return CoordinatorDecision([], LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        step = Step(call.now, call.timestamp)
        group = self._rebalances.find(request.group_id)
        if group is not None and group.current is ClassicState.DEAD:
            return CoordinatorDecision([], LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        outcomes = []
        for identity in leaving(request, call.api_version):
            code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._let_go(group, identity, step)
            outcomes.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        if group is not None and not group.is_empty and any(outcome.error_code == 0 for outcome in outcomes):
            self._rebalances.start_or_go_on(group, step)
        if step.records:
            step.refused = partial(_leave_refused, step.answers)
        return step.decide(left(outcomes, call.api_version))

    # --- records and the coordinator's life

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self._rebalances.find(key.group)
        if value is None:
            if group is not None:
                self._rebalances.forget(group)
                del self._state.groups[key.group]
            return
        if group is not None and group.writing is value:
            group.writing = None
            return
        prepared = self._rebalances.take_prepared(key.group, value)
        self._state.groups[key.group] = prepared or ClassicGroup.of_record(key.group, value)

    def loaded(self, now: int, timestamp: int) -> None:
        """The shard is replayed: all sessions begin again, since no member could send heartbeats meanwhile."""
        for found in list(self._state.groups.values()):
            if not isinstance(found, ClassicGroup):
                continue
            for member in found.members.values():
                self._rebalances.expect_heartbeat(found, member, now)
            if found.is_unassigned or len(found.members) > self._state.config.group_max_size:
                # Rebalance the group: the rebalance after a downgrade is missing and nothing else would start it; or
                # the size limit was lowered, and members that join too late are refused.
                step = Step(now, timestamp)
                self._rebalances.prepare(found, step)
                assert not step.records and not step.answers, "no member waits in a group that was just read"

    def unload(self, error: KafkaError, call: Call) -> list[Answer]:
        """The shard is dropped: all parked requests are answered."""
        answers: list[Answer] = []
        for group in self._state.groups.values():
            if isinstance(group, ClassicGroup):
                answers += self.answer_all(group, error.code)
                self._rebalances.forget(group)
                group.transition(ClassicState.DEAD, call.timestamp)
        return answers

    # --- for the other parts of the shard

    def create_group(self, group_id: str) -> None:
        """A group in which only offsets are committed is created with the first of them; it has no record."""
        self._state.groups[group_id] = ClassicGroup(group_id, timestamp=-1)

    def keep_session(self, group_id: str, member_id: str, now: int) -> None:
        """A commit shows that a member is alive. While assignments are made, its SyncGroup or heartbeats show it."""
        group = self._rebalances.find(group_id)
        if group is None or group.current not in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            return
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.expect_heartbeat(group, member, now)

    def prepare_group(self, group: ClassicGroup) -> None:
        """Create a group when the record made by `group.record` is replayed, with its complete state."""
        self._rebalances.prepare_group(group)

    def abandon_group(self, group: ClassicGroup) -> None:
        """The record of a prepared group could not be written: drop the group."""
        self._rebalances.abandon_group(group)

    def converted(self, group: ClassicGroup, now: int, timestamp: int, *, is_rebalancing: bool) -> list[Answer]:
        """A group of another type was converted to this one: its members' sessions begin, and perhaps a rebalance."""
        step = Step(now, timestamp)
        for member in group.members.values():
            self._rebalances.expect_heartbeat(group, member, now)
        if is_rebalancing:
            self._rebalances.prepare(group, step)
        assert not step.records
        return step.answers

    def answer_all(self, group: ClassicGroup, code: ErrorCode) -> list[Answer]:
        """Answer every parked request of the group with an error."""
        answers = []
        for member in group.members.values():
            waiting = group.end_join(member)
            if waiting is not None:
                answers.append(refuse_join(waiting, code, member.id))
            if member.awaiting_sync is not None:
                answers.append(refuse_sync(member.awaiting_sync, code))
                member.awaiting_sync = None
        return answers

    # --- SyncGroup

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest, step: Step) -> None:
        """The leader has assigned: the generation is written, and every parked member gets its assignment."""
        given = {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        step.records.append(group.record(assignments))
        waiting = []
        for member in group.members.values():
            member.assignment = assignments[member.id]
            if member.awaiting_sync is not None:
                waiting.append(member.awaiting_sync)
                step.answers.append(Answer(member.awaiting_sync.waiter, synced(group, member.assignment)))
                member.awaiting_sync = None
                self._rebalances.expect_heartbeat(group, member, step.now)
        group.transition(ClassicState.STABLE, step.timestamp)
        self._state.counts[COMPLETED_REBALANCES] += 1
        step.refused = partial(self._assignment_refused, group, waiting)

    def _assignment_refused(
        self, group: ClassicGroup, waiting: list[ParkedRequest], error: KafkaError, call: Call
    ) -> CoordinatorDecision[Any]:
        """The assignment could not be written, so no member may use it: all join again."""
        self._state.counts[COMPLETED_REBALANCES] -= 1
        group.writing = None
        for member in group.members.values():
            member.assignment = b""
        step = Step(call.now, call.timestamp)
        step.answers += (refuse_sync(each, write_error(error.code)) for each in waiting)
        self._rebalances.prepare(group, step)
        assert not step.records
        return step.decide()

    # --- Heartbeat and LeaveGroup

    def _hear(self, request: HeartbeatRequest, call: Call) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._rebalances.find(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.current is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            group.check_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            return error.code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalances.expect_heartbeat(group, group.members[request.member_id], call.now)
        is_preparing = group.current is ClassicState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def _let_go(self, group: ClassicGroup, identity: MemberIdentity, step: Step) -> ErrorCode:
        member_id = identity.member_id
        if not member_id:
            # An administrator names static members only by instance id.
            found = None if identity.group_instance_id is None else group.static_members.get(identity.group_instance_id)
            if found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id in group.pending_joins:
            group.remove(member_id)
            self._rebalances.forget_member(group, member_id)
            return ErrorCode.NONE
        else:
            try:
                group.check_member(member_id, identity.group_instance_id)
            except KafkaError as error:
                return error.code
        self._rebalances.drop(group, group.members[member_id], step)
        return ErrorCode.NONE


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.current is ClassicState.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type or None) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.current is ClassicState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def _differs(said: str | None, chosen: str | None) -> bool:
    return said is not None and chosen is not None and said != chosen


def _leave_refused(answers: list[Answer], error: KafkaError, call: Call) -> CoordinatorDecision[LeaveGroupResponse]:
    """The members have left all the same; only the record of the empty group is missing."""
    return CoordinatorDecision([], LeaveGroupResponse(error_code=write_error(error.code)), answers=answers)
