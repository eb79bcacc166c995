"""New worlds for each version of the code: each commit has its own seeds, and every run of that commit the same ones.

The seeds come from the tree that git has for this version (a fixed number where there is no git). A failure prints the
command that replays it. These are a sample that each change is tested with; the search for rare faults is `make sim`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.sim import replica_world, world

ROOT = Path(__file__).parents[2]
WITHOUT_GIT = 8_000_000
WORLDS = (
    *[(world.NODE, 1.5)] * 2,
    *[(replica_world.CLUSTER, 3.0)] * 4,
    *[(replica_world.REPLICAS, 4.0)] * 2,
    (replica_world.MOVES, 3.0),
    (replica_world.GROUPS, 3.0),
    (replica_world.TOPIC_CHANGES, 4.0),
    (replica_world.VOTERS, 4.0),
    (replica_world.CLIENTS, 4.0),
    (replica_world.SECURED, 3.0),
    (replica_world.SPARK, 4.0),
    ("shares", 4.0),
    *[(replica_world.SHARES, 4.0)] * 2,
    (replica_world.STREAMS, 4.0),
)
"""A kind of world, and for how many virtual seconds things go wrong in it."""


def first_seed() -> int:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD^{tree}"]
    try:
        tree = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        return int(tree[:8], 16)
    except (OSError, ValueError, subprocess.SubprocessError):
        return WITHOUT_GIT


FIRST = first_seed()


@pytest.mark.timeout(900)  # seconds of a busy machine: a world's own time is virtual
@pytest.mark.parametrize(
    ("seed", "only", "duration_s"),
    [
        pytest.param(FIRST + index, only, duration_s, id=f"{only}-{index}")
        for index, (only, duration_s) in enumerate(WORLDS)
    ],
)
def test_a_fresh_world_keeps_every_promise(seed: int, only: str, duration_s: float) -> None:
    verdict = world.run_seed(seed, duration_s=duration_s, only=only)
    replay = f"replay: make sim SEED={seed} WORLD={only} SECONDS={duration_s:g}"
    assert verdict.has_passed, "\n".join([*verdict.lines[-80:], verdict.summary(), replay])
