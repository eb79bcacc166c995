"""The sticky assignor of streams groups: a task stays where it is, then goes to a member that has a copy of its state,
then to the process with the least load. Standby tasks go to processes that have no other copy of the task.

Load is counted by process, tasks by member: a process with two threads takes twice as many tasks. Quotas keep members
even: a member takes at most its share of the tasks that are left for the members that have room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace

from ottla.groups.streams.tasks import NO_TASKS, Target, TaskId, TaskSet
from ottla.groups.streams.topology import SubtopologyTasks


@dataclass(frozen=True, slots=True)
class StreamsMemberSpec:
    """A member as the assignor sees it; its tasks are those of the last target assignment."""

    process_id: str
    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    tags: Mapping[str, str] = field(default_factory=dict)


class _Process:
    """The members of one process, and the tasks they have got so far."""

    __slots__ = ("active", "id", "standby", "tags", "task_count", "tasks")

    def __init__(self, id: str, tags: Mapping[str, str]) -> None:
        self.id = id
        self.tags = tags
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.tasks: set[TaskId] = set()
        self.task_count = 0

    @property
    def load(self) -> float:
        return self.task_count / len(self.active)

    def member_count(self, member_id: str) -> int:
        return len(self.active[member_id]) + len(self.standby[member_id])

    def least_loaded_member(self) -> str:
        return min(self.active, key=lambda id: (self.member_count(id), id))

    def add(self, member_id: str, task: TaskId, *, is_active: bool) -> None:
        (self.active if is_active else self.standby)[member_id].add(task)
        self.tasks.add(task)
        self.task_count += 1


class _Quota:
    """How many tasks a member may have: an even share, anew whenever a member has its share."""

    __slots__ = ("_member_count", "_task_count", "per_member")

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count
        self.per_member = -(-task_count // member_count) if member_count else 0

    def taken(self, count: int) -> None:
        """A member has `count` tasks now."""
        if count == self.per_member:
            self._member_count -= 1
            self._task_count -= count
            self.per_member = -(-self._task_count // self._member_count) if self._member_count else 0


class _Assignment:
    def __init__(self, members: Mapping[str, StreamsMemberSpec]) -> None:
        self.processes: dict[str, _Process] = {}
        self.process_of: dict[str, _Process] = {}
        self.active_before: dict[TaskId, str] = {}
        self.standby_before: dict[TaskId, list[str]] = {}
        for id in sorted(members):
            spec = members[id]
            process = self.processes.get(spec.process_id)
            if process is None:
                process = self.processes[spec.process_id] = _Process(spec.process_id, spec.tags)
            process.active[id] = set()
            process.standby[id] = set()
            self.process_of[id] = process
            for task in spec.active:
                self.active_before[task] = id
            for task in spec.standby:
                self.standby_before.setdefault(task, []).append(id)

    def assign_active(self, tasks: list[TaskId]) -> None:
        quota = _Quota(len(tasks), len(self.process_of))
        tasks = sorted(tasks, key=lambda task: (task.partition, task.subtopology_id))
        left = self._to_holders(tasks, quota, {task: [id] for task, id in self.active_before.items()})
        left = sorted(self._to_holders(left, quota, self.standby_before))
        heap = [(process.load, process.id) for process in self.processes.values()]
        heapify(heap)
        for task in left:
            process = self.processes[heap[0][1]]
            process.add(process.least_loaded_member(), task, is_active=True)
            heapreplace(heap, (process.load, process.id))

    def _to_holders(self, tasks: list[TaskId], quota: _Quota, holders: Mapping[TaskId, list[str]]) -> list[TaskId]:
        """Give tasks to the members that held them, as far as these have room; the tasks that are left."""
        left = []
        for task in tasks:
            id = self._least_loaded(task, holders.get(task, ()))
            if id is None or self.process_of[id].member_count(id) >= quota.per_member:
                left.append(task)
                continue
            process = self.process_of[id]
            process.add(id, task, is_active=True)
            quota.taken(process.member_count(id))
        return left

    def assign_standby(self, tasks: list[TaskId], replica_count: int, active_count: int) -> None:
        """`tasks` are the stateful ones; copies that find no process without the task are left out."""
        total = active_count + len(tasks) * replica_count
        per_member = -(-total // len(self.process_of))
        rest: list[tuple[TaskId, int]] = []
        for task in tasks:
            before = self.active_before.get(task)
            for done in range(replica_count):
                id = self._least_loaded(task, () if before is None else (before,))
                if id is None or self.process_of[id].member_count(id) >= per_member:
                    id = self._least_loaded(task, self.standby_before.get(task, ()))
                if id is None or self.process_of[id].member_count(id) >= per_member:
                    rest.append((task, replica_count - done))
                    break
                self.process_of[id].add(id, task, is_active=False)
        for task, count in rest:
            for _ in range(count):
                free = [process for process in self.processes.values() if task not in process.tasks]
                if not free:
                    break
                process = min(free, key=lambda process: (process.load, process.id))
                process.add(process.least_loaded_member(), task, is_active=False)

    def assign_apart(self, tasks: list[TaskId], replica_count: int, rack_tags: Sequence[str]) -> None:
        """Each copy goes to a process whose value of the first tag no copy has yet; of these, to one with the most new
        values of the tags after it, where a copy was before, with the least load. A tag without new values is given up
        for the next."""
        for task in tasks:
            holders = [process for process in self.processes.values() if task in process.tasks]
            known = {*self.standby_before.get(task, ()), self.active_before.get(task)}
            before = {self.process_of[id].id for id in known if id is not None}
            for _ in range(replica_count):
                free = [process for process in self.processes.values() if task not in process.tasks]
                if not free:
                    break
                used = [{holder.tags.get(tag) for holder in holders} | {None} for tag in rack_tags]
                ranked = [
                    (
                        [process.tags.get(tag) in values for tag, values in zip(rack_tags, used, strict=True)],
                        process.id not in before,
                        process.load,
                        process.id,
                    )
                    for process in free
                ]
                process = self.processes[min(ranked)[-1]]
                process.add(process.least_loaded_member(), task, is_active=False)
                holders.append(process)

    def _least_loaded(self, task: TaskId, ids: Iterable[str]) -> str | None:
        """Of members whose process has no copy of the task: the one with the least load."""
        free = [id for id in ids if task not in self.process_of[id].tasks]
        return min(
            free, key=lambda id: (self.process_of[id].load, self.process_of[id].member_count(id), id), default=None
        )


def assign_sticky(
    members: Mapping[str, StreamsMemberSpec],
    subtopologies: Mapping[str, SubtopologyTasks],
    *,
    standby_replica_count: int,
    rack_tags: Sequence[str] = (),
) -> dict[str, Target]:
    """The target assignment of every member. The same members and tasks always get the same one. Standby tasks are put
    where the values of `rack_tags` differ from those of the task's other copies, tag by tag."""
    if not members:
        return {}
    tasks = [TaskId(id, number) for id in sorted(subtopologies) for number in range(subtopologies[id].task_count)]
    stateful = [task for task in tasks if subtopologies[task.subtopology_id].is_stateful]
    assignment = _Assignment(members)
    assignment.assign_active(tasks)
    if standby_replica_count:
        if rack_tags:
            assignment.assign_apart(stateful, standby_replica_count, rack_tags)
        else:
            assignment.assign_standby(stateful, standby_replica_count, len(tasks))
    return {
        id: Target(frozenset(assignment.process_of[id].active[id]), frozenset(assignment.process_of[id].standby[id]))
        for id in sorted(members)
    }
