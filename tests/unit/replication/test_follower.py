"""What a follower does with its leader's answers: each transition of the machine, and sequences of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from ottla.machine import Tick
from ottla.replication import LeaderEpochs
from ottla.replication.follower import (
    FETCHING,
    FINDING_BOUNDS,
    FIRST_BACKOFF_MS,
    NOT_ASKED,
    STOPPED,
    TRUNCATING,
    AdvanceStart,
    AskBounds,
    Bounds,
    BoundsFound,
    BoundsUnknown,
    CopyFailed,
    Cut,
    CutSynced,
    Delayed,
    Diverged,
    Event,
    Follower,
    Following,
    HeldBack,
    Refused,
    Restart,
    SyncCut,
    Throttled,
    compare_bounds,
    followed_high_watermark,
    longer_delay,
    truncation_offset,
)
from ottla.wire.errors import ErrorCode

KEY = (b"t" * 16, 3)
MAX_DELAY_MS = 1_000


@dataclass
class SomeLog:
    epochs: LeaderEpochs = field(default_factory=lambda: LeaderEpochs([(1, 0), (3, 50)]))
    log_start_offset: int = 10
    log_end_offset: int = 100
    high_watermark: int = 20


def follower(state: Following = FETCHING, *, is_cut: bool = False) -> Follower:
    made = Follower(KEY, "t", 7, is_cut=is_cut, max_delay_ms=MAX_DELAY_MS)
    made.state = state
    made.asked_offset = 100 if state is FETCHING else NOT_ASKED
    return made


def state(one: Follower) -> Following:
    """A call, so that no earlier assertion narrows its type."""
    return one.state


FIRST_DELAY = Delayed(5_000 + FIRST_BACKOFF_MS)


@pytest.mark.parametrize(
    ("before", "event", "after", "effects"),
    [
        (FETCHING, Diverged(1, 40, SomeLog()), TRUNCATING, [Cut(40), SyncCut()]),
        (FETCHING, Refused(ErrorCode.OFFSET_OUT_OF_RANGE), FINDING_BOUNDS, [AskBounds()]),
        (FETCHING, Refused(ErrorCode.FENCED_LEADER_EPOCH), STOPPED, []),
        (FETCHING, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), FIRST_DELAY, []),
        (FETCHING, Refused(ErrorCode.UNKNOWN_LEADER_EPOCH), FIRST_DELAY, []),
        (FETCHING, Refused(ErrorCode.KAFKA_STORAGE_ERROR), FIRST_DELAY, []),
        (FETCHING, Throttled(300), HeldBack(5_300), []),
        (FETCHING, Throttled(60_000), HeldBack(5_000 + MAX_DELAY_MS), []),
        (FETCHING, Throttled(0), FETCHING, []),
        (FETCHING, CopyFailed(is_offline=False), FIRST_DELAY, []),
        (FETCHING, CopyFailed(is_offline=True), STOPPED, []),
        (TRUNCATING, CutSynced(), FETCHING, []),
        (TRUNCATING, CopyFailed(is_offline=True), STOPPED, []),
        (FINDING_BOUNDS, BoundsFound(0, 99, SomeLog()), TRUNCATING, [Cut(99), SyncCut()]),
        (FINDING_BOUNDS, BoundsFound(101, 200, SomeLog()), FETCHING, [Restart(101)]),
        (FINDING_BOUNDS, BoundsFound(30, 200, SomeLog()), FETCHING, [AdvanceStart(30)]),
        (FINDING_BOUNDS, BoundsFound(10, 200, SomeLog()), FETCHING, []),
        (FINDING_BOUNDS, BoundsUnknown(), FIRST_DELAY, []),
        (FINDING_BOUNDS, CopyFailed(is_offline=False), FIRST_DELAY, []),
        (Delayed(5_000), Tick(), FETCHING, []),
        (Delayed(5_001), Tick(), Delayed(5_001), []),
        (HeldBack(5_000), Tick(), FETCHING, []),
        (HeldBack(5_001), Tick(), HeldBack(5_001), []),
        (HeldBack(5_000), Throttled(20), HeldBack(5_020), []),
        (HeldBack(5_000), Throttled(0), FETCHING, []),
    ],
)
def test_each_transition(before: Following, event: Event, after: Following, effects: list[object]) -> None:
    one = follower(before, is_cut=before is TRUNCATING)
    assert one.handle(event, 5_000) == effects
    assert one.state == after
    assert one.asked_offset == (100 if before is after is FETCHING else NOT_ASKED), "F3"


@pytest.mark.parametrize("state", [TRUNCATING, FINDING_BOUNDS, Delayed(9_000), HeldBack(9_000), STOPPED], ids=repr)
@pytest.mark.parametrize("event", [Diverged(1, 40, SomeLog()), Refused(ErrorCode.OFFSET_OUT_OF_RANGE)])
def test_an_answer_that_comes_late_changes_nothing(state: Following, event: Event) -> None:
    one = follower(state, is_cut=state is TRUNCATING)
    assert one.handle(event, 5_000) == []
    assert one.state == state


def test_a_log_that_was_cut_under_another_leader_is_not_fetched_before_the_cut_is_on_disk() -> None:
    one = Follower(KEY, "t", 8, is_cut=True, max_delay_ms=MAX_DELAY_MS)
    assert state(one) is TRUNCATING
    one.handle(CutSynced(), 5_000)
    assert state(one) is FETCHING


def test_a_cut_that_failed_is_synced_before_anything_is_fetched() -> None:
    one = follower()
    one.handle(Diverged(1, 40, SomeLog()), 5_000)
    one.handle(CopyFailed(is_offline=False), 5_000)
    assert state(one) == FIRST_DELAY
    assert one.handle(Tick(), 5_000 + FIRST_BACKOFF_MS) == [SyncCut()]
    assert state(one) is TRUNCATING
    one.handle(CutSynced(), 6_000)
    assert state(one) is FETCHING


def test_a_cut_that_is_synced_during_a_delay_does_not_end_the_delay() -> None:
    one = follower()
    one.handle(Diverged(1, 40, SomeLog()), 5_000)
    one.handle(CopyFailed(is_offline=False), 5_000)
    one.handle(CutSynced(), 5_001)
    assert state(one) == FIRST_DELAY
    assert one.handle(Tick(), 6_000) == []
    assert state(one) is FETCHING


def test_a_stopped_follower_stays_so() -> None:
    """A new leader epoch has a new follower."""
    one = follower(STOPPED)
    for event in (CopyFailed(is_offline=False), CutSynced(), Throttled(0), Tick(), BoundsUnknown()):
        assert one.handle(event, 5_000) == []
        assert state(one) is STOPPED


@pytest.mark.parametrize("seed", range(200))
def test_no_sequence_of_events_breaks_the_invariants(seed: int) -> None:
    rng = Random(seed)
    log = SomeLog()
    one = Follower(KEY, "t", 1, is_cut=rng.random() < 0.3, max_delay_ms=MAX_DELAY_MS)
    is_on_disk = not one.is_cut
    now = 0
    for _ in range(100):
        now += rng.choice((0, 1, 10, 2_000))
        event: Event = rng.choice(
            (
                Diverged(rng.randrange(-1, 5), rng.randrange(-1, 120), log),
                Refused(rng.choice((1, 3, 6, 74, 75, 76))),
                CutSynced(),
                BoundsFound(rng.randrange(150), rng.randrange(150), log),
                BoundsUnknown(),
                CopyFailed(is_offline=rng.random() < 0.02),
                Throttled(rng.choice((0, 10, 5_000))),
                Tick(),
            )
        )
        if isinstance(event, CutSynced):
            is_on_disk = True
        effects = one.handle(event, now)
        if any(isinstance(effect, Cut) for effect in effects):
            assert SyncCut() in effects
            is_on_disk = False
        assert is_on_disk or one.state is not FETCHING, "F1"
        if isinstance(event, Tick) and isinstance(one.state, Delayed | HeldBack):
            assert now < one.state.until <= now + MAX_DELAY_MS, "F2"
        if one.state is FETCHING:
            one.asked_offset = log.log_end_offset
        else:
            assert one.asked_offset == NOT_ASKED, "F3"


@pytest.mark.parametrize(
    ("entries", "epoch", "end_offset", "expected"),
    [
        ([(1, 0), (3, 50)], 1, 40, 40),  # the leader's epoch 1 ended earlier than ours
        ([(1, 0), (3, 50)], 1, 60, 50),  # ours ended earlier: from there on nothing is in common
        ([(1, 0), (3, 50)], 2, 70, 50),  # the leader had an epoch 2 that we never saw: 1 may be in common
        ([(1, 0), (3, 50)], 3, 80, 80),
        ([(1, 0), (3, 50)], 3, 300, 100),  # never beyond our end
        ([(2, 0)], 1, 30, 0),  # nothing in common
        ([], 1, 30, 30),
        ([(1, 0)], -1, 30, 30),
        ([(1, 0)], -1, -1, 20),  # the leader knows no epochs: what was committed stays
    ],
)
def test_where_two_histories_part(entries: list[tuple[int, int]], epoch: int, end_offset: int, expected: int) -> None:
    assert truncation_offset(LeaderEpochs(entries), 100, 20, epoch, end_offset) == expected


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "bounds"),
    [(0, 99, Bounds.TRUNCATE), (101, 200, Bounds.RESTART), (100, 200, Bounds.FETCH), (0, 100, Bounds.FETCH)],
)
def test_a_log_outside_of_its_leaders(start_offset: int, end_offset: int, bounds: Bounds) -> None:
    assert compare_bounds(100, start_offset, end_offset) is bounds


def test_the_high_watermark_never_goes_back_and_never_beyond_the_log() -> None:
    assert followed_high_watermark(10, 20, 15) == 15
    assert followed_high_watermark(10, 12, 15) == 12
    assert followed_high_watermark(10, 5, 15) == 10


def test_errors_are_followed_by_longer_and_longer_pauses() -> None:
    delay_ms, pauses = 0, []
    for _ in range(9):
        delay_ms = longer_delay(delay_ms, 1000)
        pauses.append(delay_ms)
    assert pauses[:3] == [FIRST_BACKOFF_MS, 2 * FIRST_BACKOFF_MS, 4 * FIRST_BACKOFF_MS]
    assert pauses[-1] == 1000


def test_the_pauses_are_short_again_once_something_was_copied() -> None:
    one = follower()
    for now in (0, 1_000):
        one.handle(Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), now)
        assert one.state == Delayed(now + FIRST_BACKOFF_MS)
        one.handle(Tick(), now + FIRST_BACKOFF_MS)
        one.delay_ms = 0  # as the copying does
    one.handle(Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), 2_000)
    one.handle(Tick(), 2_010)
    one.handle(Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), 2_010)
    assert one.state == Delayed(2_010 + 2 * FIRST_BACKOFF_MS)
