"""What a follower does with its leader's answers."""

from __future__ import annotations

import pytest

from ottla.replication import LeaderEpochs
from ottla.replication.follower import (
    FIRST_BACKOFF_MS,
    Backoff,
    Bounds,
    Step,
    compare_bounds,
    followed_high_watermark,
    next_step,
    truncation_offset,
)
from ottla.wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "is_diverging", "step"),
    [
        (ErrorCode.NONE, False, Step.APPEND),
        (ErrorCode.NONE, True, Step.TRUNCATE),
        (ErrorCode.OFFSET_OUT_OF_RANGE, False, Step.FIND_START),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False, Step.WAIT),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, False, Step.WAIT),
        (ErrorCode.FENCED_LEADER_EPOCH, False, Step.STOP),
        (ErrorCode.KAFKA_STORAGE_ERROR, False, Step.WAIT),
    ],
)
def test_what_follows_from_an_answer(error: ErrorCode, is_diverging: bool, step: Step) -> None:
    assert next_step(error, is_diverging=is_diverging) is step


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
    backoff = Backoff()
    pauses = []
    for _ in range(9):
        backoff.failed(1000, 1000)
        pauses.append(backoff.until - 1000)
    assert pauses[:3] == [FIRST_BACKOFF_MS, 2 * FIRST_BACKOFF_MS, 4 * FIRST_BACKOFF_MS]
    assert pauses[-1] == 1000
    backoff.succeeded()
    backoff.failed(1000, 1000)
    assert backoff.until == 1000 + FIRST_BACKOFF_MS
