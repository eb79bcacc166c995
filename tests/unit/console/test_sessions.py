"""Sessions of browsers, and how fast passwords can be tried."""

from __future__ import annotations

from itertools import count

import pytest

from ottla.console.sessions import (
    IDLE_S,
    MAX_SESSIONS,
    MAX_SESSIONS_PER_USER,
    MAX_WAITING,
    MAX_WAITING_PER_HOST,
    LoginDelays,
    Sessions,
)


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


def make_sessions() -> Sessions:
    tokens = count()
    return Sessions(lambda: str(next(tokens)))


def test_many_logins_of_one_user_end_no_session_of_another_user() -> None:
    sessions = make_sessions()
    ada = sessions.logged_in(sessions.open(0), "User:ada", {}, 0)
    eve = [sessions.logged_in(sessions.open(1), "User:eve", {}, at) for at in range(1, MAX_SESSIONS + 2)]
    now = MAX_SESSIONS + 2
    assert sessions.find(ada.id, now) is ada
    assert [one for one in eve if sessions.find(one.id, now)] == eve[-MAX_SESSIONS_PER_USER:]


def test_the_user_with_the_most_sessions_makes_room_when_there_are_too_many() -> None:
    sessions = make_sessions()
    users = MAX_SESSIONS // MAX_SESSIONS_PER_USER
    ada = sessions.logged_in(sessions.open(0), "User:ada", {}, 0)
    for user in range(users + 1):
        for at in range(MAX_SESSIONS_PER_USER):
            sessions.logged_in(sessions.open(at), f"User:u{user}", {}, 1 + at)
    assert sessions.find(ada.id, MAX_SESSIONS) is ada


@pytest.mark.parametrize("address", ["10.0.0.9", "2001:db8::{:x}"])
def test_an_address_without_a_login_ends_no_session_of_another_address(address: str) -> None:
    sessions = make_sessions()
    begun = sessions.open(0, "2001:db8:1::1")
    for index in range(MAX_SESSIONS + 10):
        sessions.open(1, address.format(index))
    assert sessions.find(begun.id, 2) is begun


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
