"""The sticky assignor of streams groups."""

from __future__ import annotations

from collections import Counter
from random import Random

from ottla.groups.streams.sticky_assignor import StreamsMemberSpec, assign_sticky
from ottla.groups.streams.tasks import NO_TARGET, Target, TaskId
from ottla.groups.streams.topology import SubtopologyTasks

STATEFUL = {"0": SubtopologyTasks(6, True)}
STATELESS = {"0": SubtopologyTasks(6, False)}


def new(*process_ids: str) -> dict[str, StreamsMemberSpec]:
    return {f"m{index}": StreamsMemberSpec(process_id) for index, process_id in enumerate(process_ids)}


def again(targets: dict[str, Target], members: dict[str, StreamsMemberSpec]) -> dict[str, StreamsMemberSpec]:
    """The members with what they were given."""
    return {
        id: StreamsMemberSpec(spec.process_id, targets.get(id, NO_TARGET).active, targets.get(id, NO_TARGET).standby)
        for id, spec in members.items()
    }


def active_counts(targets: dict[str, Target]) -> list[int]:
    return sorted(len(target.active) for target in targets.values())


def owners(targets: dict[str, Target]) -> dict[TaskId, str]:
    found: dict[TaskId, str] = {}
    for id, target in targets.items():
        for task in target.active:
            assert task not in found, "a task has two owners"
            found[task] = id
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
    copies = {task: id for id, target in before.items() for task in target.standby}
    del members["m2"]

    after = assign_sticky(again(before, members), STATEFUL, standby_replica_count=1)

    lost = [task for task, owner in owners(before).items() if owner == "m2"]
    assert lost and active_counts(after) == [3, 3]
    assert sum(owners(after)[task] == copies[task] for task in lost) >= 1


def test_standby_tasks_are_never_in_the_process_of_the_active_task() -> None:
    targets = assign_sticky(new("a", "a", "b"), STATEFUL, standby_replica_count=2)

    by_process: Counter[tuple[str, TaskId]] = Counter()
    for id, process_id in (("m0", "a"), ("m1", "a"), ("m2", "b")):
        for tasks in (targets[id].active, targets[id].standby):
            by_process.update((process_id, task) for task in tasks)
    assert set(by_process.values()) == {1}
    assert len(by_process) == 12, "two processes have room for one standby of each task, not for two"


def test_stateless_tasks_have_no_standby() -> None:
    targets = assign_sticky(new("a", "b"), STATELESS, standby_replica_count=1)

    assert all(not target.standby for target in targets.values())


def test_every_task_has_one_owner_whatever_members_come_and_go() -> None:
    rng = Random(3)
    subtopologies = {"0": SubtopologyTasks(7, True), "1": SubtopologyTasks(4, False), "2": SubtopologyTasks(5, True)}
    targets: dict[str, Target] = {}
    for _ in range(60):
        members = {
            f"m{index}": StreamsMemberSpec(f"p{index % 4}") for index in rng.sample(range(12), rng.randint(1, 10))
        }
        targets = assign_sticky(again(targets, members), subtopologies, standby_replica_count=rng.randint(0, 2))
        assert len(owners(targets)) == 16
        assert targets.keys() == members.keys()


def tagged(**zones: str) -> dict[str, StreamsMemberSpec]:
    """Members by zone and cluster: a="z1/c1"."""
    found = {}
    for id, place in zones.items():
        zone, _, cluster = place.partition("/")
        found[id] = StreamsMemberSpec(id, tags={"zone": zone, "cluster": cluster} if place else {})
    return found


def test_copies_of_a_task_are_in_other_zones() -> None:
    members = tagged(a="z1", b="z1", c="z2", d="z2", e="z3", f="z3")
    targets = assign_sticky(members, STATEFUL, standby_replica_count=2, rack_tags=("zone",))
    for task, owner in owners(targets).items():
        copies = [id for id, target in targets.items() if task in target.standby]
        assert len({members[id].tags["zone"] for id in (owner, *copies)}) == 3


def test_a_tag_without_new_values_gives_way_to_the_next() -> None:
    members = tagged(a="z1/c1", b="z1/c2", c="z1/c1", d="z1/c2")
    targets = assign_sticky(members, STATEFUL, standby_replica_count=1, rack_tags=("zone", "cluster"))
    for task, owner in owners(targets).items():
        [copy] = [id for id, target in targets.items() if task in target.standby]
        assert members[copy].tags["cluster"] != members[owner].tags["cluster"]


def test_members_without_tags_get_copies_when_no_other_can() -> None:
    members = tagged(a="z1", b="")
    targets = assign_sticky(members, STATEFUL, standby_replica_count=1, rack_tags=("zone",))
    assert sorted(len(target.standby) for target in targets.values()) == [3, 3]
