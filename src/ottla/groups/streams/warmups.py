"""Warm-up tasks: the assignor `highly_available` moves a stateful task only when its new member has the state.

The target assignment says where a task belongs. While another process runs the task and the member it belongs to has to
restore its state first, the task is *staged*: it stays where it runs, and the member it belongs to gets it as warm-up
task, at most `streams.num.warmup.replicas` of them at a time. Members tell how far they have restored
(`streams.task.offset.interval.ms`); with `streams.acceptable.recovery.lag` records or fewer left the process is ready,
the group epoch rises, and the task moves.

Members before version 1 of heartbeats do not report: tasks move to them at once. Progress is not persisted; a new
coordinator gets it from the next reports.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.groups.streams.group import StreamsGroup, StreamsMember
from ottla.groups.streams.progress import Progress
from ottla.groups.streams.tasks import Target, TaskId
from ottla.groups.streams.topology import SubtopologyTasks


def refined_target(
    group: StreamsGroup,
    member: StreamsMember,
    target: Target,
    subtopologies: Mapping[str, SubtopologyTasks],
    max_warmup_count: int,
) -> Target:
    """The member's tasks for now, on the way to its target."""
    if not max_warmup_count:
        return target
    members = {**group.members, member.id: member}
    targets = {**group.targets, member.id: target}
    active, standby, warmup = set(target.active), set(target.standby), set[TaskId]()
    for number, (task, holder_id, owner_id) in enumerate(_staged(group.progress, members, targets, subtopologies)):
        if owner_id == member.id:
            active.discard(task)
            if number < max_warmup_count:
                warmup.add(task)
        if holder_id == member.id:
            active.add(task)
        if members[holder_id].process_id == member.process_id:
            standby.discard(task)
    return Target(frozenset(active), frozenset(standby), frozenset(warmup))


def _staged(
    progress: Progress,
    members: Mapping[str, StreamsMember],
    targets: Mapping[str, Target],
    subtopologies: Mapping[str, SubtopologyTasks],
) -> list[tuple[TaskId, str, str]]:
    """Staged tasks, with the members that run them and those they belong to, in the order of tasks."""
    holders = {task: member for member in members.values() for task in member.assigned.active}
    found = []
    for owner_id, target in targets.items():
        owner = members.get(owner_id)
        if owner is None or owner_id not in progress.reporting:
            continue
        for task in target.active:
            holder = holders.get(task)
            subtopology = subtopologies.get(task.subtopology_id)
            if holder is None or holder.process_id == owner.process_id or subtopology is None:
                continue
            if not subtopology.is_stateful or progress.ready.get(task) == owner.process_id:
                continue
            if not _has_copy(members.values(), owner.process_id, task):
                found.append((task, holder.id, owner_id))
    return sorted(found)


def _has_copy(members: Collection[StreamsMember], process_id: str, task: TaskId) -> bool:
    """Whether the process keeps a standby copy, which is as good as ready."""
    return any(task in member.assigned.standby for member in members if member.process_id == process_id)
