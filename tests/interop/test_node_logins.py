"""Three nodes that log in to each other by SCRAM, or with OAUTHBEARER tokens of a server that they trust by their own
settings. With SCRAM controllers log in by PLAIN, as in Kafka: SCRAM users are in the log that they have yet to read."""

from __future__ import annotations

import http.server
import json
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.client.blocking import Admin, Consumer, Producer
from tests.cli.kafka.scenes import our_tools
from tests.interop.secured_kafka import FILES, jaas
from tests.interop.tls_nodes import NODE_PASSWORD, NODE_USER, SecuredCluster
from tests.serving import served
from tests.signed_tokens import SigningKey, key_set

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="three nodes each: OTTLA_INTEROP_ALL=1 runs it"
)
COUNT = 200
CLIENT_SECRET = "client-secret-of-the-nodes"
KEY = SigningKey("one", "ES256")


class LoginCluster(SecuredCluster):
    """Ready when each node listens; its clients log in."""

    client: dict[str, Any]

    def start(self) -> None:
        for node in self.nodes:
            node.launch()
        with Admin(self.client | {"default.api.timeout.ms": 120_000}) as admin:
            ends_at = time.monotonic() + 120
            while len(admin.describe_cluster().brokers) < 3:
                assert time.monotonic() < ends_at, self.said()
                time.sleep(0.1)

    def said(self) -> str:
        return "\n".join(node.log.read_text() for node in self.nodes if node.log.exists())


def check(cluster: LoginCluster, secrets: list[str]) -> None:
    """Records are on two of three nodes after the first one is gone: followers and coordinators reach the others."""
    with Admin(cluster.client) as admin:
        admin.create_topic("orders", partition_count=3, replication_factor=3, config={"min.insync.replicas": "2"})
    produce(cluster, range(COUNT))
    cluster.nodes[0].kill()
    produce(cluster, range(COUNT, 2 * COUNT))
    found: list[int] = []
    with Consumer(cluster.client | {"group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["orders"])
        ends_at = time.monotonic() + 120
        while len(found) < 2 * COUNT and time.monotonic() < ends_at:
            found += [int(record.value or b"") for record in consumer.poll(500)]
    assert sorted(found) == list(range(2 * COUNT))
    said = cluster.said()
    assert "Traceback" not in said
    for secret in secrets:
        assert secret not in said


def produce(cluster: LoginCluster, numbers: range) -> None:
    with Producer(cluster.client | {"acks": "all", "delivery.timeout.ms": 120_000}) as producer:
        for sent in [producer.send("orders", b"%d" % number) for number in numbers]:
            sent.result()


def test_nodes_log_in_to_brokers_by_scram(tmp_path: Path) -> None:
    node = {"username": NODE_USER, "password": NODE_PASSWORD}
    plain = jaas("plain.PlainLoginModule", **node, **{f"user_{NODE_USER}": NODE_PASSWORD})
    cluster = LoginCluster(
        tmp_path,
        "SASL_PLAINTEXT",
        [
            "listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512",
            "listener.name.controller.sasl.enabled.mechanisms=PLAIN",
            "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol=PLAIN",
            f"listener.name.secure.scram-sha-512.sasl.jaas.config={jaas('scram.ScramLoginModule', **node)}",
            f"listener.name.controller.plain.sasl.jaas.config={plain}",
        ],
    )
    cluster.client = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }
    for id, one in enumerate(cluster.nodes, 1):
        properties = tmp_path / f"{id}.properties"
        properties.write_text("\n".join([*one.overrides, f"log.dirs={one.data}"]))
        users = [
            argument
            for name, password in ((NODE_USER, NODE_PASSWORD), ("alice", "alice-secret"))
            for argument in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")
        ]
        made = our_tools("storage", ["format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(properties), *users])
        assert made[0] == 0, made
    try:
        cluster.start()
        check(cluster, [NODE_PASSWORD, "alice-secret"])
    finally:
        cluster.close()


def token(**more: Any) -> str:
    now = int(time.time())
    return KEY.token({"sub": NODE_USER, "iss": "https://issuer", "aud": "kafka", "iat": now, "exp": now + 600, **more})


class TokenServer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(key_set(KEY.entry()))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(json.dumps({"access_token": token(), "expires_in": 600}).encode())

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *given: Any) -> None:
        pass


@contextmanager
def token_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "broker.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with served(server):
        yield f"https://localhost:{server.server_address[1]}"


@pytest.mark.parametrize("source", ["server", "file"])
def test_nodes_log_in_with_tokens(tmp_path: Path, source: str) -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearer{}CallbackHandler"
    with token_server() as server:
        options = {"ssl.truststore.location": str(FILES / "ca.pem"), "ssl.truststore.type": "PEM"}
        url = f"{server}/token"
        if source == "server":
            options |= {"clientId": "nodes", "clientSecret": CLIENT_SECRET}
        else:
            (tmp_path / "token").write_text(token())
            url = f"file://{tmp_path}/token"
        module = jaas("oauthbearer.OAuthBearerLoginModule", **options)
        cluster = LoginCluster(
            tmp_path,
            "SASL_PLAINTEXT",
            [
                "sasl.enabled.mechanisms=OAUTHBEARER",
                "sasl.mechanism.inter.broker.protocol=OAUTHBEARER",
                "sasl.mechanism.controller.protocol=OAUTHBEARER",
                f"sasl.oauthbearer.token.endpoint.url={url}",
                f"sasl.oauthbearer.jwks.endpoint.url={server}/keys",
                f"org.apache.kafka.sasl.oauthbearer.allowed.urls={url},{server}/keys",
                "sasl.oauthbearer.expected.issuer=https://issuer",
                "sasl.oauthbearer.expected.audience=kafka",
                *(
                    setting
                    for listener in ("secure", "controller")
                    for setting in (
                        f"listener.name.{listener}.oauthbearer.sasl.jaas.config={module}",
                        f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class="
                        + handler.format("Validator"),
                        f"listener.name.{listener}.oauthbearer.sasl.login.callback.handler.class="
                        + handler.format("Login"),
                    )
                ),
            ],
        )
        alice = token(sub="alice")
        cluster.client = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_provider": lambda: alice,
        }
        try:
            cluster.start()
            check(cluster, [CLIENT_SECRET, alice])
        finally:
            cluster.close()
