"""Logins by OpenID Connect without the calls: addresses, answers, tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from ottla.client.errors import AuthenticationError
from ottla.console.console import ConsoleConfig
from ottla.console.faults import Fault
from ottla.console.oidc import (
    ATTEMPT_S,
    Attempt,
    Grant,
    OidcConfig,
    Tokens,
    authorization_url,
    credentials_with,
    parse_answer,
    parse_grant,
    subject_of,
)
from ottla.console.server import ConsoleServer


def token(claims: Any) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.sig"


def test_the_browser_goes_with_a_challenge_and_a_state() -> None:
    config = OidcConfig(issuer="https://issuer", client_id="a b&c")
    attempt = Attempt("state", "verifier", began_at=0.0)
    url = authorization_url("https://issuer/login?tenant=x", config, attempt, "https://console/login/callback")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    digest = hashlib.sha256(b"verifier").digest()
    assert asked == {
        "tenant": "x",
        "response_type": "code",
        "client_id": "a b&c",
        "redirect_uri": "https://console/login/callback",
        "scope": "openid",
        "state": "state",
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }


@pytest.mark.parametrize("url", ["http://issuer", "ftp://127.0.0.1", "https://", "issuer", "http://127.0.0.1.evil"])
def test_an_issuer_is_reached_by_https(url: str) -> None:
    with pytest.raises(ValueError, match="has to be https"):
        OidcConfig(issuer=url, client_id="c")


def test_only_the_session_that_began_is_answered_and_not_for_ever() -> None:
    attempt = Attempt("state", "verifier", began_at=100.0)
    assert parse_answer({"code": "c", "state": "state"}, attempt, 100.0 + ATTEMPT_S - 1) == "c"
    for body, known, now in (
        ({"code": "c", "state": "other"}, attempt, 101.0),
        ({"code": "c", "state": None}, attempt, 101.0),
        ({"code": "c"}, attempt, 101.0),
        ({"code": "c", "state": "state"}, None, 101.0),
        ({"code": "c", "state": "state"}, attempt, 100.0 + ATTEMPT_S),
        ({"code": "", "state": "state"}, attempt, 101.0),
        ({"code": ["c"], "state": "state"}, attempt, 101.0),
    ):
        with pytest.raises(Fault):
            parse_answer(body, known, now)


@pytest.mark.parametrize(
    "given",
    ["", "a.b", "a.!!!.c", token([]), token({}), token({"sub": ""}), token({"sub": 5}), token({"sub": "x" * 2_000}),
     token({"sub": "x"}) + ".d", "e30." + "x" * 100_000 + ".c"],
)  # fmt: skip
def test_a_token_without_a_subject_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="access token"):
        subject_of(given)


def test_answers_of_the_issuer_are_checked() -> None:
    access = token({"sub": "ada"})
    grant = parse_grant({"access_token": access, "expires_in": 300, "refresh_token": "r"})
    assert (grant.subject, grant.refresh, grant.lifetime_s) == ("ada", "r", 300.0)
    assert parse_grant({"access_token": access}, "old").refresh == "old"
    for lifetime in (-1, 0, "300", True, None, float("inf"), float("nan")):
        assert parse_grant({"access_token": access, "expires_in": lifetime}).lifetime_s == 60.0
    wrong: Any
    for wrong in (None, [], {}, {"access_token": 5}, {"access_token": "opaque"}):
        with pytest.raises(ValueError, match="access"):
            parse_grant(wrong)
    assert access not in repr(grant) and "r'" not in repr(grant)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_renewed_before_its_time_is_over_and_only_for_the_same_user() -> None:
    clock, given = Clock(), [Grant(token({"sub": "ada", "n": n}), f"r{n}", 100.0) for n in range(3)]
    asked: list[str] = []

    def renew(refresh: str) -> Grant:
        asked.append(refresh)
        return given[len(asked)]

    tokens = Tokens(given[0], renew, clock)
    clock.now = 79.0
    assert tokens() == given[0].access and asked == []
    clock.now = 81.0
    assert tokens() == given[1].access == tokens() and asked == ["r0"]
    given[2] = Grant(token({"sub": "eve"}), "r2", 100.0)
    clock.now = 200.0
    with pytest.raises(AuthenticationError):
        tokens()


class Socket:
    """What a server closes."""

    def __init__(self) -> None:
        self.closed: list[bytes] = []

    async def close(self, *, code: int, message: bytes) -> None:
        self.closed.append(message)


def test_live_views_end_with_the_token_unless_it_is_renewed() -> None:
    async def scenario() -> None:
        clock, sockets = Clock(), [Socket(), Socket(), Socket()]
        renewed = Grant(token({"sub": "ada"}), "r", 1_000.0)
        server = ConsoleServer(ConsoleConfig(needs_login=True))
        first = Tokens(Grant(token({"sub": "eve"}), None, 100.0), None, clock)
        second = Tokens(Grant(token({"sub": "ada"}), "r", 100.0), lambda _: renewed, clock)
        for socket, credentials in zip(sockets, (credentials_with(first), credentials_with(second), {}), strict=True):
            session = server._sessions.logged_in(server._sessions.open(0.0), "User:x", credentials, time.monotonic())
            server._sockets[cast("Any", socket)] = session
        for clock.now in (90.0, 100.0):
            server._close_sockets()
            await server._renew_live()
        assert [one.closed for one in sockets] == [[b"the login has expired"], [], []]
        assert not second.is_due
        await server.stop()

    asyncio.run(scenario())


def test_a_token_that_cannot_be_renewed_ends() -> None:
    clock = Clock()
    tokens = Tokens(Grant(token({"sub": "ada"}), None, 100.0), None, clock)
    clock.now = 99.0
    assert tokens()
    clock.now = 100.0
    with pytest.raises(AuthenticationError, match="expired"):
        tokens()
    refused: list[str] = []

    def refuse(refresh: str) -> Grant:
        refused.append(refresh)
        raise AuthenticationError("no")

    tokens = Tokens(Grant(token({"sub": "ada"}), "r", 100.0), refuse, clock)
    clock.now = 300.0
    for _ in range(3):
        with pytest.raises(AuthenticationError):
            tokens()
    assert refused == ["r"], "the issuer is asked once"
