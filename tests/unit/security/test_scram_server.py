"""A broker's side of SCRAM, with our own client at the other end."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from random import Random

import pytest

from ottla.security.errors import AuthenticationError
from ottla.security.login import LoginRefused
from ottla.security.principal import Principal
from ottla.security.scram import MECHANISMS, Scram
from ottla.security.scram_server import MAX_MESSAGE_BYTES, ScramServer, StoredCredential, decoys_like

PASSWORDS = {"alice": "alice-secret", "a=b,c": "x", "zoë": "pässword"}
TOKENS = {"token-1": "hmac"}
EXPIRES_AT = 5_000


def stored(mechanism: str, principal: Principal, password: str, expires_at: int | None = None) -> StoredCredential:
    algorithm = MECHANISMS[mechanism]
    salt = hashlib.sha256(principal.name.encode()).digest()[:20]
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, 4096)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    return StoredCredential(
        principal, salt, stored_key, hmac.digest(salted, b"Server Key", algorithm), 4096, expires_at
    )


def server_of(mechanism: str = "SCRAM-SHA-256", seed: int = 1) -> ScramServer:
    def find(name: str, is_token: bool) -> StoredCredential | None:
        if is_token:
            if name not in TOKENS:
                return None
            owner = Principal("User", "owner", is_token_authenticated=True)
            return stored(mechanism, owner, TOKENS[name], EXPIRES_AT)
        return stored(mechanism, Principal("User", name), PASSWORDS[name]) if name in PASSWORDS else None

    alice = stored(mechanism, Principal("User", "alice"), PASSWORDS["alice"])
    decoys = decoys_like([("alice", alice.salt, alice.server_key, alice.iterations)])
    return ScramServer(mechanism, find, decoys, Random(seed))


def log_in(server: ScramServer, client: Scram, timestamp: int = 0) -> None:
    challenge = server.respond(client.initial(), timestamp)
    final = client.respond(challenge)
    assert final is not None
    assert client.respond(server.respond(final, timestamp)) is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", PASSWORDS)
def test_the_right_password_logs_the_user_in(mechanism: str, user: str) -> None:
    server = server_of(mechanism)
    log_in(server, Scram(mechanism, user, PASSWORDS[user], Random(2)))
    assert server.identity is not None and server.identity.principal == Principal("User", user)
    assert server.claimed == user


def test_a_delegation_token_logs_its_owner_in_until_it_expires() -> None:
    server = server_of()
    log_in(server, Scram("SCRAM-SHA-256", "token-1", "hmac", Random(2), is_delegation_token=True))
    assert server.identity is not None
    assert server.identity.principal == Principal("User", "owner")
    assert server.identity.principal.is_token_authenticated
    assert server.identity.expires_at == EXPIRES_AT
    with pytest.raises(LoginRefused, match="has expired"):
        log_in(server_of(), Scram("SCRAM-SHA-256", "token-1", "hmac", Random(2), is_delegation_token=True), EXPIRES_AT)


def test_a_token_id_is_no_user_and_a_user_is_no_token() -> None:
    for name, is_token in (("token-1", False), ("alice", True)):
        client = Scram("SCRAM-SHA-256", name, "hmac", Random(2), is_delegation_token=is_token)
        with pytest.raises(LoginRefused, match="there is no such"):
            log_in(server_of(), client)


@pytest.mark.parametrize(("user", "reason"), [("alice", "the password is wrong"), ("mallory", "there is no such user")])
def test_a_wrong_password_and_an_unknown_user_fail_alike_at_the_proof(user: str, reason: str) -> None:
    server = server_of()
    client = Scram("SCRAM-SHA-256", user, "wrong", Random(2))
    final = client.respond(server.respond(client.initial(), 0))
    assert final is not None
    with pytest.raises(LoginRefused, match=reason) as refused:
        server.respond(final, 0)
    assert refused.value.public_message is None
    assert server.identity is None


def first_answer(user: str, seed: int) -> dict[str, str]:
    answer = server_of(seed=seed).respond(Scram("SCRAM-SHA-256", user, "x", Random(2)).initial(), 0).decode()
    return dict(field.split("=", 1) for field in answer.split(","))


def test_an_unknown_user_gets_the_same_salt_each_time_and_iterations_like_others() -> None:
    known, one, again, other = (
        first_answer(user, seed) for user, seed in (("alice", 1), ("mallory", 2), ("mallory", 3), ("trudy", 4))
    )
    assert one["s"] == again["s"] != other["s"]
    assert one["r"] != again["r"]
    assert len(b64decode(one["s"])) == len(b64decode(known["s"]))
    assert one["i"] == known["i"]


def test_the_broker_proves_that_it_knows_the_password() -> None:
    server = server_of()
    client = Scram("SCRAM-SHA-256", "alice", PASSWORDS["alice"], Random(2))
    final = client.respond(server.respond(client.initial(), 0))
    assert final is not None
    server.respond(final, 0)
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        client.respond(b"v=" + b64encode(bytes(32)))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,r=abc,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=alice,r=abc,m=x",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice,r=abc,r=abd",
        b"n,a=bob,n=alice,r=abc",
        b"\xff\xfe",
        b"n,,n=alice,r=" + b"x" * MAX_MESSAGE_BYTES,
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    server = server_of()
    with pytest.raises(LoginRefused):
        server.respond(first, 0)
    assert server.identity is None


def final_of(server: ScramServer) -> str:
    client = Scram("SCRAM-SHA-256", "alice", PASSWORDS["alice"], Random(2))
    final = client.respond(server.respond(client.initial(), 0))
    assert final is not None
    return final.decode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("c=biws", "c=eSws"),  # y,,
        (",r=", ",r=x"),
        (",p=", ",p=AAAA"),
        (",p=", ",p=!"),
        (",p=", ",q="),
        ("c=biws,", ""),
    ],
)
def test_a_final_message_that_was_changed_is_refused(old: str, new: str) -> None:
    server = server_of()
    with pytest.raises(LoginRefused):
        server.respond(final_of(server).replace(old, new, 1).encode(), 0)
    assert server.identity is None


def test_a_final_message_of_another_login_is_refused() -> None:
    replayed = final_of(server_of(seed=7))
    server = server_of(seed=8)
    final_of(server)
    with pytest.raises(LoginRefused, match="nonce is not the one of this login"):
        server.respond(replayed.encode(), 0)


def test_no_repr_shows_a_key() -> None:
    credential = stored("SCRAM-SHA-256", Principal("User", "alice"), "alice-secret")
    for secret in (credential.salt, credential.stored_key, credential.server_key):
        assert repr(secret) not in repr(credential)
