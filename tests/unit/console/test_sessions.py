"""Sessions of browsers, and how fast passwords can be tried."""

from __future__ import annotations

from itertools import count

from ottla.console.sessions import IDLE_S, MAX_WAITING, MAX_WAITING_PER_HOST, LoginDelays, Sessions


def test_a_login_replaces_the_session_that_was_there_before() -> None:
    tokens = count()
    sessions = Sessions(lambda: str(next(tokens)))
    before = sessions.open(0)
    after = sessions.logged_in(before, "User:ada", {}, 1)
    assert (sessions.find(before.id, 1), sessions.find(after.id, 1)) == (None, after)
    assert sessions.is_open(after, 1) and not sessions.is_open(before, 1)
    assert not sessions.is_open(after, 2 + IDLE_S)
    sessions.end(after)
    assert not sessions.is_open(after, 1)


def test_only_so_many_logins_wait_at_once_or_delays_would_bound_nothing() -> None:
    delays = LoginDelays()
    assert all(delays.begin("10.0.0.1") for _ in range(MAX_WAITING_PER_HOST))
    assert not delays.begin("10.0.0.1") and delays.begin("10.0.0.2")
    delays.end("10.0.0.1")
    assert delays.begin("10.0.0.1") and not delays.begin("10.0.0.1")
    begun = sum(delays.begin(f"10.0.1.{one}") for one in range(MAX_WAITING))
    assert begun == MAX_WAITING - MAX_WAITING_PER_HOST - 1
    assert not delays.begin("10.0.2.1")


def test_a_failed_login_makes_the_next_of_its_address_and_of_its_user_wait() -> None:
    delays = LoginDelays()
    assert delays.delay_s(("host a", "user ada"), 0) == 0
    waits = []
    for _ in range(7):
        delays.failed(("host a", "user ada"), 0)
        waits.append(delays.delay_s(("host b", "user ada"), 0))
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    delays.succeeded(("host a", "user ada"))
    assert delays.delay_s(("host a", "user ada"), 0) == 0
