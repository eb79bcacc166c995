"""JoinGroup to a classic group: which members are admitted, under which id, and whether a rebalance follows."""

from __future__ import annotations

from functools import partial

from ottla.groups.call import Call
from ottla.groups.classic_group import ClassicGroup, ClassicState
from ottla.groups.classic_member import ClassicMember, ParkedRequest, Protocols
from ottla.groups.classic_rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, ClassicRebalances, Step
from ottla.groups.classic_responses import join_error, joined, refuse_join, refuse_sync, write_error
from ottla.groups.records import GroupRecord
from ottla.groups.state import ShardState
from ottla.machine import Answer, CoordinatorDecision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_REBALANCE_TIMEOUT_VERSION = 1
"""In older versions the session timeout is also the rebalance timeout."""
_MEMBER_ID_REQUIRED_VERSION = 4
_SKIP_ASSIGNMENT_VERSION = 9
_MAX_ID_PREFIX_BYTES = 32767 - 37
"""A member id is a client or instance id followed by a UUID, and a string on the wire has at most 32767 bytes."""

Reply = JoinGroupResponse | None
"""None if the request is parked."""


class ClassicJoins:
    def __init__(self, state: ShardState, rebalances: ClassicRebalances) -> None:
        self._state = state
        self._rebalances = rebalances

    def join(self, request: JoinGroupRequest, call: Call) -> CoordinatorDecision[JoinGroupResponse]:
        refusal = refuse(request, call, self._state)
        if refusal is not None:
            return CoordinatorDecision([], refusal)
        if call.api_version < _REBALANCE_TIMEOUT_VERSION:
            request.rebalance_timeout_ms = request.session_timeout_ms
        step = Step(call.now, call.timestamp)
        found = self._state.groups.get(request.group_id)
        if isinstance(found, ClassicGroup):
            reply = self._join_group(found, request, call, step)
            return step.decide(reply)
        if found is not None and not (found.type in ("consumer", "streams") and found.is_empty):
            return CoordinatorDecision([], join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, call.api_version))
        if request.member_id:
            return CoordinatorDecision([], join_error(ErrorCode.UNKNOWN_MEMBER_ID, call.api_version, request.member_id))
        return self._join_new_group(request, call, step, [] if found is None else found.tombstones())

    def _join_new_group(
        self, request: JoinGroupRequest, call: Call, step: Step, tombstones: list[GroupRecord]
    ) -> CoordinatorDecision[JoinGroupResponse]:
        """The first member creates the group, or replaces an empty consumer or streams group. It is written empty."""
        group = ClassicGroup(request.group_id, timestamp=call.timestamp)
        records = [*tombstones, group.record({})]
        self._rebalances.prepare_group(group)
        reply = self._join_group(group, request, call, step)
        assert not step.records
        step.records = records
        step.refused = partial(self._new_group_refused, group)
        return step.decide(reply)

    def _new_group_refused(
        self, group: ClassicGroup, error: KafkaError, call: Call
    ) -> CoordinatorDecision[JoinGroupResponse]:
        self._rebalances.abandon_group(group)
        return CoordinatorDecision([], join_error(write_error(error.code), call.api_version))

    def _join_group(self, group: ClassicGroup, request: JoinGroupRequest, call: Call, step: Step) -> Reply:
        member_id = request.member_id
        if not self._has_room(group, member_id):
            member = group.members.get(member_id)
            if member is not None:
                self._rebalances.drop(group, member, step)
            group.remove(member_id)
            self._rebalances.forget_member(group, member_id)
            return join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, call.api_version)
        if group.current is ClassicState.DEAD:
            return join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, call.api_version, member_id)
        protocols = Protocols.of(request.protocols)
        if not group.supports(request.protocol_type, protocols):
            return join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, call.api_version, member_id)
        if not member_id:
            return self._join_without_id(group, request, protocols, call, step)
        if member_id in group.pending_joins:
            if request.group_instance_id is not None:
                return join_error(ErrorCode.UNKNOWN_SERVER_ERROR, call.api_version)  # ids are given to dynamic ones
            return self._add(group, member_id, request, protocols, call, step)
        try:
            group.check_member(member_id, request.group_instance_id)
        except KafkaError as error:
            return join_error(error.code, call.api_version, member_id)
        return self._join_again(group, group.members[member_id], request, protocols, call, step)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether one more member fits. While a rebalance is prepared, only members that have joined it count."""
        max_size = self._state.config.group_max_size
        member = group.members.get(member_id)
        if group.current is ClassicState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join_count < max_size
        if group.current in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return member is not None or len(group.members) < max_size
        return True

    def _join_without_id(
        self, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, call: Call, step: Step
    ) -> Reply:
        instance_id = request.group_instance_id
        prefix = call.client_id if instance_id is None else instance_id
        new_id = self._state.new_member_id(prefix.encode()[:_MAX_ID_PREFIX_BYTES].decode(errors="ignore"))
        if instance_id is not None:
            known_id = group.static_members.get(instance_id)
            if known_id is None:
                return self._add(group, new_id, request, protocols, call, step)
            return self._replace(group, group.members[known_id], new_id, request, protocols, call, step)
        if call.api_version < _MEMBER_ID_REQUIRED_VERSION:
            return self._add(group, new_id, request, protocols, call, step)
        # If the client's connection breaks now it comes back with this id, not as another member.
        group.pending_joins[new_id] = None
        self._rebalances.expect_member(group, new_id, call.now, request.session_timeout_ms)
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, call.api_version, new_id)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        protocols: Protocols,
        call: Call,
        step: Step,
    ) -> Reply:
        member = ClassicMember(
            id=member_id,
            instance_id=request.group_instance_id,
            client_id=call.client_id,
            client_host=call.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols,
            awaiting_join=ParkedRequest(call.waiter, call.api_version),
            is_new=True,
        )
        if group.current is ClassicState.PREPARING_REBALANCE and group.previous is ClassicState.EMPTY:
            group.has_new_member = True
        group.add(member, request.protocol_type)
        self._rebalances.expect_heartbeat(group, member, call.now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalances.start_or_go_on(group, step)
        return None

    def _join_again(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        protocols: Protocols,
        call: Call,
        step: Step,
    ) -> Reply:
        """A member joins again: for a rebalance, with changed metadata, or because an answer was lost."""
        is_settled = group.current is not ClassicState.PREPARING_REBALANCE
        is_leader = group.is_leader(member.id)
        has_leaders_wish = is_leader and group.current is ClassicState.STABLE
        if is_settled and member.protocols == protocols and not has_leaders_wish:
            return joined(group, member.id, call.api_version, members=group.joined_members() if is_leader else None)
        self._update(group, member, request, protocols, call, step)
        self._rebalances.start_or_go_on(group, step)
        return None

    def _update(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        request: JoinGroupRequest,
        protocols: Protocols,
        call: Call,
        step: Step,
    ) -> None:
        group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        before = group.await_join(member, ParkedRequest(call.waiter, call.api_version))
        if before is not None:
            step.answers.append(refuse_join(before, ErrorCode.REBALANCE_IN_PROGRESS, member.id))

    # --- a static member that returns as a new process

    def _replace(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        new_id: str,
        request: JoinGroupRequest,
        protocols: Protocols,
        call: Call,
        step: Step,
    ) -> Reply:
        """The instance id passes to the requesting process; the previous one is fenced."""
        old_id, old_leader = member.id, group.leader
        before = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        step.answers += _fence(group, member)
        self._rebalances.forget_member(group, old_id)
        group.replace_static(member, new_id)
        member.is_new = False
        self._rebalances.expect_heartbeat(group, member, call.now)
        group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        if group.current is ClassicState.STABLE and group.select_protocol() == group.protocol_name:
            # Nothing changes for the other members, so there is no rebalance: that is the purpose of static members.
            assignments = {known.id: known.assignment for known in group.members.values()}
            step.records.append(group.record(assignments))
            step.refused = partial(self._replace_refused, group, member, old_id, old_leader, before, step.answers)
            return _rejoined(group, member.id, old_leader, call.api_version)
        group.await_join(member, ParkedRequest(call.waiter, call.api_version))
        if group.current is ClassicState.PREPARING_REBALANCE:
            self._rebalances.complete_if_all_joined(group, step)
        else:
            self._rebalances.prepare(group, step)
        return None

    def _replace_refused(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        old_id: str,
        old_leader: str | None,
        before: tuple[Protocols, int, int],
        answers: list[Answer],
        error: KafkaError,
        call: Call,
    ) -> CoordinatorDecision[JoinGroupResponse]:
        """The new id could not be written: the old one counts, as it would after a restart."""
        group.writing = None
        self._rebalances.forget_member(group, member.id)
        group.replace_static(member, old_id)
        group.update(member, *before)
        self._rebalances.expect_heartbeat(group, member, call.now)
        response = joined(group, "", call.api_version, leader=old_leader)
        response.error_code = write_error(error.code)
        return CoordinatorDecision([], response, answers=answers)


def refuse(request: JoinGroupRequest, call: Call, state: ShardState) -> JoinGroupResponse | None:
    """The error of a JoinGroup that holds for every type of group; None if there is none."""
    if not request.group_id:
        return join_error(ErrorCode.INVALID_GROUP_ID, call.api_version, request.member_id)
    config = state.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return join_error(ErrorCode.INVALID_SESSION_TIMEOUT, call.api_version, request.member_id)
    return None


def _fence(group: ClassicGroup, member: ClassicMember) -> list[Answer]:
    """Answer a request parked under the member's old id: it was replaced."""
    answers = []
    waiting = group.end_join(member)
    if waiting is not None:
        answers.append(refuse_join(waiting, ErrorCode.FENCED_INSTANCE_ID, member.id))
    if member.awaiting_sync is not None:
        answers.append(refuse_sync(member.awaiting_sync, ErrorCode.FENCED_INSTANCE_ID))
        member.awaiting_sync = None
    return answers


def _rejoined(group: ClassicGroup, member_id: str, old_leader: str | None, api_version: int) -> JoinGroupResponse:
    """A static member is back and nothing changed. A leader must not assign again: newer versions have a field for
    that; older ones get the id of the previous process as leader, which no member has any more.
    """
    if api_version < _SKIP_ASSIGNMENT_VERSION:
        return joined(group, member_id, api_version, leader=old_leader)
    is_leader = group.is_leader(member_id)
    members = group.joined_members() if is_leader else None
    return joined(group, member_id, api_version, members=members, skip_assignment=is_leader)
