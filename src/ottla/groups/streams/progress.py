"""How far members of a streams group have restored their warm-up tasks. Not persisted: members report it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.groups.streams.tasks import TaskId
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskOffset

if TYPE_CHECKING:
    from ottla.groups.streams.group import StreamsMember


class Progress:
    """How far members have restored the state of their warm-up tasks, and which processes are ready."""

    def __init__(self) -> None:
        self.reporting: set[str] = set()
        """Members that report their progress."""
        self.ready: dict[TaskId, str] = {}
        """Task -> the process that has its state."""
        self._offsets: dict[tuple[str, TaskId], int] = {}
        self._end_offsets: dict[tuple[str, TaskId], int] = {}

    def note(self, member: StreamsMember, request: StreamsGroupHeartbeatRequest, acceptable_lag: int) -> bool:
        """Take a member's report; True if it made a process ready."""
        self._keep(self._offsets, member, request.task_offsets)
        self._keep(self._end_offsets, member, request.task_end_offsets)
        is_changed = False
        for task in member.assigned.warmup:
            offset, end = self._offsets.get((member.id, task)), self._end_offsets.get((member.id, task))
            if offset is None or end is None or end - offset > acceptable_lag:
                continue
            if self.ready.get(task) != member.process_id:
                self.ready[task] = member.process_id
                is_changed = True
        return is_changed

    @staticmethod
    def _keep(known: dict[tuple[str, TaskId], int], member: StreamsMember, sent: Iterable[TaskOffset] | None) -> None:
        """Only warm-up tasks count, so that a member cannot let this grow beyond its tasks."""
        for one in sent or ():
            task = TaskId(one.subtopology_id, one.partition)
            if task in member.assigned.warmup:
                known[member.id, task] = one.offset

    def forget(self, member_id: str) -> None:
        self.reporting.discard(member_id)
        for known in (self._offsets, self._end_offsets):
            for key in [key for key in known if key[0] == member_id]:
                del known[key]
