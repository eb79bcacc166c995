"""A broker's side of OAUTHBEARER."""

from __future__ import annotations

import pytest

from ottla.security.authentication import OAuthBearer
from ottla.security.bearer_server import INVALID_TOKEN, BearerServer
from ottla.security.login import Identity, LoginRefused
from ottla.security.principal import Principal

ALICE = Identity(Principal("User", "alice"), 5_000)


def validate(token: str, timestamp: int) -> Identity:
    if token != "good.token":
        raise LoginRefused("the token's signature is wrong")
    return ALICE


@pytest.mark.parametrize("extensions", [{}, {"logicalCluster": "one", "tenant": "two"}])
def test_a_token_that_holds_logs_its_principal_in(extensions: dict[str, str]) -> None:
    server = BearerServer(validate)
    assert server.respond(OAuthBearer("good.token", extensions).initial(), 0) == b""
    assert server.identity == ALICE


def test_a_token_that_does_not_hold_is_answered_and_refused_when_the_client_acknowledges() -> None:
    server = BearerServer(validate)
    client = OAuthBearer("bad.token", {})
    challenge = server.respond(client.initial(), 0)
    assert challenge == INVALID_TOKEN.encode()
    acknowledged = client.respond(challenge)
    assert acknowledged is not None
    with pytest.raises(LoginRefused, match="signature is wrong") as refused:
        server.respond(acknowledged, 0)
    assert refused.value.public_message == INVALID_TOKEN
    assert server.identity is None


def test_a_second_token_after_a_wrong_one_is_refused() -> None:
    server = BearerServer(validate)
    server.respond(OAuthBearer("bad.token", {}).initial(), 0)
    with pytest.raises(LoginRefused):
        server.respond(OAuthBearer("good.token", {}).initial(), 0)
    assert server.identity is None


@pytest.mark.parametrize(
    ("authorization_id", "is_accepted"), [("", True), ("a=alice", True), ("a=bob", False), ("alice", False)]
)
def test_an_authorization_id_is_the_principal_or_absent(authorization_id: str, is_accepted: bool) -> None:
    server = BearerServer(validate)
    message = f"n,{authorization_id},\x01auth=Bearer good.token\x01\x01".encode()
    if is_accepted:
        server.respond(message, 0)
    else:
        with pytest.raises(LoginRefused):
            server.respond(message, 0)
    assert (server.identity is not None) is is_accepted


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01",
        b"y,,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Basic good.token\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01auth=Bearer other\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01na-me=x\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01name=\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01name=\xc3\xa4\x01\x01",
        b"n,,x\x01auth=Bearer good.token\x01\x01",
        b"n,," + b"\x01a=b" * 1000 + b"\x01\x01",
    ],
)
def test_a_message_that_is_none_is_refused(message: bytes) -> None:
    server = BearerServer(validate)
    with pytest.raises(LoginRefused):
        server.respond(message, 0)
    assert server.identity is None
