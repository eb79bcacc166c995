"""Delegation tokens in a secured cluster of three: requests come through any broker, logins work on every broker, and
the next active controller knows the tokens of the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.config import AdminConfig
from ottla.client.connection import Connection
from ottla.client.errors import AuthenticationError, KafkaError
from ottla.security.delegation_tokens import token_password
from ottla.testing import Cluster
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.interop.secured_kafka import jaas

pytest.importorskip("cryptography", reason="ottla security init needs cryptography")
ALICE = ("alice", "alices-secret")
LIMIT_SECONDS = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, {"delegation.token.secret.key": "of-this-cluster"}, secure=True) as made:
        made.add_user(*ALICE)
        yield made


async def ask(cluster: Cluster, node: int, request: Message, settings: dict[str, str]) -> Any:
    """What one broker answers."""
    host, _, port = cluster.node(node).bootstrap_servers.rpartition(":")
    connection = await Connection.connect(host, int(port), AdminConfig.parse(settings))
    try:
        return await connection.request(request)
    finally:
        connection.close()


async def ask_until_known(cluster: Cluster, node: int, request: Message, settings: dict[str, str]) -> Any:
    """The same from a broker that may have to learn of the token first, or be without a controller for a moment."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            try:
                answer = await ask(cluster, node, request, settings)
            except (AuthenticationError, KafkaError):
                await asyncio.sleep(0.1)
                continue
            if answer.error_code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                return answer
            await asyncio.sleep(0.1)


def with_token(cluster: Cluster, token: CreateDelegationTokenResponse) -> dict[str, str]:
    password = token_password(bytes(token.hmac))
    config = jaas("scram.ScramLoginModule", username=token.token_id, password=password, tokenauth="true")
    return {**cluster.client_settings(*ALICE), "sasl.jaas.config": config}


def test_tokens_are_made_through_any_broker_used_on_all_and_outlive_a_controller(cluster: Cluster) -> None:
    async def work() -> None:
        alice = cluster.client_settings(*ALICE)
        create = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        tokens = [await ask_until_known(cluster, node, create, alice) for node in (1, 2, 3)]
        for token in tokens:
            assert (token.error_code, token.principal_name) == (0, "alice")
            settings = with_token(cluster, token)
            for node in (1, 2, 3):
                answer = await ask_until_known(cluster, node, create, settings)
                assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "it is a session by token"
        for_bob = CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=-1
        )
        for node in (1, 2, 3):
            refused = await ask_until_known(cluster, node, for_bob, alice)
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
            made = await ask_until_known(cluster, node, for_bob, cluster.client_settings())
            assert (made.error_code, made.principal_name) == (0, "bob")
            assert made.token_requester_principal_name == "admin"
        gone = cluster.controller()
        gone.kill()
        for node in (1, 2, 3):
            if node != gone.id:
                renew = RenewDelegationTokenRequest(hmac=bytes(tokens[0].hmac), renew_period_ms=1_000_000)
                renewed = await ask_until_known(cluster, node, renew, alice)
                assert (renewed.error_code, renewed.expiry_timestamp_ms < tokens[0].expiry_timestamp_ms) == (0, True)
        gone.start()
        described = await ask_until_known(cluster, gone.id, DescribeDelegationTokenRequest(owners=None), alice)
        assert {one.token_id for one in described.tokens} == {token.token_id for token in tokens}

    asyncio.run(work())
