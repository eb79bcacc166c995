"""An Apache Kafka 4.3.1 whose listeners are secured: TLS with client certificates, SASL inside TLS, SASL in the open.

The certificates are those of tests/vectors/tls. Users that log in by SCRAM are made over the listener in the open, the
broker's own. Sessions of SASL_PLAINTEXT end after two seconds (KIP-368).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.client.admin.security import ScramMechanism
from ottla.client.blocking import Admin
from tests.interop.servers import REPOSITORY, Kafka, free_port

FILES = REPOSITORY / "tests" / "vectors" / "tls"
STORE_PASSWORD = "store-secret"
SESSION_MS = 2_000
_MODULES = "org.apache.kafka.common.security"
TRUST = {"ssl.truststore.location": str(FILES / "trust.jks"), "ssl.truststore.password": STORE_PASSWORD}
CLIENT = {"ssl.keystore.location": str(FILES / "client.jks"), "ssl.keystore.password": STORE_PASSWORD}


def jaas(module: str, **options: str) -> str:
    quoted = {name: value.replace('"', '\\"') for name, value in options.items()}
    given = "".join(f' {name}="{value}"' for name, value in quoted.items())
    return f"{_MODULES}.{module} required{given};"


class SecuredKafka(Kafka):
    """The server, and the settings of clients that it lets in."""

    def __init__(self, data: Path) -> None:
        self.ports = {name: free_port() for name in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")}
        super().__init__(data, ())
        secured = "".join(f",{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        own = f"PLAINTEXT://127.0.0.1:{self.port}"
        scram = jaas("scram.ScramLoginModule")
        bearer = jaas("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="broker")
        self.overrides = [
            f"listeners={own},CONTROLLER://127.0.0.1:{self.port + 1}{secured}",
            f"advertised.listeners={own}{secured}",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={FILES / 'broker.pem'}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={FILES / 'ca.pem'}",
            "listener.name.ssl.ssl.client.auth=required",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms=SCRAM-SHA-256",
            f"listener.name.sasl_plaintext.connections.max.reauth.ms={SESSION_MS}",
            "listener.name.sasl_ssl.plain.sasl.jaas.config="
            + jaas("plain.PlainLoginModule", user_alice="alice-secret"),
            f"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram}",
            f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}",
            f"listener.name.sasl_ssl.oauthbearer.sasl.jaas.config={bearer}",
            f"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={scram}",
            "offsets.topic.num.partitions=2",
            "transaction.state.log.num.partitions=2",
        ]

    def add_user(self, user: str, password: str) -> None:
        """Create a user for SCRAM, or change the password of an existing one."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                admin.set_scram_password(user, password, mechanism=mechanism)

    def settings(self, protocol: str, more: dict[str, Any]) -> dict[str, Any]:
        port = self.port if protocol == "PLAINTEXT" else self.ports[protocol]
        trust = TRUST if protocol.endswith("SSL") else {}
        return {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": protocol, **trust, **more}

    def plain(self, password: str = "alice-secret") -> dict[str, Any]:
        config = jaas("plain.PlainLoginModule", username="alice", password=password)
        return self.settings("SASL_SSL", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": config})

    def scram(
        self, user: str, password: str, mechanism: str = "SCRAM-SHA-512", protocol: str = "SASL_SSL"
    ) -> dict[str, Any]:
        config = jaas("scram.ScramLoginModule", username=user, password=password)
        return self.settings(protocol, {"sasl.mechanism": mechanism, "sasl.jaas.config": config})

    def sessions(self, user: str, password: str) -> dict[str, Any]:
        """A client whose sessions end after SESSION_MS."""
        return self.scram(user, password, "SCRAM-SHA-256", "SASL_PLAINTEXT")

    def certificate(self) -> dict[str, Any]:
        return self.settings("SSL", CLIENT)

    def bearer(self, subject: str) -> dict[str, Any]:
        config = jaas("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub=subject)
        return self.settings("SASL_SSL", {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": config})


def running_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """A server for the tests of a module."""
    server = SecuredKafka(folder / "data")
    server.start()
    try:
        yield server
    finally:
        server.stop()
