"""Key stores that are replaced while a node runs, through Kafka's own request for it."""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from ottla.cli.certificates import Authority
from ottla.client.admin.configs import ConfigChange, ConfigResource
from ottla.client.blocking import Admin
from ottla.client.errors import KafkaError
from ottla.wire.config_resources import ResourceType
from tests.interop.servers import API_VERSIONS_V0, ask
from tests.interop.tls_nodes import PATIENCE_S, SecuredNode, alone

NAMES = ("localhost", "127.0.0.1")
BROKER = ConfigResource(ResourceType.BROKER, "1")
PREFIX = "listener.name.ssl."


class Reloading:
    """A node whose stores are the test's."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.create("test CA")
        self.store, self.trust = folder / "node.pem", folder / "trust.pem"
        self.trust.write_text(self.authority.certificate)
        self.replace()
        self.node: SecuredNode = alone(
            folder / "data", f"ssl.keystore.location={self.store}", f"ssl.truststore.location={self.trust}"
        )
        self.node.ca = self.trust
        self.settings = {
            "bootstrap.servers": self.node.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self.trust),
        }

    def replace(self, name: str = "node", names: tuple[str, ...] = NAMES, authority: Authority | None = None) -> str:
        """Write a new key and certificate; the digest by which connections know it."""
        issued = (authority or self.authority).issue(name, names, is_server=True)
        self.store.write_text(issued.store)
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(issued.certificate)).hexdigest()

    def shown(self) -> str:
        with self.node.connect(30) as connection:
            assert isinstance(connection, ssl.SSLSocket)
            assert len(ask(connection, API_VERSIONS_V0)) > 100
            return hashlib.sha256(connection.getpeercert(True) or b"").hexdigest()

    def alter(self, settings: dict[str, str]) -> None:
        with Admin(self.settings) as admin:
            admin.alter_configs({BROKER: [ConfigChange(*one) for one in settings.items()]})

    def until_shown(self, digest: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.shown() != digest:
            assert time.monotonic() < end, self.node.output()
            time.sleep(0.05)


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    world = Reloading(tmp_path)
    world.node.start(PATIENCE_S)
    yield world
    world.node.stop()


def test_a_renewed_store_is_used_by_new_connections_once_its_path_is_set_again(reloading: Reloading) -> None:
    before = reloading.shown()
    after = reloading.replace()
    assert reloading.shown() == before != after
    with reloading.node.connect(30) as old:
        reloading.alter({PREFIX + "ssl.keystore.location": str(reloading.store)})
        reloading.until_shown(after)
        assert len(ask(old, API_VERSIONS_V0)) > 100, "a connection that stands goes on"
    again = reloading.replace()
    reloading.alter({PREFIX + "ssl.keystore.location": str(reloading.store)})
    reloading.until_shown(again)


def test_a_store_of_another_owner_or_with_fewer_names_or_of_another_ca_is_refused(reloading: Reloading) -> None:
    before = reloading.shown()
    location = {PREFIX + "ssl.keystore.location": str(reloading.store)}
    for change, reason in (
        ({"name": "other"}, "ssl.allow.dn.changes"),
        ({"names": ("127.0.0.1",)}, "ssl.allow.san.changes"),
        ({"authority": Authority.create("another CA")}, "a handshake of the key store with itself failed"),
    ):
        reloading.replace(**change)
        with pytest.raises(KafkaError, match=reason):
            reloading.alter(location)
        assert reloading.shown() == before
    reloading.store.write_text("nothing")
    with pytest.raises(KafkaError, match=r"ssl\.keystore\.location"):
        reloading.alter(location)
    assert reloading.shown() == before
    more = reloading.replace(names=(*NAMES, "broker.test"))
    reloading.alter(location)
    reloading.until_shown(more)


def test_a_change_of_owner_is_taken_if_it_is_allowed(tmp_path: Path) -> None:
    world = Reloading(tmp_path)
    world.node.overrides += ["ssl.allow.dn.changes=true", "ssl.allow.san.changes=true"]
    world.node.start(PATIENCE_S)
    try:
        after = world.replace("other", ("127.0.0.1", "localhost"))
        world.alter({PREFIX + "ssl.keystore.location": str(world.store)})
        world.until_shown(after)
    finally:
        world.node.stop()


def test_a_password_that_is_set_at_run_time_opens_the_store_and_is_shown_nowhere(reloading: Reloading) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    issued = reloading.authority.issue("node", NAMES, is_server=True)
    key = load_pem_private_key(issued.key.encode(), None)
    hidden = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"key-secret")).decode()
    reloading.store.write_text(hidden + issued.chain)
    location = {PREFIX + "ssl.keystore.location": str(reloading.store)}
    with pytest.raises(KafkaError, match="private key"):
        reloading.alter({**location, PREFIX + "ssl.key.password": "wrong-secret"})
    reloading.alter({**location, PREFIX + "ssl.key.password": "key-secret"})
    reloading.until_shown(hashlib.sha256(ssl.PEM_cert_to_DER_cert(issued.certificate)).hexdigest())
    with Admin(reloading.settings) as admin:
        described = admin.describe_configs([BROKER])
    assert "key-secret" not in repr(described)
    reloading.node.stop()
    reloading.node.start(PATIENCE_S)
    assert reloading.shown() == hashlib.sha256(ssl.PEM_cert_to_DER_cert(issued.certificate)).hexdigest()
    said = reloading.node.log.read_text()
    assert "key-secret" not in said and "wrong-secret" not in said
