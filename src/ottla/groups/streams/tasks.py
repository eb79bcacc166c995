"""Tasks of a Kafka Streams application, and the sets of them that members of a streams group have.

A task is a subtopology and a partition. The member that processes its records has it as active task; others may keep
copies of its state as standby or warm-up tasks, at most one copy in a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar


class TaskId(NamedTuple):
    subtopology_id: str
    partition: int


TaskSet = frozenset[TaskId]
NO_TASKS: TaskSet = frozenset()
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Target:
    """The tasks that a member is to have, or those that it says it has."""

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


NO_TARGET = Target()


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """The tasks that a member has by its records. Active tasks know the epoch in which the member got them: a commit of
    an older epoch is refused."""

    active: Mapping[TaskId, int] = field(default_factory=dict)
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def is_all_of(self, target: Target) -> bool:
        """Whether these are the tasks of the target, no more and no fewer."""
        return self.active.keys() == target.active and self.standby == target.standby and self.warmup == target.warmup

    def overlaps(self, owned: Target) -> bool:
        """Whether any of the tasks is among those that the member says it has."""
        return not (
            owned.active.isdisjoint(self.active)
            and owned.standby.isdisjoint(self.standby)
            and owned.warmup.isdisjoint(self.warmup)
        )


NO_MEMBER_TASKS = MemberTasks()


def by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """Partitions by subtopology id, both sorted."""
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology_id, []).append(task.partition)
    return found


def rows(tasks: Iterable[TaskId], row: type[Row]) -> list[Row]:
    """The tasks in a message's own class, which has `subtopology_id` and `partitions`."""
    return [
        row(subtopology_id=subtopology_id, partitions=partitions)  # type: ignore[call-arg]
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def task_set(task_rows: Iterable[Any] | None) -> TaskSet:
    """The tasks of such rows."""
    return frozenset(TaskId(row.subtopology_id, partition) for row in task_rows or () for partition in row.partitions)
