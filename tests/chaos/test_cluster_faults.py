"""Three real nodes: controllers freeze, disks fill up, clocks jump, coordinators are killed, versions change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.chaos.cluster import PARTITIONS, QUICK_SESSION, Cluster, ClusterNode, check, start_writing, until
from tests.chaos.conftest import NewCluster, small_file_system
from tests.chaos.group import KINDS, Member, Promises, committed, wait_for_shares
from tests.interop.servers import REPOSITORY

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4"))
UPGRADED_FROM = os.environ.get("OTTLA_UPGRADE_FROM", "8b87315")
"""The first version that ran as a cluster."""
QUICK_GROUPS = (
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=6000",
)
JUMPS = ("-50m", "+50m", "-1m", "+30m", "+0")
"""A record more than an hour ahead of its broker's clock is refused, in Kafka, too."""
MIB = 1024 * 1024

pytestmark = [
    pytest.mark.skipif(not os.environ.get("OTTLA_INTEROP_ALL"), reason="minutes each: OTTLA_INTEROP_ALL=1 runs it"),
    pytest.mark.timeout(900 + 90 * ROUNDS),
]


def has_other_controller(cluster: Cluster, victim: int) -> bool:
    return cluster.controller(*(id for id in cluster.nodes if id != victim)) not in (victim, -1)


# --- SIGSTOP


def test_a_frozen_controller_is_replaced_and_gives_way_when_it_wakes(start_cluster: NewCluster) -> None:
    cluster, topic = start_cluster(*QUICK_SESSION), "frozen-controller"
    writer = start_writing(cluster, topic)
    victim = 0
    try:
        for _ in range(ROUNDS):
            victim = cluster.controller()
            os.kill(cluster.nodes[victim].pid, signal.SIGSTOP)
            until(partial(has_other_controller, cluster, victim), "another controller")
            writer.wait_for(500)
            together, longest = writer.take_gaps()
            print(f"froze the controller {victim}: no acknowledgement for {together:.2f} s, of one for {longest:.2f} s")
            os.kill(cluster.nodes[victim].pid, signal.SIGCONT)
            cluster.wait_until_in_sync(topic)
    finally:
        if victim:
            os.kill(cluster.nodes[victim].pid, signal.SIGCONT)
        writer.stop()
    check(cluster, writer, topic)


def test_nodes_frozen_in_turn_lose_nothing(start_cluster: NewCluster) -> None:
    """Also two at once: then nothing is acknowledged until one of them wakes."""
    cluster, topic = start_cluster(*QUICK_SESSION), "frozen-in-turn"
    writer = start_writing(cluster, topic)
    rng = Random(24)
    try:
        for _ in range(ROUNDS):
            victims = rng.sample(list(cluster.nodes), rng.choice((1, 2)))
            for victim in victims:
                os.kill(cluster.nodes[victim].pid, signal.SIGSTOP)
            time.sleep(rng.uniform(0.1, 6))
            for victim in victims:
                os.kill(cluster.nodes[victim].pid, signal.SIGCONT)
            writer.wait_for(500)
    finally:
        for node in cluster.nodes.values():
            os.kill(node.pid, signal.SIGCONT)
        writer.stop()
    check(cluster, writer, topic)


# --- full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from small_file_system(tmp_path, "96m")


def test_a_node_whose_disk_fills_up_is_passed_over_until_there_is_room(
    start_cluster: NewCluster, small_disk: Path
) -> None:
    """It refuses, or ends where its metadata finds no room; the others go on, and it catches up afterwards."""
    (small_disk.parent / "1").symlink_to(small_disk / "data")
    (small_disk / "data").mkdir()
    cluster, topic = start_cluster(*QUICK_SESSION), "full"
    writer = start_writing(cluster, topic)
    ballast = small_disk / "ballast"
    try:
        with ballast.open("wb") as file:
            while (free := os.statvfs(small_disk).f_bavail * 4096) > 64 * 1024:
                file.write(bytes(min(MIB, free - 32 * 1024)))
                file.flush()
        writer.wait_for(3000)
        together, longest = writer.take_gaps()
        print(f"filled the disk of node 1: no acknowledgement for {together:.2f} s, of one for {longest:.2f} s")
        ballast.unlink()
        if not cluster.nodes[1].is_running():
            print("node 1 had ended")
            cluster.start(1)
        cluster.wait_until_in_sync(topic)
        writer.wait_for(500)
    finally:
        ballast.unlink(missing_ok=True)
        writer.stop()
    check(cluster, writer, topic)


# --- clock jumps


def libfaketime() -> Path | None:
    named = os.environ.get("OTTLA_LIBFAKETIME")
    found = [Path(named)] if named else sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    return next((path for path in found if path.is_file()), None)


class JumpingNode(ClusterNode):
    """A node whose wall clock is what a file says."""

    def __init__(self, id: int, data: Path) -> None:
        super().__init__(id, data)
        self._clock = data.with_name(f"{id}.clock")
        self.jump("+0")
        fakes = [
            f"LD_PRELOAD={libfaketime()}",
            f"FAKETIME_TIMESTAMP_FILE={self._clock}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ]
        self.command = ["env", *fakes, sys.executable, "-m", "ottla"]

    def jump(self, offset: str) -> None:
        self._clock.write_text(f"{offset}\n")


@pytest.mark.skipif(libfaketime() is None, reason="libfaketime (Debian's package faketime) is not installed")
def test_clocks_that_jump_lose_nothing(start_cluster: NewCluster) -> None:
    cluster, topic = start_cluster(*QUICK_SESSION, new_node=JumpingNode), "jumping"
    writer = start_writing(cluster, topic)
    rng = Random(25)
    try:
        for _ in range(2 * ROUNDS):
            node = rng.choice(list(cluster.nodes.values()))
            assert isinstance(node, JumpingNode)
            node.jump(rng.choice(JUMPS))
            writer.wait_for(500)
        together, longest = writer.take_gaps()
        print(f"clocks jumped: no acknowledgement for {together:.2f} s, of one for {longest:.2f} s")
        assert cluster.is_in_sync(topic)
    finally:
        writer.stop()
    check(cluster, writer, topic)


# --- upgrades


@pytest.fixture
def old_version(tmp_path: Path) -> Iterator[Path]:
    """The sources of an older version, in a git worktree."""
    folder = tmp_path / "old"
    made = subprocess.run(
        ["git", "-C", str(REPOSITORY), "worktree", "add", "--detach", str(folder), UPGRADED_FROM],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if made.returncode:
        pytest.skip(f"an older version ({UPGRADED_FROM}) is not in this repository: {made.stderr.strip()}")
    yield folder
    remove = ["git", "-C", str(REPOSITORY), "worktree", "remove", "--force", str(folder)]
    subprocess.run(remove, capture_output=True, check=False, timeout=60)


def test_a_rolling_upgrade_fails_no_request(start_cluster: NewCluster, old_version: Path) -> None:
    class OldNode(ClusterNode):
        def __init__(self, id: int, data: Path) -> None:
            super().__init__(id, data)
            self.command = ["env", f"PYTHONPATH={old_version / 'src'}", sys.executable, "-m", "ottla"]

    cluster, topic = start_cluster(new_node=OldNode), "upgraded"
    writer = start_writing(cluster, topic)
    try:
        for id, node in cluster.nodes.items():
            node.stop()
            node.command = [sys.executable, "-m", "ottla"]
            cluster.start(id)
            cluster.wait_until_in_sync(topic)
            writer.wait_for(500)
            together, longest = writer.take_gaps()
            print(f"upgraded node {id}: no acknowledgement for {together:.2f} s, of one for {longest:.2f} s")
    finally:
        writer.stop()
    check(cluster, writer, topic)


# --- groups


@pytest.mark.parametrize("kind", KINDS)
def test_groups_lose_no_commit_when_their_coordinators_are_killed(start_cluster: NewCluster, kind: str) -> None:
    cluster, topic = start_cluster(*QUICK_SESSION, *QUICK_GROUPS), "grouped"
    writer = start_writing(cluster, topic)
    promises, rng = Promises(), Random(26)
    members = [Member(cluster.bootstrap, "group", topic, promises, KINDS[kind]) for _ in range(3)]
    try:
        wait_for_shares(members, PARTITIONS)
        for _ in range(ROUNDS):
            commits = promises.commits
            until(lambda commits=commits: promises.commits >= commits + 10, "commits succeed")  # type: ignore[misc]
            victim = cluster.leader("__consumer_offsets", rng.randrange(3))
            acknowledged = dict(promises.acknowledged)
            cluster.kill(victim)
            known = committed(cluster.bootstrap, "group", topic, PARTITIONS)
            for partition, offset in acknowledged.items():
                assert offset <= known[partition] <= promises.attempted[partition]
            cluster.start(victim)
            cluster.wait_until_in_sync(topic)
        writer.stop()
        wait_for_shares(members, PARTITIONS)
        until(lambda: len(promises.read) >= sum(writer.sent), "everything is read")
    finally:
        writer.stop()
        for member in members:
            member.leave()
    assert not [error for member in members for error in member.fatal]
    assert committed(cluster.bootstrap, "group", topic, PARTITIONS) == dict(enumerate(writer.sent))
    check(cluster, writer, topic)
