"""Replication throttles: which partitions they hold for, and how long they let them wait."""

from __future__ import annotations

import pytest

from ottla.replication.throttle import UNLIMITED, ReplicationThrottle

WINDOWS, WINDOW_MS = 11, 1_000


def throttle(limit: int = 1_000, *replicas: str) -> ReplicationThrottle:
    made = ReplicationThrottle(WINDOWS, WINDOW_MS)
    made.limit(limit)
    made.mark("orders", replicas or ("*",), 1)
    return made


def test_it_holds_for_the_partitions_of_this_broker() -> None:
    made = throttle(1_000, "0:1", "1:2", "2:1", "3:11")
    assert [made.is_throttled("orders", index) for index in range(4)] == [True, False, True, False]
    assert not made.is_throttled("others", 0)


def test_a_star_holds_for_all_partitions() -> None:
    made = throttle()
    assert made.is_throttled("orders", 0) and made.is_throttled("orders", 4711)


@pytest.mark.parametrize("replicas", [(), ("",), ("0:2",)])
def test_without_partitions_nothing_is_throttled(replicas: tuple[str, ...]) -> None:
    made = throttle()
    made.mark("orders", replicas, 1)
    assert not made.is_set and not made.is_throttled("orders", 0)
    made.record(10**9, 0)
    assert made.wait_ms(0) == 0


def test_without_a_rate_nothing_is_throttled() -> None:
    made = throttle(UNLIMITED)
    assert not made.is_set
    made.limit(5)
    assert made.is_set
    made.unmark("orders")
    made.unmark("orders")
    assert not made.is_set


def test_after_too_much_the_wait_lasts_until_the_mean_is_at_the_limit() -> None:
    made = throttle(1_000)
    assert made.wait_ms(0) == 0
    made.record(1_000, 0)
    assert made.wait_ms(0) == 1_000
    made.record(4_000, 10)
    assert made.wait_ms(10) == 4_990
    assert made.wait_ms(4_999) == 1
    assert made.wait_ms(5_000) == 0


def test_what_was_far_too_much_is_forgotten_after_the_windows() -> None:
    made = throttle(1_000)
    made.record(1_000_000, 0)
    assert made.wait_ms(0) == WINDOWS * WINDOW_MS
    assert made.wait_ms(WINDOWS * WINDOW_MS) == 0
    made.record(2_000, 60_000)
    assert made.wait_ms(60_000) == 0  # two windows were left to take
    made.record(2_000, 60_000)
    assert made.wait_ms(60_000) == 2_000


@pytest.mark.parametrize("asked_every_ms", [1, 10, 500])
@pytest.mark.parametrize("step", [70, 700, 4_000])
def test_the_mean_is_the_limit_however_late_replicas_ask(asked_every_ms: int, step: int) -> None:
    made = throttle(1_000)
    sent = 0
    for now in range(0, 100_000, asked_every_ms):
        while not made.wait_ms(now):
            made.record(step, now)
            sent += step
    assert 99_000 <= sent <= 101_000 + step


def test_another_limit_holds_at_once() -> None:
    made = throttle(1_000)
    made.record(4_000, 0)
    assert made.wait_ms(0) == 4_000
    made.limit(2_000)
    assert made.wait_ms(0) == 2_000
    made.limit(UNLIMITED)
    made.limit(1_000)
    assert made.wait_ms(0) == 0, "what was taken without a limit does not count"


@pytest.mark.parametrize("limit", [0, 1, 1_000])
def test_after_a_much_lower_limit_no_wait_is_longer_than_the_windows(limit: int) -> None:
    made = throttle(1_000_000_000)
    made.record(10_000_000, 0)
    made.limit(limit)
    assert made.wait_ms(0) == WINDOWS * WINDOW_MS
    assert made.wait_ms(WINDOWS * WINDOW_MS) == 0


def test_a_limit_of_zero_lets_one_step_through_and_then_nothing() -> None:
    made = throttle(0)
    assert made.wait_ms(0) == 0
    made.record(1, 0)
    assert made.wait_ms(500) == WINDOWS * WINDOW_MS - 500
