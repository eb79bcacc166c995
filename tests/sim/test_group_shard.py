"""A single `GroupShard` in a world of its own: seeds, and the scenarios that seeds have taught."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from ottla.sim.classic_member import NEW, ClassicMember
from ottla.sim.group_history import GroupHistory
from ottla.sim.members import Member
from ottla.sim.shard_world import Link, ShardWorld, run_world

TOPIC = "topic"
GROUP = "group"


@pytest.mark.parametrize("kind", ["classic", "consumer", "mixed", "streams"])
@pytest.mark.parametrize("seed", range(8))
def test_a_world_of_members_that_come_go_and_crash(seed: int, kind: str) -> None:
    history: GroupHistory = run_world(seed, kinds=(kind,), duration_ms=20_000).history
    assert history.commit_count > 0


def test_one_seed_gives_one_trace_whatever_strings_hash_to() -> None:
    code = (
        "import hashlib; from ottla.sim.shard_world import run_world;"
        "print(hashlib.sha256(chr(10).join(run_world(3, duration_ms=8_000).trace).encode()).hexdigest())"
    )
    here = hashlib.sha256("\n".join(run_world(3, duration_ms=8_000).trace).encode()).hexdigest()
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == here


class Scene:
    """A quiet world with one topic and one group."""

    def __init__(self, *, assignment_interval_ms: int = 0) -> None:
        self.world = ShardWorld(1, properties={"group.consumer.assignment.interval.ms": str(assignment_interval_ms)})
        self.world.add_topic(TOPIC, 4)

    def classic(self, *, instance_id: str | None = None) -> Link:
        member = self.world.new_classic(GROUP, [TOPIC], instance_id=instance_id)
        member.speak(NEW)
        member.fetch_version = member.commit_version = 9
        return self.world.add(member)

    def consumer(self, *, instance_id: str | None = None) -> Link:
        return self.world.add(self.world.new_consumer(GROUP, [TOPIC], instance_id=instance_id))

    def settle(self) -> None:
        self.world.produce()
        assert self.world.run(30_000, lambda: self.world.is_settled({GROUP: [TOPIC]})), self.members
        self.world.run(2_000)  # every member has seen it
        self.world.check_replay()
        self.world.check_offsets()

    @property
    def members(self) -> list[Member]:
        return [link.member for link in self.world.links]

    @property
    def type(self) -> str:
        return self.world.shard.state.groups[GROUP].type

    def replace(self, link: Link, *, by_classic: bool) -> Link:
        """Another incarnation of a static member comes while it is still there."""
        assert link.member.instance_id is not None
        self.world.vanish(link)
        come = self.classic if by_classic else self.consumer
        return come(instance_id=link.member.instance_id)


def test_a_group_is_upgraded_and_downgraded_and_every_partition_stays_owned() -> None:
    scene = Scene()
    scene.classic()
    scene.classic()
    scene.settle()
    assert scene.type == "classic"
    modern = scene.consumer()
    scene.settle()
    assert scene.type == "consumer"
    modern.member.leave()
    scene.world.run(10_000, lambda: modern.member.has_left)
    scene.settle()
    assert scene.type == "classic"


def test_the_rebalance_of_a_downgrade_is_not_forgotten_when_the_coordinator_dies_before_it() -> None:
    """Members that left are not in the downgraded group's record: no later end of a session starts a rebalance."""
    scene = Scene()
    scene.classic()
    modern = scene.consumer()
    scene.settle()
    scene.world.vanish(modern)
    assert scene.world.run(10_000, lambda: scene.type == "classic")
    scene.world.restart()
    scene.settle()


def test_partitions_given_up_in_the_middle_of_a_downgrade_find_a_reader() -> None:
    """The last consumer member hands partitions over; a classic incarnation takes its place before they are taken."""
    scene = Scene()
    modern = scene.consumer(instance_id="instance")
    scene.settle()
    classic = scene.classic()
    assert scene.world.run(10_000, lambda: classic.member.is_steady)
    scene.world.freeze(classic, 800)
    assert scene.world.run(10_000, lambda: len(modern.member.claims) == 2)
    scene.world.run(100)
    assert not classic.member.claims
    scene.replace(modern, by_classic=True)
    scene.settle()
    assert scene.type == "classic"


def test_a_static_member_that_takes_the_place_of_one_that_waits_for_the_first_generation_has_an_epoch() -> None:
    scene = Scene()
    waiting = scene.classic(instance_id="instance")
    scene.world.run(
        1_000, lambda: isinstance(waiting.member, ClassicMember) and GROUP in scene.world.shard.state.groups
    )
    modern = scene.replace(waiting, by_classic=False)
    scene.settle()
    assert modern.member.generation > 0


def test_an_upgrade_in_the_middle_of_a_downgrade_leaves_what_members_hold() -> None:
    """A frozen classic member still reads everything when two incarnations of another turn the group twice."""
    scene = Scene()
    holder = scene.classic()
    scene.settle()
    scene.world.freeze(holder, 1_500)
    modern = scene.consumer(instance_id="instance")
    assert scene.world.run(400, lambda: modern.member.generation > 1)
    classic = scene.replace(modern, by_classic=True)
    assert scene.world.run(400, lambda: scene.type == "classic")
    scene.replace(classic, by_classic=False)
    assert scene.world.run(400, lambda: scene.type == "consumer")
    assert len(holder.member.claims) == 4
    scene.settle()  # the history finds two owners if a partition moved before its holder was heard or expired


def test_a_member_that_takes_the_place_of_one_that_waits_in_a_rebalance_gets_its_share() -> None:
    scene = Scene()
    scene.classic()
    scene.settle()
    waiting = scene.classic(instance_id="instance")
    assert scene.world.run(1_000, lambda: scene.world.shard.state.groups[GROUP].state == "PreparingRebalance")
    modern = scene.replace(waiting, by_classic=False)
    scene.settle()
    assert len(modern.member.claims) == 2


def test_a_log_that_is_replayed_twice_adds_up_to_the_same() -> None:
    scene = Scene()
    scene.classic()
    scene.settle()
    modern = scene.consumer()
    scene.settle()
    modern.member.leave()
    scene.world.run(10_000, lambda: modern.member.has_left)
    scene.settle()
    world = scene.world
    once, twice = world.describe(world.replayed(world.log)), world.describe(world.replayed(world.log + world.log))
    assert twice == once


def test_an_append_that_fails_takes_nothing_from_the_group() -> None:
    scene = Scene()
    for come in (scene.classic, scene.consumer):
        come()
        scene.world.is_full = True
        scene.world.run(4_000)
        assert not scene.world.log or come == scene.consumer
        scene.world.is_full = False
        scene.settle()
