"""Rebalances of classic groups: when members must join, when a generation begins, and which members are removed for
silence.

Three deadlines drive it. The join deadline ends the wait for members (for a group that was empty a short one, extended
while members keep joining); the sync deadline drops members that joined a generation but never asked for their
assignment; the session deadline drops members without heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ottla.groups.call import Call
from ottla.groups.classic_group import ClassicGroup, ClassicState
from ottla.groups.classic_member import ClassicMember
from ottla.groups.classic_responses import joined, refuse_join, refuse_sync
from ottla.groups.records import GroupRecord
from ottla.groups.state import ShardState
from ottla.machine import Answer, CoordinatorDecision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member's first JoinGroup may wait. Nothing else shows whether the client is still there."""
RETRY_DELAY_MS = 100
"""The least time between two attempts to begin a generation, whatever the members' timeouts."""


@dataclass(slots=True)
class Step:
    """One command or deadline in progress: its time, and the decisions so far."""

    now: int
    timestamp: int
    records: list[GroupRecord] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    refused: Callable[[KafkaError, Call], CoordinatorDecision[Any]] | None = None

    def decide(self, reply: Any = None) -> CoordinatorDecision[Any]:
        return CoordinatorDecision(self.records, reply, answers=self.answers, refused=self.refused)


class ClassicRebalances:
    """The rebalances of all classic groups of a shard."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._prepared: dict[str, ClassicGroup] = {}
        """Groups that a decided record will create when it is replayed."""

    def find(self, group_id: str) -> ClassicGroup | None:
        """The group, unless it was deleted or has another type by now."""
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def prepare_group(self, group: ClassicGroup) -> None:
        self._prepared[group.id] = group

    def abandon_group(self, group: ClassicGroup) -> None:
        self.forget(group)
        self._prepared.pop(group.id, None)

    def take_prepared(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup | None:
        """The group that this record creates, with state that the record does not have."""
        group = self._prepared.pop(group_id, None)
        if group is None or group.writing is not value:
            return None
        group.writing = None
        return group

    # --- phases

    def start_or_go_on(self, group: ClassicGroup, step: Step) -> None:
        """Members changed: start a rebalance, or continue the present one."""
        if group.can_rebalance:
            self.prepare(group, step)
        else:
            self.complete_if_all_joined(group, step)

    def prepare(self, group: ClassicGroup, step: Step) -> None:
        """Start a rebalance; members learn of it from heartbeats, parked SyncGroups at once."""
        if group.current is ClassicState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if member.awaiting_sync is not None:
                    step.answers.append(refuse_sync(member.awaiting_sync, ErrorCode.REBALANCE_IN_PROGRESS))
                    member.awaiting_sync = None
                    self.expect_heartbeat(group, member, step.now)
        group.pending_syncs.clear()
        self._state.timers.cancel(_sync_key(group.id))
        is_initial = group.is_empty
        group.transition(ClassicState.PREPARING_REBALANCE, step.timestamp)
        if is_initial:
            group.has_new_member = False
            delay_ms = self._state.config.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._delay_initial(group, step.now, delay_ms, remaining_ms)
        elif group.have_all_joined:
            self.complete(group, step)
        else:
            self._expect_joins(group, step.now)

    def complete_if_all_joined(self, group: ClassicGroup, step: Step) -> None:
        """Begin the generation if all members have joined; a group that was empty always waits for more."""
        is_preparing = group.current is ClassicState.PREPARING_REBALANCE
        if is_preparing and group.previous is not ClassicState.EMPTY and group.have_all_joined:
            self.complete(group, step)

    def complete(self, group: ClassicGroup, step: Step) -> None:
        """Begin the next generation with those that have joined. Static members stay in it even if they have not."""
        self._state.timers.cancel(_join_key(group.id))
        if group.awaiting_join_count < len(group.members):
            missing = [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]
            for member in missing:
                self.drop(group, member, step)
        if not group.elect_joined_leader() and group.members:
            # Only silent static members are left; their sessions will end.
            self._expect_joins(group, step.now, RETRY_DELAY_MS)
            return
        group.next_generation(step.timestamp)
        if group.is_empty:
            step.records.append(group.record({}))
            # The previous generation remains the last one written; none of its members is alive.
            step.refused = lambda error, call: CoordinatorDecision([], None, answers=step.answers)
            return
        members = group.joined_members()
        for member in group.members.values():
            waiting = group.end_join(member)
            if waiting is not None:
                response = joined(
                    group, member.id, waiting.api_version, members=members if group.is_leader(member.id) else None
                )
                step.answers.append(Answer(waiting.waiter, response))
            self.expect_heartbeat(group, member, step.now)
            member.is_new = False
            group.pending_syncs[member.id] = None
        self._state.timers.schedule(
            _sync_key(group.id),
            step.now + group.rebalance_timeout_ms,
            partial(self._expire_syncs, group.id, group.generation),
        )

    def note_sync(self, group: ClassicGroup, member_id: str) -> None:
        """The member has asked for its assignment in time."""
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self._state.timers.cancel(_sync_key(group.id))

    def drop(self, group: ClassicGroup, member: ClassicMember, step: Step) -> None:
        """Remove a member. Its parked requests are answered, so that a process that is still alive joins again."""
        waiting = group.end_join(member)
        if waiting is not None:
            step.answers.append(refuse_join(waiting, ErrorCode.UNKNOWN_MEMBER_ID))
        if member.awaiting_sync is not None:
            step.answers.append(refuse_sync(member.awaiting_sync, ErrorCode.UNKNOWN_MEMBER_ID))
            member.awaiting_sync = None
        group.remove(member.id)
        self._state.timers.cancel(_session_key(group.id, member.id))

    # --- deadlines

    def expect_heartbeat(
        self, group: ClassicGroup, member: ClassicMember, now: int, timeout_ms: int | None = None
    ) -> None:
        """Expect a request of the member within its session timeout, or remove it."""
        self.expect_member(group, member.id, now, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def expect_member(self, group: ClassicGroup, member_id: str, now: int, timeout_ms: int) -> None:
        """Like `expect_heartbeat`, also for an id that a client has to join with."""
        self._state.timers.schedule(
            _session_key(group.id, member_id), now + timeout_ms, partial(self._expire_session, group.id, member_id)
        )

    def forget_member(self, group: ClassicGroup, member_id: str) -> None:
        self._state.timers.cancel(_session_key(group.id, member_id))

    def forget(self, group: ClassicGroup) -> None:
        """Drop all deadlines of a group that is going."""
        timers = self._state.timers
        timers.cancel(_join_key(group.id))
        timers.cancel(_sync_key(group.id))
        for member_id in group.members:
            timers.cancel(_session_key(group.id, member_id))
        for member_id in group.pending_joins:
            timers.cancel(_session_key(group.id, member_id))

    def _expect_joins(self, group: ClassicGroup, now: int, at_least_ms: int = 0) -> None:
        timeout_ms = max(group.rebalance_timeout_ms, at_least_ms)
        self._state.timers.schedule(_join_key(group.id), now + timeout_ms, partial(self._expire_joins, group.id))

    def _delay_initial(self, group: ClassicGroup, now: int, delay_ms: int, remaining_ms: int) -> None:
        self._state.timers.schedule(
            _join_key(group.id), now + delay_ms, partial(self._end_initial_delay, group.id, delay_ms, remaining_ms)
        )

    def _end_initial_delay(
        self, group_id: str, delay_ms: int, remaining_ms: int, now: int, timestamp: int
    ) -> CoordinatorDecision[Any]:
        step = Step(now, timestamp)
        group = self.find(group_id)
        if group is not None and group.has_new_member and remaining_ms > 0:
            group.has_new_member = False
            next_delay_ms = min(self._state.config.group_initial_rebalance_delay_ms, remaining_ms)
            self._delay_initial(group, now, next_delay_ms, max(remaining_ms - delay_ms, 0))
        elif group is not None:
            self.complete(group, step)
        return step.decide()

    def _expire_joins(self, group_id: str, now: int, timestamp: int) -> CoordinatorDecision[Any]:
        step = Step(now, timestamp)
        group = self.find(group_id)
        if group is not None:
            self.complete(group, step)
        return step.decide()

    def _expire_syncs(self, group_id: str, generation: int, now: int, timestamp: int) -> CoordinatorDecision[Any]:
        step = Step(now, timestamp)
        group = self.find(group_id)
        if group is not None and group.generation == generation and group.pending_syncs:
            assert group.current in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
            for member_id in list(group.pending_syncs):
                self.drop(group, group.members[member_id], step)
            self.prepare(group, step)
        return step.decide()

    def _expire_session(self, group_id: str, member_id: str, now: int, timestamp: int) -> CoordinatorDecision[Any]:
        step = Step(now, timestamp)
        group = self.find(group_id)
        if group is None:
            return step.decide()
        if member_id in group.pending_joins:
            group.remove(member_id)
        else:
            member = group.members.get(member_id)
            if member is None or member.has_satisfied_heartbeat:
                return step.decide()
            self.drop(group, member, step)
            if group.can_rebalance:
                self.prepare(group, step)
                return step.decide()
        if group.current is ClassicState.PREPARING_REBALANCE and group.have_all_joined:
            self.complete(group, step)
        return step.decide()


def _session_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "classic-session", group_id, member_id


def _join_key(group_id: str) -> tuple[str, str]:
    return "classic-join", group_id


def _sync_key(group_id: str) -> tuple[str, str]:
    return "classic-sync", group_id
