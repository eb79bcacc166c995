"""Listeners with TLS, from outside: librdkafka, openssl and clusters whose nodes talk to each other over TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.secured_kafka import CLIENT, FILES, STORE_PASSWORD, TRUST
from tests.interop.servers import API_VERSIONS_V0, ServerFailed, ask
from tests.interop.tls_nodes import (
    API_VERSIONS_FRAME,
    PATIENCE_S,
    SecuredCluster,
    SecuredNode,
    alone,
    ask_partly,
    client_tls,
    librdkafka,
    plain_settings,
)
from tests.interop.toolbox import Toolbox

confluent_kafka = pytest.importorskip("confluent_kafka")
confluent_admin = pytest.importorskip("confluent_kafka.admin")
COUNT = 200


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    server = alone(tmp_path_factory.mktemp("tls") / "data", "ssl.client.auth=requested")
    server.start(PATIENCE_S)
    yield server
    server.stop()


def produce(settings: dict[str, Any], topic: str, values: list[bytes]) -> None:
    producer = confluent_kafka.Producer({**settings, "acks": "all", "message.timeout.ms": 60_000})
    failed: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0 and not failed, failed


def consume(settings: dict[str, Any], topic: str, count: int, group: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    end = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


def values(count: int = COUNT, size: int = 2000) -> list[bytes]:
    return [b"%08d" % number + bytes(size) for number in range(count)]


@pytest.mark.parametrize("certificate", [None, "client"])
def test_librdkafka_produces_and_consumes_over_tls(node: SecuredNode, certificate: str | None) -> None:
    topic = f"tls-{certificate}"
    settings = librdkafka(node.bootstrap, certificate)
    produce(settings, topic, values())
    assert sorted(consume(settings, topic, COUNT, topic)) == values()


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
def test_openssl_s_client_finds_both_versions_and_a_verified_certificate(node: SecuredNode, version: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    seen = subprocess.run(
        ["openssl", "s_client", "-connect", node.bootstrap, "-CAfile", FILES / "ca.pem", "-brief", f"-{version}"],
        input=b"",
        capture_output=True,
        timeout=60,
    ).stderr.decode()
    assert f"Protocol version: {version.upper().replace('TLS', 'TLSv').replace('_', '.')}" in seen
    assert "Verification: OK" in seen


def test_tls_1_1_is_refused(node: SecuredNode) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    seen = subprocess.run(
        ["openssl", "s_client", "-connect", node.bootstrap, "-brief", "-tls1_1", "-cipher", "ALL@SECLEVEL=0"],
        input=b"",
        capture_output=True,
        timeout=60,
    )
    assert seen.returncode != 0


def test_a_client_that_does_not_trust_the_ca_or_expects_another_host_is_not_connected(node: SecuredNode) -> None:
    for context, name, reason in (
        (ssl.create_default_context(), "localhost", "certificate verify failed"),
        (client_tls(), "elsewhere.test", "Hostname mismatch"),
    ):
        with (
            socket.create_connection(("127.0.0.1", node.port), 30) as sock,
            pytest.raises(ssl.SSLCertVerificationError, match=reason),
        ):
            context.wrap_socket(sock, server_hostname=name)


def test_a_client_certificate_of_another_ca_is_refused(node: SecuredNode) -> None:
    with (
        socket.create_connection(("127.0.0.1", node.port), 30) as sock,
        pytest.raises(OSError),
        client_tls("client-of-another").wrap_socket(sock, server_hostname="localhost") as secured,
    ):
        ask(secured, API_VERSIONS_V0)


def test_plain_text_on_a_tls_port_is_closed_and_other_clients_go_on(node: SecuredNode) -> None:
    with node.connect(30) as before:
        said = ask_partly(node.port, API_VERSIONS_FRAME)
        assert said == b"" or said[0] == 0x15, "nothing, or an alert"
        assert len(ask(before, API_VERSIONS_V0)) > 100
    assert "this listener speaks TLS, and the client does not" in node.output()


def test_many_handshakes_that_never_end_hold_up_no_one(node: SecuredNode) -> None:
    slow = [socket.create_connection(("127.0.0.1", node.port), 30) for _ in range(200)]
    try:
        for sock in slow:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
        started = time.monotonic()
        with node.connect(30) as connection:
            assert len(ask(connection, API_VERSIONS_V0)) > 100
        assert time.monotonic() - started < 5
        slow[0].settimeout(30)
        assert slow[0].recv(1) == b"", "the handshake was given 10 s"
        assert time.monotonic() - started > 5
    finally:
        for sock in slow:
            sock.close()


def test_an_idle_tls_connection_costs_little(node: SecuredNode) -> None:
    topic = "idle-cost"
    produce(librdkafka(node.bootstrap), topic, values(50, 100_000))
    connections = []
    try:
        for _ in range(20):
            connections.append(node.connect(30))
        for connection in connections:
            ask(connection, API_VERSIONS_V0)
        before = node.rss_bytes()
        for _ in range(300):
            connections.append(node.connect(30))
        for connection in connections:
            ask(connection, API_VERSIONS_V0)
        each = (node.rss_bytes() - before) / 300
        assert each < 100_000, f"{each:.0f} bytes for each"
    finally:
        for connection in connections:
            connection.close()


def test_client_certificates_that_are_required_are_required(tmp_path: Path) -> None:
    server = alone(tmp_path / "data", "ssl.client.auth=required", "ssl.enabled.protocols=TLSv1.2")
    server.client_certificate = "client"
    server.start(PATIENCE_S)
    try:
        with socket.create_connection(("127.0.0.1", server.port), 30) as sock, pytest.raises(OSError):
            client_tls().wrap_socket(sock, server_hostname="localhost")
        with server.connect(30) as connection:
            assert isinstance(connection, ssl.SSLSocket) and connection.version() == "TLSv1.2"
            assert len(ask(connection, API_VERSIONS_V0)) > 100
    finally:
        server.stop()


def test_kafkas_own_tools_produce_and_consume_with_java_stores(
    node: SecuredNode, tools: Toolbox, tmp_path: Path
) -> None:
    """JKS stores and a client certificate, read by Java's own TLS."""
    client = tmp_path / "client.properties"
    settings = {"security.protocol": "SSL", **TRUST, **CLIENT, "ssl.key.password": STORE_PASSWORD}
    client.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    lines = [f"line {number}" for number in range(50)]
    where = ("--bootstrap-server", node.bootstrap, "--command-config", str(client))
    made = tools("topics", *where, "--create", "--topic", "from-java", "--partitions", "1")
    assert made.code == 0, made
    sent = tools("console-producer", *where, "--topic", "from-java", stdin="\n".join(lines))
    assert sent.code == 0, sent
    read = tools("console-consumer", *where, "--topic", "from-java", "--from-beginning", "--max-messages", "50")
    assert read.lines == lines, read


def test_acls_know_a_client_by_its_certificate(tmp_path: Path) -> None:
    server = alone(
        tmp_path / "data",
        "ssl.client.auth=requested",
        "ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/U,DEFAULT",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:CLIENT;User:BROKER",
    )
    server.client_settings = librdkafka(server.bootstrap, "client")
    server.start(PATIENCE_S)
    try:
        produce(librdkafka(server.bootstrap, "client"), "guarded", values(10))
        with pytest.raises(AssertionError, match="AUTHORIZATION"):
            produce(librdkafka(server.bootstrap), "guarded", values(10))
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("ssl.keystore.location=/nowhere.pem", "ssl.keystore.location /nowhere.pem cannot be read"),
        (f"ssl.keystore.location={FILES / 'ca.pem'}", "there is no private key in it"),
        ("ssl.enabled.protocols=TLSv1.1", "ssl.enabled.protocols has TLSv1.1"),
        ("ssl.cipher.suites=TLS_NO_SUCH", "OpenSSL knows none of TLS_NO_SUCH"),
        ("ssl.principal.mapping.rules=RULE:x", "ssl.principal.mapping.rules cannot be read"),
        ("ssl.engine.factory.class=com.example.Own", "Ottla does not run Java classes"),
        (f"ssl.truststore.location={FILES / 'client-of-another.pem'}", "a handshake of the key store with itself"),
    ],
)
def test_a_listener_that_cannot_be_secured_ends_the_start_with_the_reason(
    tmp_path: Path, setting: str, reason: str
) -> None:
    server = alone(tmp_path / "data", setting)
    with pytest.raises(ServerFailed):
        server.start(PATIENCE_S)
    assert reason in server.output()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_three_nodes_with_secured_listeners_elect_replicate_and_fail_over(tmp_path: Path, protocol: str) -> None:
    overrides = ["listener.name.secure.ssl.client.auth=required", "listener.name.controller.ssl.client.auth=required"]
    more: dict[str, Any] = {}
    if protocol != "SSL":
        overrides = plain_settings()
        more = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"}
    cluster = SecuredCluster(tmp_path, protocol, overrides)
    settings = librdkafka(cluster.bootstrap, "client", **{"security.protocol": protocol.lower(), **more})
    for one in cluster.nodes:
        one.client_settings = settings
    try:
        cluster.start()
        admin = confluent_admin.AdminClient(settings)
        topic = confluent_admin.NewTopic("orders", 3, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["orders"].result(PATIENCE_S)
        produce(settings, "orders", values())
        assert sorted(consume(settings, "orders", COUNT, "before")) == values()
        cluster.nodes[0].kill()
        produce(settings, "orders", [b"after " + value for value in values()])
        found = consume(settings, "orders", 2 * COUNT, "after")
        assert sorted(found) == sorted(values() + [b"after " + value for value in values()])
        for survivor in cluster.nodes[1:]:
            said = survivor.log.read_text()
            assert "Traceback" not in said
            assert "node-secret" not in said and "alice-secret" not in said
    finally:
        cluster.close()


def test_nodes_that_do_not_trust_each_other_say_so_once_and_what_to_do(tmp_path: Path) -> None:
    cluster = SecuredCluster(tmp_path, "SSL")
    cluster.nodes[0].overrides += [f"ssl.truststore.location={FILES / 'ca.pem'}"]
    for other in cluster.nodes[1:]:
        other.overrides += [
            f"ssl.keystore.location={FILES / 'client-of-another.pem'}",
            f"ssl.truststore.location={FILES / 'client-of-another.pem'}",
            "ssl.endpoint.identification.algorithm=",
        ]
    try:
        for one in cluster.nodes:
            one.launch()
        first = cluster.nodes[0]
        end = time.monotonic() + PATIENCE_S
        while first.log.read_text().count("its certificate is refused") < 2:
            assert time.monotonic() < end and first.is_running(), first.output()
            time.sleep(0.1)
        time.sleep(3)
        lines = [line for line in first.log.read_text().splitlines() if "ottla.peers: node at" in line]
        assert len(lines) == 2, "one line for each other node"
        assert all(
            "its certificate is refused" in one and "ssl.truststore.* of listener CONTROLLER" in one for one in lines
        )
    finally:
        cluster.close()
