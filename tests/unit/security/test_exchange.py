"""Which request of a login is answered how, from the handshake to the end of the session."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ottla.security.exchange import (
    MAX_ROUND_COUNT,
    Exchange,
    Exchanging,
    Greeted,
    LoggedIn,
    Login,
    Refused,
    Terms,
)
from ottla.security.login import Identity, LoginRefused
from ottla.security.principal import Principal
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")


@dataclass
class Scripted:
    """Logs alice in with the token `yes`, bob with `bob`, goes on at `more`, and refuses the rest."""

    expires_at: int | None = None
    identity: Identity | None = None
    claimed: str = "alice"
    failure: str | None = None
    seen: list[bytes] = field(default_factory=list)

    def respond(self, token: bytes, timestamp: int) -> bytes:
        self.seen.append(token)
        if token == b"more":
            return b"and?"
        if token in (b"yes", b"bob"):
            self.identity = Identity(ALICE if token == b"yes" else BOB, self.expires_at)
            return b"done"
        raise LoginRefused("the password is wrong", "a message" if token == b"said" else None)


def exchange(
    *, max_reauth_ms: int = 0, expires_at: int | None = None, previous: Login | None = None, version: int | None = 1
) -> Exchange:
    """One that has had its handshake, unless `version` is None."""
    terms = Terms(("X", "PLAIN"), lambda mechanism: Scripted(expires_at), lambda mechanism: max_reauth_ms)
    made = Exchange(terms, previous)
    if version is not None:
        assert made.handshake(SaslHandshakeRequest(mechanism="PLAIN"), version).error_code == 0
    return made


def send(login: Exchange, token: bytes, timestamp: int = 0) -> SaslAuthenticateResponse:
    answer = login.authenticate(SaslAuthenticateRequest(auth_bytes=token), timestamp)
    assert answer is not None
    return answer


def test_a_handshake_answers_with_all_mechanisms() -> None:
    login = exchange(version=None)
    answer = login.handshake(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert (answer.error_code, answer.mechanisms) == (0, ["X", "PLAIN"])
    assert isinstance(login.state, Exchanging)


def test_a_mechanism_that_is_not_enabled_is_refused_with_the_list() -> None:
    login = exchange(version=None)
    answer = login.handshake(SaslHandshakeRequest(mechanism="plain"), 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["X", "PLAIN"])
    assert isinstance(login.state, Refused)


def test_api_versions_is_answered_once_and_before_the_handshake_only() -> None:
    login = exchange(version=None)
    assert login.versions()
    assert not login.versions()
    assert not exchange().versions()
    assert not exchange(version=None, previous=login_of(ALICE)).versions()


def test_a_login_goes_on_until_its_last_token() -> None:
    login = exchange()
    first = send(login, b"more")
    assert (first.error_code, first.error_message, first.auth_bytes, first.session_lifetime_ms) == (0, "", b"and?", 0)
    last = send(login, b"yes")
    assert (last.error_code, last.auth_bytes, last.session_lifetime_ms) == (0, b"done", 0)
    assert login.state == LoggedIn(Login("PLAIN", Identity(ALICE), None))


def test_a_wrong_token_says_nothing_but_that_credentials_are_invalid() -> None:
    login = exchange()
    answer = send(login, b"no")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    )
    assert login.state == Refused("the password is wrong", "PLAIN", "alice")


def test_a_mechanism_may_say_more() -> None:
    assert send(exchange(), b"said").error_message == "a message"


def test_a_token_before_the_handshake_closes_the_connection_without_an_answer() -> None:
    login = exchange(version=None)
    assert login.authenticate(SaslAuthenticateRequest(auth_bytes=b"yes"), 0) is None
    assert isinstance(login.state, Refused)


@pytest.mark.parametrize("end", [b"yes", b"no"])
def test_a_login_that_has_ended_takes_nothing_more(end: bytes) -> None:
    login = exchange()
    send(login, end)
    state = login.state
    assert login.authenticate(SaslAuthenticateRequest(auth_bytes=b"yes"), 0) is None
    assert login.handshake(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert login.state is state


def test_a_second_handshake_is_refused() -> None:
    login = exchange()
    assert login.handshake(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert isinstance(login.state, Refused)


def test_cve_2026_10143_a_login_that_does_not_end_is_given_up() -> None:
    login = exchange()
    for _ in range(MAX_ROUND_COUNT):
        assert send(login, b"more").error_code == 0
    assert send(login, b"more").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert isinstance(login.state, Refused)


def test_after_the_old_handshake_tokens_come_without_requests() -> None:
    login = exchange(version=0)
    assert login.is_bare
    assert login.token(b"more", 0) == b"and?"
    assert login.token(b"yes", 0) == b"done"
    assert isinstance(login.state, LoggedIn)
    assert not login.is_bare


def test_a_bare_token_that_is_wrong_has_no_answer() -> None:
    login = exchange(version=0)
    assert login.token(b"no", 0) is None
    assert isinstance(login.state, Refused)


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_at", "lifetime_ms"),
    [
        (0, None, None),
        (5_000, None, 5_000),
        (5_000, 9_000, 5_000),
        (5_000, 4_000, 3_000),
        (0, 4_000, 3_000),
        (0, 500, 0),
    ],
)
def test_a_session_ends_with_the_setting_or_the_credential_whichever_is_first(
    max_reauth_ms: int, expires_at: int | None, lifetime_ms: int | None
) -> None:
    login = exchange(max_reauth_ms=max_reauth_ms, expires_at=expires_at)
    assert send(login, b"yes", timestamp=1_000).session_lifetime_ms == (lifetime_ms or 0)
    assert isinstance(login.state, LoggedIn)
    assert login.state.login.session_lifetime_ms == lifetime_ms


def login_of(principal: Principal, mechanism: str = "PLAIN") -> Login:
    return Login(mechanism, Identity(principal), 1_000)


def test_the_same_principal_may_authenticate_again() -> None:
    login = exchange(previous=login_of(ALICE))
    assert send(login, b"yes").error_code == 0
    assert isinstance(login.state, LoggedIn)


def test_the_principal_must_not_change() -> None:
    answer = send(exchange(previous=login_of(ALICE)), b"bob")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"


def test_a_failed_re_authentication_says_so() -> None:
    answer = send(exchange(previous=login_of(ALICE)), b"no")
    assert answer.error_message is not None
    assert "failed during re-authentication" in answer.error_message


def test_the_mechanism_must_not_change_which_shows_at_the_first_token() -> None:
    login = exchange(previous=login_of(ALICE, "X"))
    assert login.authenticate(SaslAuthenticateRequest(auth_bytes=b"yes"), 0) is None
    assert login.state == Refused("re-authentication by PLAIN, where the login was by X", "PLAIN", "")


def test_a_wrong_request_ends_the_login() -> None:
    for login in (exchange(version=None), exchange()):
        assert isinstance(login.state, Greeted | Exchanging)
        login.refuse("what does not belong here")
        assert isinstance(login.state, Refused)
