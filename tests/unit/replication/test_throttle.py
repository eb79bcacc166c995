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


def test_whoever_has_taken_too_much_waits_until_the_mean_is_at_the_limit() -> None:
    made = throttle(1_000)
    assert made.wait_ms(0) == 0
    made.record(1_000, 0)
    assert made.wait_ms(0) == 0  # as much as one window allows
    made.record(4_000, 10)
    assert made.wait_ms(10) == 4_990
    assert made.wait_ms(4_999) == 1
    assert made.wait_ms(5_000) == 0


def test_old_windows_are_forgotten() -> None:
    made = throttle(1_000)
    made.record(1_000_000, 0)
    assert made.wait_ms(0) == WINDOWS * WINDOW_MS
    assert made.wait_ms(WINDOWS * WINDOW_MS) == 0
    made.record(2_000, 60_000)
    assert made.wait_ms(60_000) == 2_000 - 0


def test_the_mean_is_kept_over_a_long_time() -> None:
    made = throttle(1_000)
    now = sent = 0
    while now < 100_000:
        wait_ms = made.wait_ms(now)
        if not wait_ms:
            made.record(700, now)
            sent += 700
        now += max(wait_ms, 10)
    assert 95_000 <= sent <= 115_000


def test_a_limit_of_zero_lets_one_step_through_and_then_nothing() -> None:
    made = throttle(0)
    assert made.wait_ms(0) == 0
    made.record(1, 0)
    assert made.wait_ms(500) == WINDOWS * WINDOW_MS - 500
