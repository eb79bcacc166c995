"""The sticky assignor of streams groups."""

from __future__ import annotations

from collections import Counter
from random import Random

from ottla.groups.streams.sticky_assignor import StreamsMemberSpec, StreamsMemberTarget, assign_sticky
from ottla.groups.streams.topology import SubtopologyTasks

STATEFUL = {"0": SubtopologyTasks(6, True)}
STATELESS = {"0": SubtopologyTasks(6, False)}


def new(*process_ids: str) -> dict[str, StreamsMemberSpec]:
    return {f"m{index}": StreamsMemberSpec(process_id) for index, process_id in enumerate(process_ids)}


def again(
    targets: dict[str, StreamsMemberTarget], members: dict[str, StreamsMemberSpec]
) -> dict[str, StreamsMemberSpec]:
    """The members with what they were given."""
    nothing = StreamsMemberTarget()
    return {
        id: StreamsMemberSpec(spec.process_id, targets.get(id, nothing).active, targets.get(id, nothing).standby)
        for id, spec in members.items()
    }


def active_counts(targets: dict[str, StreamsMemberTarget]) -> list[int]:
    return sorted(sum(map(len, target.active.values())) for target in targets.values())


def owners(targets: dict[str, StreamsMemberTarget]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for id, target in targets.items():
        for subtopology_id, partitions in target.active.items():
            for partition in partitions:
                assert (subtopology_id, partition) not in found, "a task has two owners"
                found[subtopology_id, partition] = id
    return found


def test_no_members_get_nothing() -> None:
    assert assign_sticky({}, STATEFUL, standby_replica_count=1) == {}


def test_tasks_are_shared_out_evenly() -> None:
    targets = assign_sticky(new("a", "b", "c"), STATEFUL, standby_replica_count=0)

    assert active_counts(targets) == [2, 2, 2]
    assert len(owners(targets)) == 6


def test_process_with_two_threads_takes_twice_as_many_tasks() -> None:
    targets = assign_sticky(new("a", "a", "b"), STATEFUL, standby_replica_count=0)

    assert active_counts(targets) == [2, 2, 2]


def test_second_assignment_of_the_same_members_moves_nothing() -> None:
    members = new("a", "b", "c", "d")
    targets = assign_sticky(members, STATEFUL, standby_replica_count=1)

    assert assign_sticky(again(targets, members), STATEFUL, standby_replica_count=1) == targets


def test_new_member_takes_only_its_share() -> None:
    before = assign_sticky(new("a", "b"), STATEFUL, standby_replica_count=0)
    members = new("a", "b", "c")

    after = assign_sticky(again(before, members), STATEFUL, standby_replica_count=0)

    was, now = owners(before), owners(after)
    assert active_counts(after) == [2, 2, 2]
    assert all(now[task] in (was[task], "m2") for task in was)


def test_tasks_of_a_lost_member_go_to_members_with_a_copy_of_the_state() -> None:
    members = new("a", "b", "c")
    before = assign_sticky(members, STATEFUL, standby_replica_count=1)
    copies = {
        (subtopology_id, partition): id
        for id, target in before.items()
        for subtopology_id, partitions in target.standby.items()
        for partition in partitions
    }
    del members["m2"]

    after = assign_sticky(again(before, members), STATEFUL, standby_replica_count=1)

    lost = [task for task, owner in owners(before).items() if owner == "m2"]
    assert lost and active_counts(after) == [3, 3]
    assert sum(owners(after)[task] == copies[task] for task in lost) >= 1


def test_standby_tasks_are_never_in_the_process_of_the_active_task() -> None:
    targets = assign_sticky(new("a", "a", "b"), STATEFUL, standby_replica_count=2)

    by_process: Counter[tuple[str, str, int]] = Counter()
    for id, process_id in (("m0", "a"), ("m1", "a"), ("m2", "b")):
        for tasks in (targets[id].active, targets[id].standby):
            for subtopology_id, partitions in tasks.items():
                by_process.update((process_id, subtopology_id, partition) for partition in partitions)
    assert set(by_process.values()) == {1}
    assert len(by_process) == 12, "two processes have room for one standby of each task, not for two"


def test_stateless_tasks_have_no_standby() -> None:
    targets = assign_sticky(new("a", "b"), STATELESS, standby_replica_count=1)

    assert all(not target.standby for target in targets.values())


def test_every_task_has_one_owner_whatever_members_come_and_go() -> None:
    rng = Random(3)
    subtopologies = {"0": SubtopologyTasks(7, True), "1": SubtopologyTasks(4, False), "2": SubtopologyTasks(5, True)}
    targets: dict[str, StreamsMemberTarget] = {}
    for _ in range(60):
        members = {
            f"m{index}": StreamsMemberSpec(f"p{index % 4}") for index in rng.sample(range(12), rng.randint(1, 10))
        }
        targets = assign_sticky(again(targets, members), subtopologies, standby_replica_count=rng.randint(0, 2))
        assert len(owners(targets)) == 16
        assert targets.keys() == members.keys()
