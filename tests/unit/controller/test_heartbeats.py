"""Sessions of brokers with the active controller."""

from __future__ import annotations

from ottla.controller.heartbeats import Heartbeats


def test_a_silent_broker_expires_and_is_forgotten() -> None:
    heartbeats = Heartbeats(9_000)
    assert heartbeats.deadline() is None
    heartbeats.begin([1, 2], 0)
    heartbeats.touch(1, 4_000)
    assert (heartbeats.deadline(), heartbeats.has_session(2, 8_999), heartbeats.has_session(2, 9_000)) == (
        9_000,
        True,
        False,
    )
    assert heartbeats.expired(8_999) == []
    assert heartbeats.expired(9_000) == [2]
    assert heartbeats.expired(20_000) == [1]
    assert heartbeats.deadline() is None and not heartbeats.has_session(1, 20_000)
    heartbeats.touch(2, 20_000)
    heartbeats.forget(2)
    assert heartbeats.expired(99_000) == []


def test_brokers_are_excused_when_the_controller_itself_stood_still() -> None:
    heartbeats = Heartbeats(9_000)
    heartbeats.begin([1, 2], 0)
    heartbeats.touch(3, 5_000)
    heartbeats.excuse(30_000, 1_000)
    assert heartbeats.expired(30_000) == []
    heartbeats.touch(2, 30_500)
    assert heartbeats.expired(31_000) == [1, 3]
    assert heartbeats.has_session(2, 31_000)
