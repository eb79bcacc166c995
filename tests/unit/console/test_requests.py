from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ottla.client.core.fetching import ConsumerRecord
from ottla.console.call import Route, Routes
from ottla.console.faults import Fault
from ottla.console.history import COARSE_MS, FINE_MS, History
from ottla.console.logins import credentials_of, without_own
from ottla.console.routes import ROUTES
from ottla.console.search_request import format_cursor, parse_cursor, parse_search
from ottla.console.sessions import IDLE_S, MAX_SESSIONS, LoginDelays, Sessions
from ottla.console.tail import Ring


def test_a_search_is_bounded() -> None:
    assert parse_search({"topic": "t"}).limit == 100
    wrong: Any
    for wrong in (
        None,
        [],
        {},
        {"topic": ""},
        {"topic": "t", "limit": 0},
        {"topic": "t", "limit": 1_001},
        {"topic": "t", "limit": True},
        {"topic": "t", "partitions": []},
        {"topic": "t", "partitions": [-1]},
        {"topic": "t", "from": {"kind": "never"}},
        {"topic": "t", "from": {"kind": "offset", "offset": -5}},
        {"topic": "t", "order": "random"},
        {"topic": "t", "format": "xml"},
        {"topic": "t", "filter": []},
        {"topic": "t", "filter": {"expression": "value."}},
        {"topic": "t", "filter": {"path": {"path": "$["}}},
        {"topic": "t", "cursor": "x"},
    ):
        with pytest.raises(Fault) as fault:
            parse_search(wrong)
        assert (fault.value.status, fault.value.code) == (400, "INVALID")


def test_cursors() -> None:
    left = {0: (5, 9), 3: (1, 1), 7: (0, 2)}
    assert parse_cursor(format_cursor(left)) == {0: (5, 9), 7: (0, 2)}
    assert format_cursor({3: (1, 1)}) is None
    for wrong in ("", "%%", base64.urlsafe_b64encode(b"[[1,2]]").decode(), base64.urlsafe_b64encode(b"5").decode()):
        with pytest.raises(Fault, match="cursor"):
            parse_cursor(wrong)
    with pytest.raises(Fault):
        parse_cursor(base64.urlsafe_b64encode(json.dumps([[0, -1, 5]]).encode()).decode())


async def _nothing(call: Any) -> None:
    return None


def test_names_in_paths_are_decoded_after_the_path_is_split() -> None:
    routes = Routes([Route("GET", "topics/{topic}", _nothing), Route("POST", "topics", _nothing)])
    assert routes.find("GET", "topics/a%2Fb%20c")[1] == {"topic": "a/b c"}
    with pytest.raises(Fault) as fault:
        routes.find("GET", "topics/a/b")
    assert fault.value.status == 404
    with pytest.raises(Fault) as fault:
        routes.find("GET", "topics")
    assert fault.value.status == 405


def test_every_change_is_a_post() -> None:
    assert all(route.method == "POST" for route in ROUTES.routes if route.is_change)
    questions = {route.path for route in ROUTES.routes if route.method == "POST" and not route.is_change}
    assert questions <= {"search", "expression", "explain", "topics/{topic}/letters", "schemas/{subject}/check"}


def test_sessions() -> None:
    tokens = iter(str(number) for number in range(10_000))
    sessions = Sessions(lambda: next(tokens))
    first = sessions.open(0.0)
    assert sessions.find(first.id, 10.0) is first
    assert first.is_csrf(first.csrf) and not first.is_csrf(None) and not first.is_csrf("x") and not first.is_csrf("ü")
    # the id changes at login: one that was planted before is worth nothing
    user = sessions.logged_in(first, "User:ada", {"sasl.password": "s3cret"}, 11.0)
    assert sessions.find(first.id, 12.0) is None
    assert sessions.find(user.id, 12.0) is user
    assert "s3cret" not in repr(user)
    assert sessions.find(user.id, 13.0 + IDLE_S) is None
    user = sessions.logged_in(sessions.open(0.0), "User:ada", {}, 0.0)
    for number in range(MAX_SESSIONS + 5):
        last = sessions.open(float(number))
    assert sessions.find(user.id, MAX_SESSIONS + 5.0) is user  # sessions of other users do not end it
    assert sessions.find(last.id, MAX_SESSIONS + 5.0) is last
    assert len(sessions._by_id) == MAX_SESSIONS


def test_failed_logins_wait_longer_and_longer() -> None:
    delays = LoginDelays()
    names = ("host h", "user u")
    assert delays.delay_s(names, 0.0) == 0
    found = []
    for _ in range(8):
        delays.failed(names, 0.0)
        found.append(delays.delay_s(("host other", "user u"), 0.0))
    assert found == [1, 2, 4, 8, 16, 30, 30, 30]
    assert delays.delay_s(names, 700.0) == 0
    delays.succeeded(names)
    assert delays.delay_s(names, 0.0) == 0


def test_logins() -> None:
    name, settings = credentials_of({"username": "ada", "password": "x"})
    assert (name, settings["sasl.mechanism"]) == ("ada", "SCRAM-SHA-512")
    wrong: Any
    for wrong in ({}, {"username": "a"}, {"username": "a", "password": "x", "mechanism": "GSSAPI"}, []):
        with pytest.raises(Fault):
            credentials_of(wrong)
    own = {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL", "sasl.jaas.config": "secret"}
    assert without_own(own) == {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL"}


def test_history_keeps_a_day() -> None:
    history = History(max_series=2)
    start = 1_700_000_000_000 // COARSE_MS * COARSE_MS
    for step in range(1_000):
        history.put(start + step * FINE_MS, {"a": float(step)})
    end = start + 999 * FINE_MS
    times, found = history.read(["a", "unknown"], end - 10 * FINE_MS, end, 300)
    assert found["a"][-1] == 999 and len(times) == 11
    assert set(found["unknown"]) == {None}
    times, found = history.read(["a"], start, end, 300)
    assert next(one for one in found["a"] if one is not None) == 7
    assert len(times) <= 301
    history.put(end, {"zero": 0.0})
    assert history.names() == ["a"]
    history.put(end, {"b": 1.0})
    history.put(end, {"c": 1.0})
    assert len(history.names()) == 2


def test_a_ring_counts_what_it_skips() -> None:
    ring = Ring(10)
    ring.put([ConsumerRecord("t", 0, number, 0, None, b"", ()) for number in range(25)])
    records, skipped = ring.take(4)
    assert ([record.offset for record in records], skipped) == ([15, 16, 17, 18], 15)
    assert ring.take(100)[1] == 0
    assert len(ring) == 0
