"""At most once loses but never doubles, at least once doubles but never loses, exactly once neither: the programs of
`examples` with kill -9 at the worst moments."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.examples.conftest import SLOW, Stage

NUMBERS = [str(number) for number in range(20)]


def lost_and_doubled(seen: list[str]) -> tuple[set[str], set[str]]:
    counts = Counter(seen)
    assert set(counts) <= set(NUMBERS)
    return set(NUMBERS) - set(counts), {number for number, count in counts.items() if count > 1}


@pytest.mark.parametrize(
    ("moment", "count", "is_lossy"),
    [
        ("after handling", 7, True),
        pytest.param("before commit", 1, False, marks=SLOW),
        pytest.param("after commit", 1, True, marks=SLOW),
    ],
)
def test_at_most_once_loses_but_never_doubles(stage: Stage, moment: str, count: int, is_lossy: bool) -> None:
    stage.create()
    stage.write(NUMBERS)
    stage.live("at_most_once", moment=moment, count=count).wait_until_killed()
    stage.live("at_most_once")
    stage.wait_until_read("at-most-once")
    stage.write(["20"])
    stage.wait_for(lambda: "20" in stage.handled(), "the record after the kill is handled")
    lost, doubled = lost_and_doubled(stage.handled()[:-1])
    assert not doubled
    assert bool(lost) == is_lossy


@pytest.mark.parametrize(
    ("moment", "count", "is_doubling"),
    [
        ("after handling", 7, True),
        pytest.param("before commit", 1, True, marks=SLOW),
        pytest.param("after commit", 1, False, marks=SLOW),
    ],
)
def test_at_least_once_doubles_but_never_loses(stage: Stage, moment: str, count: int, is_doubling: bool) -> None:
    stage.create()
    stage.write(NUMBERS)
    stage.live("at_least_once", moment=moment, count=count).wait_until_killed()
    stage.live("at_least_once")
    stage.wait_until_read("at-least-once")
    lost, doubled = lost_and_doubled(stage.handled())
    assert not lost
    assert bool(doubled) == is_doubling


def test_exactly_once_neither_loses_nor_doubles(stage: Stage) -> None:
    """One life after another dies inside its transaction, before, between and after its parts."""
    target = f"{stage.topic}-target"
    stage.create(stage.topic, target)
    stage.write(NUMBERS[:10])
    for moment in ("before handling", "before send_offsets", "before commit_transaction"):
        stage.live("exactly_once", target, "example-1", moment=moment).wait_until_killed()
    stage.live("exactly_once", target, "example-1", moment="after commit_transaction").wait_until_killed()
    assert stage.read(target, 10, isolation_level="read_committed") == NUMBERS[:10]
    stage.write(NUMBERS[10:])
    stage.live("exactly_once", target, "example-1", moment="before commit_transaction").wait_until_killed()
    stage.live("exactly_once", target, "example-1")
    assert stage.read(target, 20, isolation_level="read_committed") == NUMBERS
    assert len(stage.read(target, 40)) >= 40, "the transactions that died had written as well"
