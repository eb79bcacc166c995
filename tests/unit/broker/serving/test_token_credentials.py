"""Logins with delegation tokens: keys are derived beside the loop, sessions end with the token."""

from __future__ import annotations

import asyncio
import hashlib
from random import Random
from typing import Any

import pytest

from ottla.broker.serving import token_credentials
from ottla.broker.serving.token_credentials import TokenCredentials
from ottla.security import scram_keys
from ottla.security.delegation_tokens import token_password, token_secret
from ottla.security.scram import Scram
from ottla.security.scram_server import ScramServer, decoys_like
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.records.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from tests.unit.broker.rooms import CLOCK
from tests.unit.broker.serving.test_login import World, after, timed

KEY = "the-key-of-this-cluster"
TOKEN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
LIFE_MS = 600_000


def with_token(**changes: Any) -> World:
    world = World(**{"delegation.token.secret.key": KEY})
    add(world, TOKEN_ID, **changes)
    return world


def add(world: World, token_id: str, **changes: Any) -> None:
    token = DelegationTokenRecord(
        owner="User:carol",
        requester="User:alice",
        issue_timestamp=CLOCK,
        max_timestamp=CLOCK + 2 * LIFE_MS,
        expiration_timestamp=CLOCK + LIFE_MS,
        token_id=token_id,
    )
    for name, value in changes.items():
        setattr(token, name, value)
    world.serving.image_changed(world.ground.image.apply([token]))


def password(token_id: str = TOKEN_ID) -> str:
    return token_password(token_secret(token_id, KEY))


async def log_in(world: World, secret: str, *, token_id: str = TOKEN_ID, is_token: bool = True) -> Any:
    client = Scram("SCRAM-SHA-256", token_id, secret, Random(1), is_delegation_token=is_token)
    world.handshake("SCRAM-SHA-256")
    assert world.handshaken().error_code == 0
    world.token(client.initial())
    await after(2_000)
    first = world.authenticated()
    assert first.error_code == 0
    answer = client.respond(first.auth_bytes)
    assert answer is not None
    world.token(answer)
    await after(2_000)
    return world.authenticated()


@timed
async def test_a_client_with_a_token_is_its_owner_until_the_token_expires() -> None:
    world = with_token()
    answer = await log_in(world, password())
    assert answer.error_code == 0
    principal = world.client.access.principal
    assert (str(principal), principal.is_token_authenticated) == ("User:carol", True)
    assert 0 < answer.session_lifetime_ms <= LIFE_MS
    assert world.has_passed
    await after(LIFE_MS + 1)
    assert not world.has_passed and world.channel.is_closed


@timed
async def test_bare_tokens_of_old_clients_wait_for_the_keys_too() -> None:
    world = with_token()
    client = Scram("SCRAM-SHA-256", TOKEN_ID, password(), Random(1), is_delegation_token=True)
    world.handshake("SCRAM-SHA-256", version=0)
    world.channel.sent.clear()
    world.frame(client.initial())
    assert world.channel.is_paused and not world.channel.sent
    await after(2_000)
    assert not world.channel.is_paused
    answer = client.respond(world.channel.sent.pop(0)[4:])
    assert answer is not None
    world.frame(answer)
    assert client.respond(world.channel.sent.pop(0)[4:]) is None
    assert str(world.client.access.principal) == "User:carol"


@timed
async def test_no_key_is_derived_on_the_loop() -> None:
    world = with_token()
    client = Scram("SCRAM-SHA-256", TOKEN_ID, password(), Random(1), is_delegation_token=True)
    world.handshake("SCRAM-SHA-256")
    world.handshaken()
    world.token(client.initial())
    assert not world.channel.sent, "the answer waits for another thread"
    await after(2_000)
    assert world.authenticated().error_code == 0


@timed
async def test_a_wrong_secret_an_unknown_token_a_user_and_a_removed_token_are_refused() -> None:
    refused = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (await log_in(with_token(), password("another"))).error_code == refused
    assert (await log_in(with_token(), password("unknown"), token_id="unknown")).error_code == refused
    assert (await log_in(with_token(), password(), is_token=False)).error_code == refused
    world = with_token()
    world.serving.image_changed(world.ground.image.apply([RemoveDelegationTokenRecord(token_id=TOKEN_ID)]))
    assert (await log_in(world, password())).error_code == refused
    assert (await log_in(with_token(expiration_timestamp=CLOCK - 1), password())).error_code == refused
    assert (await log_in(with_token(max_timestamp=CLOCK - 1), password())).error_code == refused
    without_key = World()
    add(without_key, TOKEN_ID)
    assert (await log_in(without_key, password())).error_code == refused


@timed
async def test_a_login_that_timed_out_while_keys_were_derived_is_not_answered() -> None:
    world = with_token()
    client = Scram("SCRAM-SHA-256", TOKEN_ID, password(), Random(1), is_delegation_token=True)
    world.handshake("SCRAM-SHA-256")
    world.handshaken()
    world.token(client.initial())
    world.gate._timed_out()
    await after(2_000)
    assert world.channel.is_closed and not world.channel.sent


@timed
async def test_logins_with_one_token_share_one_derivation_and_the_longest_unused_keys_go_first() -> None:
    world = with_token()
    tokens = world.serving.scram_credentials.tokens
    waits = [tokens.prepare("SCRAM-SHA-256", TOKEN_ID) for _ in range(3)]
    assert len(tokens._deriving) == 1
    assert tokens.find("SCRAM-SHA-256", TOKEN_ID) is None
    await asyncio.gather(*(wait for wait in waits if wait is not None))
    assert tokens.prepare("SCRAM-SHA-256", TOKEN_ID) is None
    assert tokens.prepare("SCRAM-SHA-512", TOKEN_ID) is not None
    assert tokens.prepare("SCRAM-SHA-256", "unknown") is None
    await after(2_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_credentials, "MAX_KEPT", 2)
        add(world, "second")
        assert tokens.find("SCRAM-SHA-256", TOKEN_ID) is not None
        wait = tokens.prepare("SCRAM-SHA-256", "second")
        assert wait is not None
        await wait
    assert tokens.find("SCRAM-SHA-512", TOKEN_ID) is None
    assert tokens.find("SCRAM-SHA-256", TOKEN_ID) is not None
    world.serving.image_changed(world.ground.image.apply([RemoveDelegationTokenRecord(token_id=TOKEN_ID)]))
    assert list(tokens._derived) == [("SCRAM-SHA-256", "second")]


@timed
async def test_keys_of_a_token_never_show_in_a_repr() -> None:
    world = with_token()
    tokens: TokenCredentials = world.serving.scram_credentials.tokens
    wait = tokens.prepare("SCRAM-SHA-256", TOKEN_ID)
    assert wait is not None
    await wait
    found = tokens.find("SCRAM-SHA-256", TOKEN_ID)
    assert found is not None
    expected = hashlib.pbkdf2_hmac("sha256", password().encode(), found.salt, scram_keys.MIN_ITERATIONS)
    assert found.stored_key == scram_keys.scram_keys("sha256", expected).stored_key
    assert repr(found.stored_key) not in repr(found) and repr(found.server_key) not in repr(found)


@pytest.mark.parametrize(
    ("message", "token_id"),
    [
        (b"n,,n=a=2Cb,r=x,tokenauth=true", "a,b"),
        (b"n,,n=a,r=x,tokenauth=TRUE", "a"),
        (b"n,,n=a,r=x,tokenauth=false", None),
        (b"n,,n=a,r=x", None),
        (b"n,,tokenauth=true", None),
        (b",tokenauth=true", None),
        (b"n,,n=\xff,tokenauth=true", None),
        (b"n,,n==,r=x,tokenauth=true", None),
        (b"n,,n=a,r=" + b"x" * 20_000 + b",tokenauth=true", None),
    ],
)
def test_only_a_client_first_message_names_a_token(message: bytes, token_id: str | None) -> None:
    server = ScramServer("SCRAM-SHA-256", lambda name, is_token: None, decoys_like([]), Random(1))
    assert server.wanted_token(message) == token_id
    server.respond(b"n,,n=a,r=x", 0)
    assert server.wanted_token(message) is None
