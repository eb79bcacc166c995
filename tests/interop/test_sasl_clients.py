"""Clients that log in to an Ottla by SASL: librdkafka, aiokafka, kafka-python, Java's, our own.

Each sends and receives a record by each mechanism, and learns what was wrong with its login.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.errors import KafkaError as AiokafkaError

from ottla.client import blocking
from ottla.client.errors import AuthenticationError
from tests.interop.secured_kafka import FILES
from tests.interop.secured_ottla import SecuredOttla, running_ottla
from tests.interop.toolbox import Toolbox

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(180)]
BOB = 'b"ob, =1'
SESSION_MS = 1_500
LOGINS = {
    "PLAIN": ("alice", "alice-secret"),
    "SCRAM-SHA-256": ("bob", BOB),
    "SCRAM-SHA-512": ("bob", BOB),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    with running_ottla(
        tmp_path_factory.mktemp("clients") / "data",
        protocols=("SASL_PLAINTEXT", "SASL_SSL", "SESSIONS"),
        users={"bob": BOB},
        arguments=["--log-level", "debug"],
        properties={
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SESSIONS:SASL_PLAINTEXT",
            "listener.name.sessions.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sessions.connections.max.reauth.ms": str(SESSION_MS),
        },
    ) as running:
        yield running
        shown = running.log.read_text() + running.metrics()
        assert "a bug" not in shown
        # CVE-2026-33558: logs at DEBUG must not hold secrets, not even encoded as SCRAM and PLAIN send them.
        for secret in (BOB, "alice-secret", "carol-secret", "dave-first", "dave-second"):
            for text in (secret, repr(secret), b64encode(secret.encode()).decode(), secret.encode().hex()):
                assert text not in shown


class Refused(Exception):
    """A client's login failed."""


class Client:
    """One client's way to send a record, to read it back, and to say that its login failed."""

    def __init__(self, address: str, mechanism: str, user: str, password: str) -> None:
        self.address = address
        self.mechanism = mechanism
        self.user = user
        self.password = password

    def send_and_read(self, topic: str) -> bytes:
        raise NotImplementedError


class Librdkafka(Client):
    @property
    def settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
            "log_level": 0,
        }

    def send_and_read(self, topic: str) -> bytes:
        errors: list[Any] = []
        settings = {**self.settings, "error_cb": errors.append}
        producer = confluent_kafka.Producer(settings)
        producer.produce(topic, b"librdkafka")
        end = time.monotonic() + 30
        while producer.flush(0.2) and not errors and time.monotonic() < end:
            pass
        if errors:
            producer.purge()
            raise Refused(errors[0].str())
        consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        try:
            while time.monotonic() < end:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    return message.value() or b""
        finally:
            consumer.close()
        raise AssertionError("no record came")


class Aiokafka(Client):
    def send_and_read(self, topic: str) -> bytes:
        settings: dict[str, Any] = {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

        async def work() -> bytes:
            producer = aiokafka.AIOKafkaProducer(**settings)
            try:
                await producer.start()
                await producer.send_and_wait(topic, b"aiokafka")
            except AiokafkaError as error:
                raise Refused(repr(error)) from None
            finally:
                await producer.stop()
            consumer = aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", group_id=topic, **settings)
            await consumer.start()
            try:
                return bytes((await consumer.getone()).value)
            finally:
                await consumer.stop()

        return asyncio.run(work())


KAFKA_PYTHON = """\
import sys
import kafka

address, mechanism, user, password, topic = sys.argv[1:]
settings = dict(
    bootstrap_servers=address,
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism=mechanism,
    sasl_plain_username=user,
    sasl_plain_password=password,
)
producer = kafka.KafkaProducer(**settings, max_block_ms=5_000, bootstrap_timeout_ms=1_000)
producer.send(topic, b"kafka-python").get(timeout=30)
producer.close(timeout=5)
consumer = kafka.KafkaConsumer(topic, auto_offset_reset="earliest", group_id=topic, **settings)
print(next(consumer).value.decode())
consumer.close()
"""


class KafkaPython(Client):
    """In a process of its own: a producer that cannot be made leaves its sockets and a thread behind."""

    def send_and_read(self, topic: str) -> bytes:
        command = [sys.executable, "-c", KAFKA_PYTHON, self.address, self.mechanism, self.user, self.password, topic]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Refused(done.stderr[-2000:])
        return done.stdout.encode()


class Own(Client):
    @property
    def settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }

    def send_and_read(self, topic: str) -> bytes:
        try:
            with blocking.Producer(self.settings) as producer:
                producer.send(topic, b"own").result()
        except AuthenticationError as error:
            raise Refused(str(error)) from None
        settings = {**self.settings, "group.id": topic, "auto.offset.reset": "earliest"}
        with blocking.Consumer(settings) as consumer:
            consumer.subscribe([topic])
            while True:
                for record in consumer.poll(1_000):
                    return record.value or b""


CLIENTS: list[type[Client]] = [Librdkafka, Aiokafka, KafkaPython, Own]
NewClient = Callable[..., Client]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.__name__)
def client(request: pytest.FixtureRequest, node: SecuredOttla) -> NewClient:
    def make(mechanism: str, user: str, password: str) -> Client:
        made: Client = request.param(node.address(), mechanism, user, password)
        return made

    return make


@pytest.mark.parametrize("mechanism", LOGINS)
def test_a_record_goes_there_and_back(client: NewClient, topic: str, mechanism: str) -> None:
    assert client(mechanism, *LOGINS[mechanism]).send_and_read(topic)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["right", "unknown"])
def test_a_wrong_password_and_an_unknown_user_are_refused(
    client: NewClient, node: SecuredOttla, topic: str, mechanism: str, user: str
) -> None:
    before = node.count("failed_authentication_total")
    name = LOGINS[mechanism][0] if user == "right" else "mallory"
    with pytest.raises(Refused):
        client(mechanism, name, "wrong").send_and_read(topic)
    assert node.count("failed_authentication_total") > before


def test_a_user_of_another_mechanism_is_refused(client: NewClient, topic: str) -> None:
    with pytest.raises(Refused):
        client("SCRAM-SHA-512", "alice", "alice-secret").send_and_read(topic)


@pytest.mark.parametrize("mechanism", LOGINS)
def test_a_login_inside_tls(node: SecuredOttla, topic: str, mechanism: str) -> None:
    user, password = LOGINS[mechanism]
    with blocking.Producer(node.client("SASL_SSL", user, password, mechanism)) as producer:
        producer.send(topic, b"x" * 300_000).result()
    with (
        pytest.raises(AuthenticationError, match=f"refused user '{user}'"),
        blocking.Admin(node.client("SASL_SSL", user, "wrong", mechanism)) as admin,
    ):
        admin.list_topics()


@pytest.mark.parametrize("is_right", [True, False])
def test_librdkafka_logs_in_inside_tls(node: SecuredOttla, topic: str, is_right: bool) -> None:
    errors: list[Any] = []
    client = Librdkafka(node.address("SASL_SSL"), "SCRAM-SHA-512", "bob", BOB if is_right else "wrong")
    tls = {"security.protocol": "sasl_ssl", "ssl.ca.location": str(FILES / "ca.pem"), "error_cb": errors.append}
    producer = confluent_kafka.Producer({**client.settings, **tls})
    producer.produce(topic, b"x")
    end = time.monotonic() + 30
    while producer.flush(0.2) and not errors and time.monotonic() < end:
        pass
    producer.purge()
    assert bool(errors) is not is_right
    assert is_right or "due to invalid credentials with SASL mechanism SCRAM-SHA-512" in errors[0].str()


class JavaTools:
    def __init__(self, toolbox: Toolbox, node: SecuredOttla, folder: Path) -> None:
        self._toolbox = toolbox
        self._node = node
        self._file = folder / "client.properties"

    def run(self, listener: str, user: str, password: str, mechanism: str, *arguments: str, stdin: str = "") -> Any:
        tool, *rest = arguments
        settings = self._node.client("SASL_PLAINTEXT", user, password, mechanism)
        # Backslashes are escapes in a properties file.
        lines = [f"{name}={str(value).replace(chr(92), chr(92) * 2)}" for name, value in settings.items()]
        self._file.write_text("\n".join([*lines, "default.api.timeout.ms=20000", "request.timeout.ms=15000"]))
        to = ("--bootstrap-server", self._node.address(listener), "--command-config", str(self._file))
        return self._toolbox.run(tool, *to, *rest, stdin=stdin)


@pytest.fixture
def java(tools: Toolbox, node: SecuredOttla, tmp_path: Path) -> JavaTools:
    return JavaTools(tools, node, tmp_path)


@pytest.mark.parametrize("mechanism", LOGINS)
def test_javas_clients_log_in(java: JavaTools, topic: str, mechanism: str) -> None:
    made = java.run("SASL_PLAINTEXT", *LOGINS[mechanism], mechanism, "topics", "--create", "--topic", topic)
    assert made.code == 0, made


def test_javas_clients_learn_what_was_wrong(java: JavaTools) -> None:
    wrong = java.run("SASL_PLAINTEXT", "alice", "wrong", "PLAIN", "topics", "--list")
    assert wrong.code == 1
    assert "Authentication failed: Invalid username or password" in wrong.out + wrong.err
    unknown = java.run("SASL_PLAINTEXT", "mallory", "wrong", "SCRAM-SHA-512", "topics", "--list")
    assert "due to invalid credentials with SASL mechanism SCRAM-SHA-512" in unknown.out + unknown.err
    other = java.run("SESSIONS", "alice", "alice-secret", "PLAIN", "topics", "--list")
    assert "enabled mechanisms are [SCRAM-SHA-256]" in other.out + other.err


def test_javas_tool_gives_a_user_a_password(java: JavaTools, node: SecuredOttla) -> None:
    made = java.run(
        "SASL_PLAINTEXT",
        "alice",
        "alice-secret",
        "PLAIN",
        "configs",
        *("--alter", "--entity-type", "users", "--entity-name", "carol"),
        *("--add-config", "SCRAM-SHA-256=[password=carol-secret]"),
    )
    assert made.code == 0, made
    listed = java.run("SASL_PLAINTEXT", "carol", "carol-secret", "SCRAM-SHA-256", "topics", "--list")
    assert listed.code == 0, listed


def test_a_changed_password_counts_for_new_connections_and_open_ones_go_on(node: SecuredOttla, topic: str) -> None:
    node.add_user("dave", "dave-first")
    settings = node.client(user="dave", password="dave-first", mechanism="SCRAM-SHA-512")
    with blocking.Producer(settings) as producer:
        producer.send(topic, b"1").result()
        node.add_user("dave", "dave-second")
        producer.send(topic, b"2").result()
        with pytest.raises(AuthenticationError), blocking.Admin(settings) as admin:
            admin.list_topics()
        with blocking.Admin(node.client(user="dave", password="dave-second", mechanism="SCRAM-SHA-512")) as admin:
            assert topic in admin.list_topics()


@pytest.mark.parametrize("made", [Librdkafka, Own], ids=["librdkafka", "own"])
def test_clients_authenticate_again_before_their_session_is_over(
    node: SecuredOttla, topic: str, made: type[Librdkafka | Own]
) -> None:
    before = node.count("successful_reauthentication_total", "SESSIONS")
    settings = made(node.address("SESSIONS"), "SCRAM-SHA-256", "bob", BOB).settings
    errors: list[Any] = []
    end = time.monotonic() + 60

    def is_done() -> bool:
        assert time.monotonic() < end, "the client did not authenticate again twice"
        return node.count("successful_reauthentication_total", "SESSIONS") >= before + 2

    if made is Librdkafka:
        producer = confluent_kafka.Producer({**settings, "error_cb": errors.append})
        while not is_done():
            producer.produce(topic, b"x")
            assert producer.flush(30) == 0
    else:
        with blocking.Producer(settings) as own:
            while not is_done():
                own.send(topic, b"x").result()
    assert not errors
    assert node.count("failed_reauthentication_total", "SESSIONS") == 0


def test_connections_that_never_log_in_hold_up_no_other(node: SecuredOttla, topic: str) -> None:
    """Slow loris: each sends a byte of a large frame now and then."""
    idle = [socket.create_connection(("127.0.0.1", node.ports["SASL_PLAINTEXT"]), 30) for _ in range(200)]
    try:
        for connection in idle:
            connection.sendall(struct.pack(">i", 500_000) + b"\0\x11\0\x01")
        memory = node.rss_bytes()
        for _ in range(5):
            for connection in idle:
                connection.sendall(b"x" * 10)
        started = time.monotonic()
        with blocking.Producer(node.client()) as producer:
            producer.send(topic, b"x").result()
        assert time.monotonic() - started < 5
        assert node.rss_bytes() - memory < 32 * 1024 * 1024
    finally:
        for connection in idle:
            connection.close()
