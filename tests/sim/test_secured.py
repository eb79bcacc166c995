"""Users that log in and are granted and revoked things in a cluster, and the checker of their workload."""

from __future__ import annotations

import asyncio
import random

import pytest

from ottla.broker.peers.suspicions import Look
from ottla.client import KafkaError, Producer
from ottla.sim import shape
from ottla.sim.checkers import Violation
from ottla.sim.loop import Overdue
from ottla.sim.replica_world import SECURED
from ottla.sim.replicas import Cluster
from ottla.sim.secured import TOPIC, Permissions, User
from ottla.sim.shape import SASL_PORT, Shape
from ottla.sim.world import run_seed
from ottla.wire.errors import ErrorCode


def test_a_record_before_the_grant_is_a_violation() -> None:
    user = User("alice")
    with pytest.raises(Violation, match="P1"):
        user.acknowledged(1.0, 2.0)
    user.grant_began_at = 1.5
    user.acknowledged(1.0, 2.0)


def test_a_record_that_was_sent_after_every_node_knew_the_revocation_is_a_violation() -> None:
    user = User("alice")
    user.grant_began_at, user.revoke_known_at = 1.0, 5.0
    user.acknowledged(4.9, 6.0)
    with pytest.raises(Violation, match="P2"):
        user.acknowledged(5.1, 6.0)
    user.is_grant_doubtful = True
    user.acknowledged(5.1, 6.0)


def test_a_consumer_that_is_made_after_the_revocation_gets_nothing() -> None:
    user = User("alice")
    with pytest.raises(Violation, match="P1"):
        user.handed(1.0, 2.0)
    user.grant_began_at, user.revoke_known_at = 1.0, 5.0
    user.handed(4.0, 6.0)
    with pytest.raises(Violation, match="P2"):
        user.handed(5.5, 6.0)


def test_a_refusal_after_every_node_knew_the_grant_is_a_violation_until_it_is_revoked() -> None:
    user = User("alice")
    user.refused(1.0, 2.0)
    user.grant_known_at, user.revoke_began_at = 3.0, 9.0
    user.refused(2.0, 4.0)
    with pytest.raises(Violation, match="P3"):
        user.refused(4.0, 5.0)
    user.refused(4.0, 9.5)


def test_a_revocation_reaches_a_producer_that_stays_connected() -> None:
    sim = Cluster(3, shape=Shape(has_logins=True))
    permissions = Permissions(sim, random.Random(1))
    writer = permissions.programs[0]
    refusals: list[ErrorCode] = []

    async def scenario() -> None:
        await permissions._client.create_topic(TOPIC, 1)
        await permissions._new_user()
        user = permissions._user
        await permissions._grant(user)
        async with Producer(**permissions._logging_in(writer, user, user.password)) as producer:
            await producer.send(TOPIC, b"allowed", partition=0, timestamp=sim.clock())
            await permissions._revoke(user)
            with pytest.raises(KafkaError) as refused:
                await producer.send(TOPIC, b"refused", partition=0, timestamp=sim.clock())
            refusals.append(refused.value.code)

    sim.run(scenario())
    assert refusals == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    sim.finish()


def test_nodes_whose_principal_is_no_super_user_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(shape.SECURED, "super.users", "User:ANONYMOUS")
    sim = Cluster(3, shape=Shape(has_logins=True), is_started=False)
    with pytest.raises(Overdue):
        sim.run(sim.start_all(), within_s=10)
    sim.abandon()
    assert "super.users of every node has to name the nodes' principal" in caplog.text


def test_looks_at_nodes_that_want_a_login_are_answered_and_are_no_failed_logins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They asked ApiVersions twice, which a node takes once before a login."""
    sim = Cluster(3, shape=Shape(has_logins=True))
    nodes = sim.live()

    async def looks() -> list[Look]:
        found = [await nodes[0].peers.look_at(name, SASL_PORT, 1_000) for name in sim.names[1:] for _ in range(3)]
        await asyncio.sleep(1)  # a refused login is closed after 100 ms
        return found

    assert sim.run(looks()) == [Look.ANSWERED] * 6
    sim.kill("node-2")
    assert sim.run(nodes[0].peers.look_at("node-2", SASL_PORT, 1_000)) is Look.REFUSED
    assert [node.ground.metrics.logins("SASL_PLAINTEXT").failed_authentication for node in nodes] == [0] * 3
    assert "before the end of the login" not in caplog.text
    sim.heal()
    sim.finish()


def test_a_world_of_changing_passwords_and_acls_keeps_every_promise() -> None:
    verdict = run_seed(6, duration_s=4, only=SECURED)
    assert verdict.has_passed, "\n".join([*verdict.lines[-80:], verdict.summary()])
    events = [line for line in verdict.lines if " user-" in line]
    assert sum("granted" in line for line in events) >= 3
    assert sum("revoked" in line for line in events) >= 2
