"""A single Ottla node with secured listeners, for tests: protocols, users and settings are the test's.

    node = SecuredOttla(folder / "data", users={"bob": "bob-secret"})
    node.start()
    producer = Producer(node.client("SASL_PLAINTEXT", "bob", "bob-secret"))

The node also has a PLAINTEXT listener, its own: there SCRAM users are made, without a login.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.client.admin.security import ScramMechanism
from ottla.client.blocking import Admin
from tests.interop.secured_kafka import FILES, TRUST, jaas
from tests.interop.servers import Kafka, Ottla, free_port

MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
MODULES = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}


class SecuredOttla(Ottla):
    """`protocols` are the listeners beside PLAINTEXT, each named after its protocol; `users` log in by SCRAM,
    `plain_users` by PLAIN; `properties` are settings over those that follow from them."""

    name = "secured Ottla"

    def __init__(
        self,
        data: Path,
        *,
        protocols: Sequence[str] = ("SASL_PLAINTEXT",),
        users: Mapping[str, str] | None = None,
        plain_users: Mapping[str, str] | None = None,
        mechanisms: str = MECHANISMS,
        properties: Mapping[str, str] | None = None,
        port: int | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.metrics_port = free_port()
        super().__init__(data, (), port, ["--metrics-port", str(self.metrics_port), *arguments])
        self.ports = {name: free_port() for name in protocols}
        self.users = dict(users or {})
        own = f"PLAINTEXT://127.0.0.1:{self.port}"
        secured = "".join(f",{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        known = {f"user_{name}": password for name, password in (plain_users or {"alice": "alice-secret"}).items()}
        settings = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"{own}{secured},CONTROLLER://127.0.0.1:0",
            "advertised.listeners": f"{own}{secured}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": mechanisms,
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
        }
        for name in self.ports:
            if "PLAIN" in mechanisms.split(",") and name.startswith("SASL_"):
                settings[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = jaas(
                    "plain.PlainLoginModule", **known
                )
        if any(name.endswith("SSL") for name in self.ports):
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(FILES / "broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(FILES / "ca.pem"),
            }
        self.settings = {**settings, **(properties or {})}
        self.overrides = [f"{name}={value}" for name, value in self.settings.items()]

    def start(self, timeout_seconds: float = 120) -> None:
        super().start(timeout_seconds)
        for user, password in self.users.items():
            self.add_user(user, password)

    def add_user(self, user: str, password: str, mechanisms: Sequence[ScramMechanism] = tuple(ScramMechanism)) -> None:
        """Give a user a password for SCRAM, or change it."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            for mechanism in mechanisms:
                admin.set_scram_password(user, password, mechanism=mechanism)

    def address(self, protocol: str = "SASL_PLAINTEXT") -> str:
        return f"127.0.0.1:{self.port if protocol == 'PLAINTEXT' else self.ports[protocol]}"

    def client(
        self,
        protocol: str = "SASL_PLAINTEXT",
        user: str = "alice",
        password: str = "alice-secret",
        mechanism: str = "PLAIN",
    ) -> dict[str, Any]:
        """Settings of a client of Kafka's (Java's, and our own)."""
        settings: dict[str, Any] = {"bootstrap.servers": self.address(protocol), "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings |= TRUST
        if protocol.startswith("SASL_"):
            module = MODULES.get(mechanism, "scram.ScramLoginModule")
            settings |= {
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": jaas(module, username=user, password=password),
            }
        return settings

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    def count(self, name: str, listener: str = "SASL_PLAINTEXT") -> int:
        """One of Kafka's socket-server-metrics of a listener."""
        start = f'kafka_server_socket_server_metrics_{name}{{listener="{listener}"}} '
        found = [line for line in self.metrics().splitlines() if line.startswith(start)]
        return int(float(found[0].removeprefix(start))) if found else 0


class KafkaTwin(Kafka):
    """An Apache Kafka with the settings, ports and users of a node of ours, which does not run."""

    def __init__(self, node: SecuredOttla) -> None:
        super().__init__(node.data, (), node.port)
        self.node = node
        settings = {name: value for name, value in node.settings.items() if name not in ("node.id", "process.roles")}
        settings["listeners"] = settings["listeners"].replace(
            "CONTROLLER://127.0.0.1:0", f"CONTROLLER://127.0.0.1:{node.port + 1}"
        )
        for listener in node.ports:
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                name = f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config"
                settings[name] = jaas("scram.ScramLoginModule")
        self.overrides = [f"{name}={value}" for name, value in settings.items()]

    def start(self, timeout_seconds: float = 180) -> None:
        super().start(timeout_seconds)
        for user, password in self.node.users.items():
            self.node.add_user(user, password)


@contextmanager
def running_ottla(data: Path, **options: Any) -> Iterator[SecuredOttla]:
    server = SecuredOttla(data, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
