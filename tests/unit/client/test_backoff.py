"""Pauses between tries."""

from __future__ import annotations

from random import Random

from ottla.client.core.backoff import Backoff
from ottla.client.core.membership import MembershipConfig


def test_pauses_double_up_to_the_longest_with_a_fifth_of_chance() -> None:
    backoff = Backoff(100, 1_000, Random(1))
    for attempt, exact in ((0, 100), (1, 100), (2, 200), (4, 800), (5, 1_000), (99, 1_000)):
        pauses = [backoff.pause_ms(attempt) for _ in range(200)]
        assert 0.8 * exact <= min(pauses) < 0.85 * exact
        assert 1.15 * exact < max(pauses) <= 1.2 * exact


def test_the_longest_pause_is_never_shorter_than_the_first() -> None:
    assert 400 <= Backoff(500, 100, Random(1)).pause_ms(3) <= 600


def test_a_member_waits_by_the_same_rule() -> None:
    config = MembershipConfig(group_id="g", retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    assert 160 <= config.backoff_ms(1, Random(1)) <= 240
    assert 800 <= config.backoff_ms(9, Random(1)) <= 1_200
