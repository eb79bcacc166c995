"""Quotas of principals that logged in: which of several holds, names of any characters, and the controller's quota."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Producer, blocking
from ottla.client.errors import ErrorCode, KafkaError
from tests.interop.secured_kafka import TRUST, SecuredKafka, jaas
from tests.interop.secured_ottla import SecuredOttla
from tests.interop.servers import kafka_anchor

ODD = "CN=a b,O=c/d:%20+?*"
USERS = {"alice": "alices-secret", "bob": "bobs-secret", ODD: "odd-secret"}
LITTLE, MUCH = 1.0, 1e9
SecuredServer = SecuredKafka | SecuredOttla
QuotaEntity = tuple[tuple[str, str | None], ...]


def ottla(folder: Path) -> SecuredServer:
    return SecuredOttla(folder / "data")


def kafka(folder: Path) -> SecuredServer:
    if os.environ.get("OTTLA_INTEROP_ALL") != "1":
        pytest.skip("long: OTTLA_INTEROP_ALL=1 runs it")
    if kafka_anchor() is None:
        pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
    return SecuredKafka(folder / "data")


@pytest.fixture(scope="module", params=[ottla, kafka], ids=lambda one: one.__name__)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    started: SecuredServer = request.param(tmp_path_factory.mktemp("quotas"))
    started.start()
    try:
        for user, password in USERS.items():
            started.add_user(user, password)
        yield started
    finally:
        started.stop()


def login(server: SecuredServer, user: str) -> dict[str, Any]:
    protocol = "SASL_SSL" if isinstance(server, SecuredKafka) else "SASL_PLAINTEXT"
    return {
        "bootstrap.servers": f"127.0.0.1:{server.ports[protocol]}",
        "security.protocol": protocol,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas("scram.ScramLoginModule", username=user, password=USERS[user]),
        **(TRUST if protocol == "SASL_SSL" else {}),
    }


@pytest.fixture
def quotas(server: SecuredServer) -> Iterator[dict[QuotaEntity, dict[str, float]]]:
    """Quotas that a test sets; they are removed after it."""
    given: dict[QuotaEntity, dict[str, float]] = {}
    yield given
    with blocking.Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.alter_client_quotas({entity: dict.fromkeys(values) for entity, values in given.items()})


def put(server: SecuredServer, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
    with blocking.Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.alter_client_quotas(quotas)


def is_throttled(server: SecuredServer, topic: str, user: str, client_id: str) -> bool:
    """Whether the broker asks this client for silence after a record."""

    async def produce() -> bool:
        async with Producer({**login(server, user), "client.id": client_id}) as producer:
            await producer.send(topic, b"x" * 5_000)
            await producer.flush()
            return producer._cluster.ready(1) is None

    return asyncio.run(produce())


def expect(server: SecuredServer, topic: str, expected: dict[tuple[str, str], bool]) -> None:
    """A broker of Kafka's learns of quotas a moment later."""
    found: dict[tuple[str, str], bool] = {}
    for _ in range(100):
        found = {one: is_throttled(server, topic, *one) for one in expected}
        if found == expected:
            return
        time.sleep(0.1)
    assert found == expected


@pytest.fixture
def one_topic(server: SecuredServer, topic: str) -> str:
    with blocking.Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.create_topic(topic)
    return topic


def test_the_most_specific_quota_of_a_principal_holds(
    server: SecuredServer, one_topic: str, quotas: dict[QuotaEntity, dict[str, float]]
) -> None:
    for entity, limit in {
        (("user", "alice"), ("client-id", "free")): MUCH,
        (("user", "alice"), ("client-id", None)): LITTLE,
        (("user", "alice"),): MUCH,
        (("user", None), ("client-id", "slow")): LITTLE,
        (("user", None),): MUCH,
        (("client-id", "other"),): LITTLE,
    }.items():
        quotas[entity] = {"producer_byte_rate": limit}
    put(server, quotas)
    expected = {
        ("alice", "free"): False,  # user and client id
        ("alice", "slow"): True,  # user and default client id
        ("bob", "slow"): True,  # default user and client id
        ("bob", "other"): False,  # default user, which goes before any quota of a client id alone
        (ODD, "other"): False,
    }
    expect(server, one_topic, expected)


def test_a_principal_of_any_name_has_its_quota(
    server: SecuredServer, one_topic: str, quotas: dict[QuotaEntity, dict[str, float]]
) -> None:
    quotas[(("user", ODD),)] = {"producer_byte_rate": LITTLE}
    put(server, quotas)
    expect(server, one_topic, {(ODD, "app"): True, ("bob", "app"): False})
    quotas[("user", ODD), ("client-id", "app ü/%41")] = {"producer_byte_rate": MUCH}
    put(server, quotas)
    expect(server, one_topic, {(ODD, "app ü/%41"): False, (ODD, "app ü/A"): True})


def test_changes_of_the_cluster_are_charged_to_the_principal(
    server: SecuredServer, topic: str, quotas: dict[QuotaEntity, dict[str, float]]
) -> None:
    quotas[(("user", "alice"),)] = {"controller_mutation_rate": 1.0}
    put(server, quotas)

    def create(user: str, name: str) -> ErrorCode | None:
        with blocking.Admin({**login(server, user), "retries": 0}) as admin:
            try:
                admin.create_topic(name, 40)
            except KafkaError as error:
                return error.code
            return None

    refusals = []
    for number in range(50):
        refusals.append(create("alice", f"{topic}-{number}"))
        if refusals[-1] is not None:
            break
        time.sleep(0.1)
    assert refusals[-1] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert create("bob", f"{topic}-bob") is None
    with blocking.Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.delete_topics([f"{topic}-bob", *(f"{topic}-{number}" for number in range(len(refusals) - 1))])
