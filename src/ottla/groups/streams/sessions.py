"""Sessions of members of streams groups: a member is removed when it leaves, sends no heartbeat for a session, or does
not give up tasks in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from ottla.groups.call import Call
from ottla.groups.state import ShardState
from ottla.groups.streams.group import StreamsGroup, StreamsMember
from ottla.groups.streams.group_records import group_epoch_record, member_tombstones
from ottla.groups.streams.reconciliation import UNREVOKED_TASKS
from ottla.machine import CoordinatorDecision
from ottla.wire.errors import KafkaError
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse


class HeartbeatReply(NamedTuple):
    response: StreamsGroupHeartbeatResponse
    missing: Sequence[CreatableTopic] = ()
    """Internal topics for the broker to create."""


class StreamsSessions:
    def __init__(self, state: ShardState) -> None:
        self._state = state

    def begin(self, group_id: str, member_id: str, now: int) -> None:
        """The member sent a heartbeat: its session begins again."""
        timeout_ms = self._state.group_config(group_id).streams_session_timeout_ms
        self._state.timers.schedule(
            ("streams-session", group_id, member_id), now + timeout_ms, partial(self._expire, group_id, member_id, None)
        )

    def resume(self, group: StreamsGroup, member: StreamsMember, now: int) -> None:
        """Start all timers of a member, after a load of the shard."""
        self.begin(group.id, member.id, now)
        if member.state == UNREVOKED_TASKS:
            self.await_revocation(group.id, member, now)

    def await_revocation(self, group_id: str, member: StreamsMember, now: int) -> None:
        """A member that does not give up its tasks in time is fenced, so that others get them."""
        self._state.timers.schedule(
            ("streams-rebalance", group_id, member.id),
            now + member.rebalance_timeout_ms,
            partial(self._expire, group_id, member.id, member.epoch),
        )

    def revoked(self, group_id: str, member_id: str) -> None:
        self._state.timers.cancel(("streams-rebalance", group_id, member_id))

    def fence(
        self, group: StreamsGroup, member: StreamsMember, reply: HeartbeatReply | None
    ) -> CoordinatorDecision[Any]:
        """The records that remove a member."""
        records = member_tombstones(group.id, member.id)
        records.append(
            group_epoch_record(
                group.id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            )
        )
        self._state.timers.cancel(("streams-session", group.id, member.id))
        self.revoked(group.id, member.id)
        return CoordinatorDecision(records, reply, refused=partial(self._fence_refused, group, member, reply))

    def _fence_refused(
        self, group: StreamsGroup, member: StreamsMember, reply: HeartbeatReply | None, error: KafkaError, call: Call
    ) -> CoordinatorDecision[Any]:
        """Nothing was written: it is still a member, and its session begins again."""
        self.resume(group, member, call.now)
        if reply is None:
            return CoordinatorDecision([], None)
        return CoordinatorDecision([], HeartbeatReply(StreamsGroupHeartbeatResponse(error_code=error.code)))

    def _expire(
        self, group_id: str, member_id: str, epoch: int | None, now: int, timestamp: int
    ) -> CoordinatorDecision[None]:
        group = self._state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if member is None or (epoch is not None and member.epoch != epoch):
            return CoordinatorDecision([], None)
        assert isinstance(group, StreamsGroup)
        return self.fence(group, member, None)
