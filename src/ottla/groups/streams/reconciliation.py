"""Moves a member of a streams group from its present tasks to its target.

    STABLE      -> UNREVOKED    the target takes tasks away: the member keeps its epoch until it has given them up
    UNREVOKED   -> the others   the member no longer names these tasks among those it owns
    any         -> UNRELEASED   the member is in the target's epoch and waits for tasks that others still have
    UNRELEASED  -> STABLE       it got them

What a member is to have can change within an epoch: warm-up tasks are refined anew at every heartbeat (`warmups`). So
a member that gives up tasks may be in the target's epoch already.

A task is released for a member if no member has it as active task and, because a process keeps one copy of a task's
state, no member of the same process has it in another role.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.groups.streams.tasks import NO_MEMBER_TASKS, NO_TASKS, MemberTasks, Target, TaskId, TaskSet
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.groups.streams.group import StreamsMember

STABLE = 1
UNREVOKED_TASKS = 2
UNRELEASED_TASKS = 3
KNOWN_STATES = frozenset((STABLE, UNREVOKED_TASKS, UNRELEASED_TASKS))


@dataclass(frozen=True, slots=True)
class TaskOwners:
    """The processes that have a task, by role; tasks that are still to be given up count."""

    active: Mapping[TaskId, str]
    standby: Mapping[TaskId, Collection[str]]
    warmup: Mapping[TaskId, Collection[str]]

    def has_copy(self, process_id: str, task: TaskId) -> bool:
        return process_id in self.standby.get(task, ()) or process_id in self.warmup.get(task, ())


def reconcile(
    member: StreamsMember, epoch: int, target: Target, owned: Target | None, owners: TaskOwners
) -> StreamsMember:
    """The member one step closer to the target of `epoch`, or unchanged. `owned`: the tasks in its heartbeat, or
    None.
    """
    if member.state == STABLE:
        if member.epoch == epoch and member.assigned.is_all_of(target):
            return member
        return _next(member, member.epoch, epoch, target, owned, owners)
    if member.state == UNREVOKED_TASKS:
        if owned is None or member.revoking.overlaps(owned):
            return member
        return _next(member, min(member.epoch + 1, epoch), epoch, target, owned, owners)
    if member.state == UNRELEASED_TASKS:
        return _next(member, member.epoch, epoch, target, owned, owners)
    if owned is None or owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
        )
    return _next(member, epoch, epoch, target, owned, owners)


def _next(
    member: StreamsMember, member_epoch: int, epoch: int, target: Target, owned: Target | None, owners: TaskOwners
) -> StreamsMember:
    process_id = member.process_id
    has = member.assigned
    kept = MemberTasks(
        {task: since for task, since in has.active.items() if task in target.active},
        has.standby & target.standby,
        has.warmup & target.warmup,
    )
    revoking = MemberTasks(
        {task: since for task, since in has.active.items() if task not in target.active},
        has.standby - target.standby,
        has.warmup - target.warmup,
    )
    if revoking and (owned is None or revoking.overlaps(owned)):
        return replace(
            member,
            state=UNREVOKED_TASKS,
            epoch=member_epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )

    def is_free_as_active(task: TaskId) -> bool:
        return task not in owners.active and not owners.has_copy(process_id, task)

    def is_free_as_copy(task: TaskId) -> bool:
        return owners.active.get(task) != process_id and not owners.has_copy(process_id, task)

    wanted_active = target.active.difference(kept.active)
    wanted_standby = target.standby - kept.standby
    wanted_warmup = target.warmup - kept.warmup
    new_active = frozenset(filter(is_free_as_active, wanted_active))
    new_standby: TaskSet = frozenset(filter(is_free_as_copy, wanted_standby)) if wanted_standby else NO_TASKS
    new_warmup: TaskSet = frozenset(filter(is_free_as_copy, wanted_warmup)) if wanted_warmup else NO_TASKS
    is_waiting = (len(new_active), len(new_standby), len(new_warmup)) != (
        len(wanted_active),
        len(wanted_standby),
        len(wanted_warmup),
    )
    return replace(
        member,
        state=UNRELEASED_TASKS if is_waiting else STABLE,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=MemberTasks(
            {**kept.active, **dict.fromkeys(sorted(new_active), epoch)},
            kept.standby | new_standby,
            kept.warmup | new_warmup,
        ),
        revoking=NO_MEMBER_TASKS,
    )
