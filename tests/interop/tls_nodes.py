"""Ottla nodes whose listeners are secured, for clients and tools that come from outside, and certificates for them."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.interop.secured_kafka import FILES, jaas
from tests.interop.servers import Ottla, free_port

TRUST = ("ssl.truststore.type=PEM", f"ssl.truststore.location={FILES / 'ca.pem'}")
BROKER = ("ssl.keystore.type=PEM", f"ssl.keystore.location={FILES / 'broker.pem'}")
PATIENCE_S = 60.0
NODE_USER, NODE_PASSWORD = "node", "node-secret"


def client_tls(certificate: str | None = None, ca: Path = FILES / "ca.pem") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    if certificate is not None:
        context.load_cert_chain(FILES / f"{certificate}.pem")
    return context


def librdkafka(bootstrap: str, certificate: str | None = None, **more: Any) -> dict[str, Any]:
    """Settings of librdkafka for a listener with TLS."""
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": str(FILES / "ca.pem"),
        "log_level": 0,
        **more,
    }
    if certificate is not None:
        path = str(FILES / f"{certificate}.pem")
        settings |= {"ssl.certificate.location": path, "ssl.key.location": path}
    return settings


class SecuredNode(Ottla):
    """A node whose settings say where it listens; clients come over TLS."""

    client_certificate: str | None = None
    ca = FILES / "ca.pem"
    has_tls = True
    client_settings: dict[str, Any] | None = None
    """Of librdkafka, for listeners that want a login."""

    def _listening(self) -> list[str]:
        return []

    def connect(self, timeout_seconds: float = 120) -> socket.socket:
        plain = super().connect(timeout_seconds)
        if not self.has_tls:
            return plain
        try:
            return client_tls(self.client_certificate, self.ca).wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise

    def has_broker(self) -> bool:
        if self.client_settings is None:
            return super().has_broker()
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            admin = AdminClient({**self.client_settings, "bootstrap.servers": self.bootstrap})
            return len(admin.list_topics(timeout=5).brokers) > 0
        except KafkaException:
            return False


def alone(data: Path, *overrides: str) -> SecuredNode:
    """A node that stands alone, with one listener, SSL."""
    port = free_port()
    listeners = (f"listeners=SSL://127.0.0.1:{port}", "inter.broker.listener.name=SSL")
    return SecuredNode(
        data, [*listeners, *BROKER, *TRUST, "group.initial.rebalance.delay.ms=0", *overrides], port, ["--verbose"]
    )


class SecuredCluster:
    """Three brokers that are controllers, too; all listeners have this security protocol."""

    def __init__(self, folder: Path, protocol: str, overrides: Sequence[str] = ()) -> None:
        self.protocol = protocol
        self.nodes = [SecuredNode(folder / f"node{id}", arguments=["--verbose"]) for id in (1, 2, 3)]
        voters = ",".join(f"{id}@127.0.0.1:{node.port + 1}" for id, node in enumerate(self.nodes, 1))
        for id, node in enumerate(self.nodes, 1):
            node.client_certificate = "client"
            node.has_tls = protocol.endswith("SSL")
            node.arguments += ["--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ"]
            node.overrides = [
                f"node.id={id}",
                "process.roles=broker,controller",
                f"controller.quorum.voters={voters}",
                f"listeners=SECURE://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.port + 1}",
                "controller.listener.names=CONTROLLER",
                f"listener.security.protocol.map=SECURE:{protocol},CONTROLLER:{protocol}",
                "inter.broker.listener.name=SECURE",
                "group.initial.rebalance.delay.ms=0",
                "offsets.topic.num.partitions=4",
                *BROKER,
                *TRUST,
                *overrides,
            ]

    def start(self) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.start(PATIENCE_S), self.nodes))

    def close(self) -> None:
        for node in self.nodes:
            node.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)


def plain_settings() -> list[str]:
    """PLAIN on all listeners: the users are in the settings, and nodes log in as one of them."""
    module = jaas(
        "plain.PlainLoginModule",
        username=NODE_USER,
        password=NODE_PASSWORD,
        **{f"user_{NODE_USER}": NODE_PASSWORD, "user_alice": "alice-secret"},
    )
    return [
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.mechanism.controller.protocol=PLAIN",
        f"listener.name.secure.plain.sasl.jaas.config={module}",
        f"listener.name.controller.plain.sasl.jaas.config={module}",
    ]


def ask_partly(port: int, data: bytes) -> bytes:
    """What a listener says to these bytes, before it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(data)
        received = bytearray()
        while True:
            try:
                part = connection.recv(4096)
            except ConnectionError:
                break
            if not part:
                break
            received += part
        return bytes(received)


API_VERSIONS_FRAME = struct.pack(">ihhih", 10, 18, 0, 1, -1)
