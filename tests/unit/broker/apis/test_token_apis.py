"""Requests for delegation tokens, as a broker and the active controller answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.access import Access
from ottla.broker.apis.create_delegation_token import create_delegation_token
from ottla.broker.apis.describe_delegation_token import describe_delegation_token
from ottla.broker.apis.expire_delegation_token import expire_delegation_token
from ottla.broker.apis.renew_delegation_token import renew_delegation_token
from ottla.broker.caller import Caller, Client
from ottla.security.principal import ANONYMOUS, Principal
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.unit.broker.rooms import CLOCK, TimedGround, call, lead, make_metadata, run_timed

KEY = "the-key-of-this-cluster"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL:SASL_SSL"
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
ALICE_BY_TOKEN = Principal("User", "alice", is_token_authenticated=True)
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DAY_MS = 86_400_000


class Rules:
    """An authorizer that allows what it was given."""

    def __init__(self, *allowed: tuple[AclOperation, AclResource, str]) -> None:
        self.allowed = set(allowed)

    def is_allowed(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        return (operation, resource, name) in self.allowed

    def is_allowed_on_any(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource
    ) -> bool:
        return False


class World:
    """The active controller with a listener of each kind."""

    def __init__(self, folder: Path, **settings: str) -> None:
        keyed = {"delegation_token_secret_key": KEY, "listener_security_protocol_map": PROTOCOLS, **settings}
        self.ground = TimedGround(folder, **keyed)
        self.metadata = make_metadata(self.ground)

    def caller(
        self,
        principal: Principal = ALICE,
        *rules: tuple[AclOperation, AclResource, str],
        listener: str = "SASL",
        version: int = 3,
        is_forwarded: bool = False,
    ) -> Caller:
        client = Client("10.0.0.9", 5, listener, "broker", access=Access(Rules(*rules), principal, "10.0.0.9"))
        return Caller("app", client, 38, version, is_forwarded=is_forwarded)

    async def ask(self, handler: Callable[..., Any], request: Any, caller: Caller) -> Any:
        answer = call(handler, request, caller, self.ground, self.metadata)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def create(
        self, caller: Caller, owner: Principal | None = None, renewer: Principal | None = None
    ) -> CreateDelegationTokenResponse:
        request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner.type, owner.name
        if renewer is not None:
            request.renewers = [CreatableRenewers(principal_type=renewer.type, principal_name=renewer.name)]
        response: CreateDelegationTokenResponse = await self.ask(create_delegation_token, request, caller)
        return response

    async def describe(self, caller: Caller, *owners: Principal) -> Any:
        named = [DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name) for one in owners]
        return await self.ask(describe_delegation_token, DescribeDelegationTokenRequest(owners=named or None), caller)


def run(folder: Path, scenario: Callable[[World], Coroutine[Any, Any, None]], **settings: str) -> None:
    async def whole() -> None:
        world = World(folder, **settings)
        await lead(world.metadata)
        await scenario(world)
        world.metadata.controllership.leader_changed(-1, 9)

    run_timed(whole())


def test_a_token_is_created_renewed_described_and_expired(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        token = await world.create(world.caller(), renewer=BOB)
        assert (token.error_code, token.principal_name) == (0, "alice")
        now = token.issue_timestamp_ms
        renewed = await world.ask(
            renew_delegation_token,
            RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1000),
            world.caller(BOB),
        )
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, now + 1000)
        (described,) = (await world.describe(world.caller(BOB))).tokens
        assert (described.token_id, described.hmac) == (token.token_id, token.hmac)
        assert (described.principal_name, described.token_requester_principal_name) == ("alice", "alice")
        assert [(one.principal_type, one.principal_name) for one in described.renewers] == [("User", "bob")]
        assert (described.issue_timestamp, described.expiry_timestamp) == (now, now + 1000)
        expired = await world.ask(
            expire_delegation_token,
            ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
            world.caller(),
        )
        assert (expired.error_code, expired.expiry_timestamp_ms) == (0, now)
        assert (await world.describe(world.caller())).tokens == []

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("listener", "principal"),
    [("PLAINTEXT", ANONYMOUS), ("PLAINTEXT", ALICE), ("SSL", ANONYMOUS), ("SASL", ALICE_BY_TOKEN), ("", ALICE)],
)
def test_a_connection_without_authentication_or_with_a_token_gets_none(
    tmp_path: Path, listener: str, principal: Principal
) -> None:
    async def scenario(world: World) -> None:
        caller = world.caller(principal, listener=listener)
        created = await world.create(caller)
        assert (created.error_code, created.issue_timestamp_ms, created.max_timestamp_ms) == (NOT_ALLOWED, -1, -1)
        renewed = await world.ask(renew_delegation_token, RenewDelegationTokenRequest(hmac=b"x"), caller)
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
        expired = await world.ask(expire_delegation_token, ExpireDelegationTokenRequest(hmac=b"x"), caller)
        assert (expired.error_code, expired.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
        assert (await world.describe(caller)).error_code == NOT_ALLOWED

    run(tmp_path, scenario)


def test_a_client_certificate_is_authentication_enough(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        assert (await world.create(world.caller(Principal("User", "CN=alice"), listener="SSL"))).error_code == 0

    run(tmp_path, scenario)


def test_a_forwarded_request_goes_by_its_principal_not_by_the_controllers_listener(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        forwarded = world.caller(listener="CONTROLLER", is_forwarded=True)
        assert (await world.create(forwarded)).principal_name == "alice"
        by_token = world.caller(ALICE_BY_TOKEN, listener="CONTROLLER", is_forwarded=True)
        assert (await world.create(by_token)).error_code == NOT_ALLOWED

    run(tmp_path, scenario)


def test_a_token_for_another_owner_needs_create_tokens_on_that_user(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        refused = await world.create(world.caller(), owner=BOB)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name, refused.hmac) == ("bob", "alice", b"")
        allowed = world.caller(ALICE, (AclOperation.CREATE_TOKENS, AclResource.USER, "User:bob"))
        assert (await world.create(allowed, owner=BOB)).principal_name == "bob"
        assert (await world.create(world.caller(), owner=ALICE)).error_code == 0, "for itself it needs nothing"

    run(tmp_path, scenario)


def test_an_older_version_has_no_place_for_the_requester(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        token = await world.create(world.caller(version=2))
        assert token.token_requester_principal_name == ""
        (described,) = (await world.describe(world.caller(version=2))).tokens
        assert described.token_requester_principal_name == ""

    run(tmp_path, scenario)


def test_a_broker_refuses_renewers_that_are_no_users(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        refused = await world.create(world.caller(), renewer=Principal("Group", "g"))
        assert (refused.error_code, refused.max_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, -1)

    run(tmp_path, scenario)


def test_tokens_are_described_to_their_owners_renewers_and_those_that_acls_allow(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        one = await world.create(world.caller(ALICE))
        two = await world.create(world.caller(BOB), renewer=Principal("User", "carol"))
        dave = Principal("User", "dave")
        by_token = (AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN, one.token_id)
        by_owner = (AclOperation.DESCRIBE_TOKENS, AclResource.USER, "User:bob")

        async def seen(caller: Caller, *owners: Principal) -> set[str]:
            return {token.token_id for token in (await world.describe(caller, *owners)).tokens}

        assert await seen(world.caller(ALICE)) == {one.token_id}
        assert await seen(world.caller(Principal("User", "carol"))) == {two.token_id}
        assert await seen(world.caller(dave)) == set()
        assert await seen(world.caller(dave, by_token)) == {one.token_id}
        assert await seen(world.caller(dave, by_owner)) == {two.token_id}
        assert await seen(world.caller(dave, by_owner, by_token)) == {one.token_id, two.token_id}
        assert await seen(world.caller(dave, by_owner, by_token), Principal("User", "carol")) == {two.token_id}
        assert await seen(world.caller(ALICE), BOB) == set()
        empty = DescribeDelegationTokenRequest(owners=[])
        assert (await world.ask(describe_delegation_token, empty, world.caller(ALICE))).tokens == []

    run(tmp_path, scenario)


def test_without_a_secret_key_tokens_are_disabled(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert (await world.create(world.caller())).error_code == disabled
        assert (await world.describe(world.caller())).error_code == disabled

    run(tmp_path, scenario, delegation_token_secret_key="")


def test_the_active_controller_removes_tokens_that_have_expired(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        ground = world.ground
        token = await world.create(world.caller())
        ground.ms = 1000
        kept = await world.create(world.caller())
        ground.ms = DAY_MS + 1
        assert token.expiry_timestamp_ms < ground.clock() == CLOCK + DAY_MS + 1 < kept.expiry_timestamp_ms
        await asyncio.sleep(1.1)
        assert list(ground.image.delegation_tokens) == [kept.token_id]

    run(tmp_path, scenario, delegation_token_expiry_check_interval_ms="1000")
