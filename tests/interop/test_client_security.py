"""Our clients on an Apache Kafka 4.3.1 with secured listeners: which clients may log in, and the errors of the others.

OTTLA_INTEROP_ALL=1 runs them: they take half a minute. What needs no broker is in tests/unit/client.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition, blocking
from ottla.client.config import ConsumerConfig
from ottla.client.connection import Connection
from ottla.client.errors import AuthenticationError, NoBrokerReached, TlsError
from ottla.spark.blocking_cluster import BlockingCluster
from tests.interop.secured_kafka import CLIENT, FILES, TRUST, SecuredKafka, running_kafka
from tests.interop.servers import kafka_anchor

pytestmark = [
    pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="long: OTTLA_INTEROP_ALL=1 runs it"),
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.timeout(900),
]
LIMIT_SECONDS = 120
Settings = dict[str, Any]
Way = Callable[[SecuredKafka], Settings]
WAYS: dict[str, Way] = {
    "PLAIN": lambda kafka: kafka.plain(),
    "SCRAM-SHA-256": lambda kafka: kafka.scram("bob", 'b"ob, =1', "SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda kafka: kafka.scram("bob", 'b"ob, =1'),
    "OAUTHBEARER": lambda kafka: kafka.bearer("carol"),
    "certificate": lambda kafka: kafka.certificate(),
    "SASL_PLAINTEXT": lambda kafka: kafka.sessions("bob", 'b"ob, =1'),
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    for server in running_kafka(tmp_path_factory.mktemp("secured")):
        server.add_user("bob", 'b"ob, =1')
        yield server


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            await work

    asyncio.run(limited())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_records_there_and_back(kafka: SecuredKafka, topic: str, way: Way) -> None:
    settings = way(kafka)

    async def work() -> None:
        async with Admin(settings) as admin:
            await admin.create_topic(topic, 2)
        large = b"x" * 300_000
        async with Producer(settings) as producer:
            await asyncio.gather(*(producer.send(topic, large + b"%d" % number) for number in range(20)))
        async with Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe([topic])
            found: list[bytes] = []
            while len(found) < 20:
                found += [record.value or b"" for record in await consumer.poll(1_000)]
        assert sorted(int(value.removeprefix(large)) for value in found) == list(range(20))

    run(work())
    cluster = BlockingCluster(ConsumerConfig.parse(settings))
    try:
        ends = cluster.ends([TopicPartition(topic, 0), TopicPartition(topic, 1)], "read_uncommitted")
    finally:
        cluster.close()
    assert sum(ends.values()) == 20
    with blocking.Admin(settings) as admin:
        assert topic in admin.list_topics()


def without(settings: Settings, part: str) -> Settings:
    return {name: value for name, value in settings.items() if part not in name}


REFUSED: list[tuple[str, Way, type[Exception], str]] = [
    ("password", lambda kafka: kafka.plain("hush"), AuthenticationError, "refused user 'alice' with this password"),
    ("SCRAM", lambda kafka: kafka.scram("bob", "hush"), AuthenticationError, "refused user 'bob'"),
    ("no such user", lambda kafka: kafka.scram("nobody", "hush"), AuthenticationError, "refused user 'nobody'"),
    (
        "mechanism",
        lambda kafka: kafka.sessions("bob", "hush") | {"sasl.mechanism": "SCRAM-SHA-512"},
        AuthenticationError,
        "SCRAM-SHA-512 is not enabled on this listener, which offers SCRAM-SHA-256",
    ),
    ("no certificate", lambda kafka: kafka.settings("SSL", {}), TlsError, "wants a certificate of this client"),
    (
        "a stranger's certificate",
        lambda kafka: kafka.settings("SSL", {"ssl.keystore.location": str(FILES / "client-of-another.pem")}),
        TlsError,
        "broke off the TLS handshake: it .*certificate",
    ),
    (
        "an expired certificate",
        lambda kafka: kafka.settings("SSL", {"ssl.keystore.location": str(FILES / "client-expired.pem")}),
        TlsError,
        "broke off the TLS handshake: .*certificate",
    ),
    (
        "unknown CA",
        lambda kafka: without(kafka.plain(), "truststore"),
        TlsError,
        "signed by no CA that this client trusts",
    ),
    (
        "no TLS on a port with TLS",
        lambda kafka: kafka.plain() | {"security.protocol": "SASL_PLAINTEXT"},
        TlsError,
        "speaks TLS, and security.protocol is SASL_PLAINTEXT",
    ),
    (
        "a login where none is asked for",
        lambda kafka: kafka.sessions("bob", "hush") | {"bootstrap.servers": kafka.bootstrap},
        AuthenticationError,
        "does not authenticate by SASL",
    ),
]


@pytest.mark.parametrize(("way", "kind", "expected"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_a_refused_client_gets_its_error_at_once(
    kafka: SecuredKafka, topic: str, way: Way, kind: type[Exception], expected: str
) -> None:
    """At once: none of these waits for delivery.timeout.ms, default.api.timeout.ms or a poll without end."""
    settings = way(kafka)

    async def work() -> None:
        async with Admin(settings) as admin:
            with pytest.raises(kind, match=expected) as failed:
                await admin.list_topics()
            assert "hush" not in repr(failed.value)
        async with Producer(settings) as producer:
            with pytest.raises(kind, match=expected):
                await producer.send(topic, b"x")
        async with Consumer({**settings, "group.id": topic}) as consumer:
            consumer.subscribe([topic])
            with pytest.raises(kind, match=expected):
                while True:
                    await consumer.poll(60_000)

    run(work())
    cluster = BlockingCluster(ConsumerConfig.parse(settings), "the query q")
    with pytest.raises(kind, match=f"the query q: .*{expected}"):
        cluster.until_done(cluster.any)
    cluster.close()


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (lambda kafka: {"bootstrap.servers": f"127.0.0.1:{kafka.ports['SASL_PLAINTEXT']}"}, "protocol is SASL_PLAIN"),
        (lambda kafka: kafka.settings("PLAINTEXT", {"security.protocol": "SSL", **TRUST}), "speak TLS at all"),
        (
            lambda kafka: kafka.settings("SASL_SSL", {"security.protocol": "SSL", **CLIENT}),
            "security.protocol is SASL_SSL, not SSL",
        ),
    ],
)
def test_another_protocol_than_the_listeners_is_guessed_at(kafka: SecuredKafka, way: Way, expected: str) -> None:
    """A broker just ends the connection, which it also does when it stops: so this may be tried again."""

    async def work() -> None:
        async with Admin(way(kafka)) as admin:
            with pytest.raises(NoBrokerReached, match=expected):
                await admin.connect()

    run(work())


def test_sessions_are_renewed_while_records_flow(
    kafka: SecuredKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[bool] = []
    renew = Connection._log_in_again

    async def noted(connection: Connection) -> None:
        await renew(connection)
        renewed.append(not connection.is_closed)

    monkeypatch.setattr(Connection, "_log_in_again", noted)

    async def work() -> None:
        settings = kafka.sessions("bob", 'b"ob, =1')
        sent = 0
        async with Admin(settings) as admin, Producer(settings) as producer:
            await admin.create_topic(topic, 1)
            while renewed.count(True) < 4:
                await asyncio.gather(*(producer.send(topic, b"x") for _ in range(10)))
                sent += 10
            ends = await admin.list_offsets({TopicPartition(topic, 0): -1})
        assert [one.offset for one in ends.values()] == [sent]

    run(work())


def test_a_password_that_is_changed_ends_a_consumer_that_runs(kafka: SecuredKafka, topic: str) -> None:
    kafka.add_user("dora", "before")

    async def work() -> None:
        settings = kafka.sessions("dora", "before")
        async with Admin(settings) as admin:
            await admin.create_topic(topic, 1)
        async with Consumer({**settings, "group.id": topic}) as consumer:
            consumer.subscribe([topic])
            while not consumer.assignment():
                await consumer.poll(100)
            await asyncio.to_thread(kafka.add_user, "dora", "after")
            with pytest.raises(AuthenticationError, match=r"refused user 'dora'.*has the password changed or expired"):
                while True:
                    await consumer.poll(1_000)

    run(work())


def test_commands_take_the_settings_of_a_file(kafka: SecuredKafka, tmp_path: Path, topic: str) -> None:
    def command(*arguments: str, password: str = 'b"ob, =1') -> subprocess.CompletedProcess[str]:
        settings = kafka.scram("bob", password)
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items()))
        where = ["--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(file)]
        return subprocess.run(
            [sys.executable, "-m", "ottla", *arguments, *where],
            input="one\n",
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )

    assert command("topics", "create", topic).returncode == 0
    assert command("kafka-console-producer", "--topic", topic).returncode == 0
    read = command("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "1")
    assert read.stdout == "one\n"
    refused = command("topics", "list", password="hush")
    assert refused.returncode == 1
    assert "the broker refused user 'bob'" in refused.stderr
    assert "--command-config FILE" in refused.stderr
    refused = command("kafka-topics", "--list", password="hush")
    assert refused.returncode == 1
    assert "org.apache.kafka.common.errors.SaslAuthenticationException" in refused.stderr
    assert "hush" not in refused.stderr
