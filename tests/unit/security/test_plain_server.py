"""A broker's side of PLAIN."""

from __future__ import annotations

import pytest

from ottla.security.authentication import Plain
from ottla.security.jaas import parse_jaas
from ottla.security.login import LoginRefused
from ottla.security.plain_server import PlainServer, plain_users
from ottla.security.principal import Principal

USERS = {"alice": "alice-secret", "zoë": "pässword"}


@pytest.mark.parametrize(("user", "password"), USERS.items())
def test_the_right_password_logs_the_user_in(user: str, password: str) -> None:
    server = PlainServer(USERS)
    assert server.respond(Plain(user, password).initial(), 0) == b""
    assert server.identity is not None and server.identity.principal == Principal("User", user)
    assert server.identity.expires_at is None


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0alice\0\xff\xfe", "Authentication failed: Invalid username or password"),
    ],
)
def test_any_other_token_is_refused_with_kafkas_message(token: bytes, message: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(LoginRefused) as refused:
        server.respond(token, 0)
    assert refused.value.public_message == message
    assert server.identity is None
    assert "alice-secret" not in str(refused.value)


def test_an_authorization_id_that_is_the_user_is_accepted() -> None:
    server = PlainServer(USERS)
    server.respond(b"alice\0alice\0alice-secret", 0)
    assert server.identity is not None


def test_users_are_the_options_that_begin_with_user() -> None:
    module = parse_jaas(
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="own" '
        'user_broker="own" user_alice="one two";'
    )
    assert plain_users(module) == {"broker": "own", "alice": "one two"}
