"""A member on its way to its target, one heartbeat at a time."""

from __future__ import annotations

from dataclasses import replace

from ottla.groups.streams.group import StreamsMember
from ottla.groups.streams.reconciliation import STABLE, UNREVOKED_TASKS, TaskOwners, reconcile
from ottla.groups.streams.tasks import MemberTasks, Target, TaskId


def test_a_member_that_gives_up_tasks_within_an_epoch_stays_in_it() -> None:
    """Its epoch rose above the group's, and fell back when it had given up the last task. The simulator found it
    (`shard_world`, streams groups, seed 3021)."""
    first, second = TaskId("0", 1), TaskId("0", 2)
    no_owners = TaskOwners({}, {}, {})
    member = replace(
        StreamsMember("a", epoch=6, process_id="p", state=UNREVOKED_TASKS),
        assigned=MemberTasks({first: 5}),
        revoking=MemberTasks({second: 5}),
    )
    member = reconcile(member, 6, Target(), Target(frozenset({first})), no_owners)
    assert (member.epoch, member.state) == (6, UNREVOKED_TASKS), "there is one more to give up"
    member = reconcile(member, 6, Target(), Target(), no_owners)
    assert (member.epoch, member.state) == (6, STABLE)
