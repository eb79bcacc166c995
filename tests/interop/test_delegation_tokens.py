"""Delegation tokens through our admin client and tools: what they may do, and how long."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import DelegationToken
from ottla.client.blocking import Admin
from ottla.client.errors import AuthenticationError, ErrorCode, KafkaError
from tests.cli.kafka.scenes import our_tools
from tests.interop.secured_kafka import TRUST, SecuredKafka, jaas
from tests.interop.secured_ottla import SecuredOttla
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import Toolbox

SECRET_KEY = "tokens-are-made-with-this"
DAY_MS = 86_400_000
USERS = {"bob": "bobs-secret", "carol": "carols-secret"}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


SecuredServer = SecuredKafka | SecuredOttla


def ottla(folder: Path) -> SecuredOttla:
    return SecuredOttla(folder / "data", properties={"delegation.token.secret.key": SECRET_KEY})


def kafka(folder: Path) -> SecuredKafka:
    if os.environ.get("OTTLA_INTEROP_ALL") != "1":
        pytest.skip("long: OTTLA_INTEROP_ALL=1 runs it")
    if kafka_anchor() is None:
        pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
    server = SecuredKafka(folder / "data")
    server.overrides = [*server.overrides, f"delegation.token.secret.key={SECRET_KEY}"]
    return server


@pytest.fixture(scope="module", params=[ottla, kafka], ids=lambda one: one.__name__)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    server: SecuredServer = request.param(tmp_path_factory.mktemp("tokens"))
    server.start()
    try:
        for user, password in USERS.items():
            server.add_user(user, password)
        yield server
    finally:
        server.stop()


def scram(
    server: SecuredServer, user: str, password: str, mechanism: str = "SCRAM-SHA-512", tokenauth: str = "false"
) -> dict[str, Any]:
    protocol = "SASL_SSL" if isinstance(server, SecuredKafka) else "SASL_PLAINTEXT"
    settings = {"bootstrap.servers": f"127.0.0.1:{server.ports[protocol]}", "security.protocol": protocol}
    config = jaas("scram.ScramLoginModule", username=user, password=password, tokenauth=tokenauth)
    trust = TRUST if protocol == "SASL_SSL" else {}
    return {**settings, **trust, "sasl.mechanism": mechanism, "sasl.jaas.config": config}


def admin_of(server: SecuredServer, user: str) -> Admin:
    return Admin(scram(server, user, USERS[user]))


def with_token(server: SecuredServer, token: DelegationToken, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    return scram(server, token.token_id, token.password, mechanism, "true")


def seen(admin: Admin, *owners: str, token: DelegationToken, is_there: bool = True) -> list[str]:
    """The ids of the tokens that are described, once the broker knows of this one, or no longer."""
    return list(described(admin, *owners, token_id=token.token_id, is_there=is_there))


def described(admin: Admin, *owners: str, token_id: str, is_there: bool = True) -> dict[str, DelegationToken]:
    for _ in range(600):
        found = {one.token_id: one for one in admin.describe_delegation_token(owners or None)}
        if (token_id in found) is is_there:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{token_id} is {'not ' if is_there else ''}described")


def refusal(call: Any, *arguments: Any, **named: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        call(*arguments, **named)
    return refused.value.code


def test_a_token_is_created_described_renewed_and_expired(secured: SecuredServer) -> None:
    with admin_of(secured, "bob") as bob, admin_of(secured, "carol") as carol:
        token = bob.create_delegation_token(renewers=["User:carol"])
        assert (str(token.owner), str(token.requester)) == ("User:bob", "User:bob")
        assert token.expiry_timestamp == token.issue_timestamp + DAY_MS
        assert token.max_timestamp == token.issue_timestamp + 7 * DAY_MS
        assert token.password not in repr(token)
        assert token.token_id in seen(carol, "User:carol", token=token)
        assert [one for one in bob.describe_delegation_token(["User:bob"]) if one.token_id == token.token_id] == [token]
        assert bob.describe_delegation_token([]) == []
        renewed = carol.renew_delegation_token(token.hmac, period_ms=3_600_000)
        assert token.issue_timestamp + 3_600_000 <= renewed < token.expiry_timestamp
        assert refusal(bob.renew_delegation_token, b"nothing") is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert carol.expire_delegation_token(token.hmac) < renewed
        assert token.token_id not in seen(bob, token=token, is_there=False)
        assert refusal(bob.expire_delegation_token, token.hmac) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_belongs_to_its_owner(secured: SecuredServer) -> None:
    with admin_of(secured, "bob") as bob, admin_of(secured, "carol") as carol:
        token = bob.create_delegation_token(max_lifetime_ms=60_000)
        assert token.expiry_timestamp == token.max_timestamp == token.issue_timestamp + 60_000
        seen(bob, token=token)
        for change in (carol.renew_delegation_token, carol.expire_delegation_token):
            assert refusal(change, token.hmac) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert refusal(bob.create_delegation_token, renewers=["Group:g"]) is ErrorCode.INVALID_PRINCIPAL_TYPE
        bob.expire_delegation_token(token.hmac)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_logs_in_with_a_token_and_is_its_owner_but_makes_no_tokens(
    secured: SecuredServer, topic: str, mechanism: str
) -> None:
    with admin_of(secured, "bob") as bob:
        token = bob.create_delegation_token()
        seen(bob, token=token)
        with Admin(with_token(secured, token, mechanism)) as admin:
            admin.create_topic(topic)
            refused = refusal(admin.create_delegation_token)
            assert refused is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert refusal(admin.describe_delegation_token) is refused
            assert refusal(admin.renew_delegation_token, token.hmac) is refused
            assert refusal(admin.expire_delegation_token, token.hmac) is refused
        forged = with_token(secured, token, mechanism)
        forged["sasl.jaas.config"] = forged["sasl.jaas.config"].replace(token.password, "A" * 88)
        with Admin(forged) as admin, pytest.raises(AuthenticationError):
            admin.connect()
        bob.expire_delegation_token(token.hmac)
        seen(bob, token=token, is_there=False)
        with Admin(with_token(secured, token, mechanism)) as admin, pytest.raises(AuthenticationError):
            admin.connect()


def test_a_token_id_is_no_user_and_a_user_no_token(secured: SecuredServer) -> None:
    with admin_of(secured, "bob") as bob:
        token = bob.create_delegation_token()
        seen(bob, token=token)
        for settings in (
            scram(secured, token.token_id, token.password),
            scram(secured, "bob", USERS["bob"], tokenauth="true"),
        ):
            with Admin(settings) as admin, pytest.raises(AuthenticationError):
                admin.connect()
        bob.expire_delegation_token(token.hmac)


def test_the_tool_shows_what_it_did(secured: SecuredServer, tmp_path: Path) -> None:
    settings = scram(secured, "bob", USERS["bob"])
    config = tmp_path / "admin.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()).replace("\\", "\\\\"))
    to = ["--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(config)]
    code, out, err = our_tools(
        "delegation-tokens", [*to, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:carol"]
    )
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "Calling create token operation with renewers :[User:carol] , max-life-time-period :-1"
    token_id, hmac, owner, requester, renewers = lines[-1].split()[:5]
    assert lines[1] == f"Created delegation token with tokenId : {token_id}"
    assert (owner, requester, renewers) == ("User:bob", "User:bob", "[User:carol]")
    with admin_of(secured, "bob") as bob:
        assert described(bob, token_id=token_id)[token_id].password == hmac
    code, out, _ = our_tools("delegation-tokens", [*to, "--renew", "--hmac", hmac, "--renew-time-period", "1000"])
    assert code == 0
    assert out.splitlines()[1].startswith("Completed renew operation. New expiry date : 20")
    code, out, _ = our_tools("delegation-tokens", [*to, "--describe", "--owner-principal", "User:carol"])
    assert (code, out.splitlines()[:2]) == (
        0,
        ["Calling describe token operation for owners: [User:carol]", "Total number of tokens : 1"],
    )
    code, out, _ = our_tools("delegation-tokens", [*to, "--expire", "--hmac", hmac, "--expiry-time-period", "-1"])
    assert (code, out.splitlines()[0]) == (
        0,
        f"Calling expire token operation with hmac :{hmac} , expire-time-period :-1",
    )


@pytest.fixture(scope="module")
def originals() -> Iterator[Toolbox]:
    if os.environ.get("OTTLA_INTEROP_ALL") != "1" or kafka_anchor() is None:
        pytest.skip("Kafka's command line tools: OTTLA_INTEROP_ALL=1 and the anchor script run them")
    toolbox = Toolbox()
    yield toolbox
    toolbox.close()


def test_kafkas_own_tool_and_clients_use_tokens(
    secured: SecuredServer, originals: Toolbox, tmp_path: Path, topic: str
) -> None:
    def written(settings: dict[str, Any]) -> str:
        config = tmp_path / f"{len(list(tmp_path.iterdir()))}.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return str(config)

    to = ["--bootstrap-server", scram(secured, "bob", "")["bootstrap.servers"], "--command-config"]
    admin = written(scram(secured, "bob", USERS["bob"]))
    created = originals("delegation-tokens", *to, admin, "--create", "--max-life-time-period", "-1").lines
    token_id, hmac = created[-1].split()[:2]
    with admin_of(secured, "bob") as bob:
        described(bob, token_id=token_id)
    by_token = written(scram(secured, token_id, hmac, tokenauth="true"))
    assert originals("topics", *to, by_token, "--create", "--topic", topic).lines == [f"Created topic {topic}."]
    refused = originals.run("delegation-tokens", *to, by_token, "--describe", "--owner-principal", "User:bob")
    assert "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels" in refused.err
    shown = originals("delegation-tokens", *to, admin, "--describe", "--owner-principal", "User:bob").out
    assert token_id in shown and hmac in shown
    renewed = originals("delegation-tokens", *to, admin, "--renew", "--renew-time-period", "-1", "--hmac", hmac).out
    assert "Completed renew operation. New expiry date" in renewed
    originals("delegation-tokens", *to, admin, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    with admin_of(secured, "bob") as bob:
        described(bob, token_id=token_id, is_there=False)
    assert originals.run("topics", *to, by_token, "--list").code == 1


def test_tokens_of_one_make_are_good_for_the_other_on_the_same_folder(tmp_path: Path) -> None:
    """Ottla, then Apache Kafka, then Ottla again: records and secrets mean the same to both."""
    first = ottla(tmp_path)
    second = kafka(tmp_path)
    third = ottla(tmp_path)
    tokens: list[DelegationToken] = []
    servers: list[SecuredServer] = [first, second, third]
    for server in servers:
        server.start()
        try:
            if server is first:
                for user, password in USERS.items():
                    server.add_user(user, password)
            with admin_of(server, "bob") as bob:
                for token in tokens:
                    assert described(bob, token_id=token.token_id)[token.token_id] == token
                    with Admin(with_token(server, token)) as admin:
                        admin.connect()
                made = bob.create_delegation_token(renewers=["User:carol"])
                described(bob, token_id=made.token_id)
                tokens.append(made)
        finally:
            server.stop()
