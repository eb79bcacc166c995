"""Logins by Kerberos, with a KDC of MIT Kerberos on this machine: our client, Java's, and nodes among themselves.

Needs krb5-kdc, krb5-admin-server, krb5-user and the packages gssapi and k5test; skipped without them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.errors import AuthenticationError
from tests.interop.secured_ottla import SecuredOttla
from tests.interop.servers import kafka_anchor
from tests.interop.test_node_logins import LoginCluster, check

pytest.importorskip("gssapi", reason="GSSAPI: the package gssapi is not installed (pip install 'ottla[gssapi]')")
k5test = pytest.importorskip("k5test", reason="GSSAPI: the package k5test is not installed")
if shutil.which("krb5kdc") is None and not Path("/usr/sbin/krb5kdc").exists():
    pytest.skip("GSSAPI: no KDC (krb5kdc) on this machine", allow_module_level=True)

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
HOST = "localhost"
ALICE_PASSWORD = "alice-hush"


class Realm:
    """A KDC with the service kafka/localhost and the user alice."""

    def __init__(self, folder: Path) -> None:
        self.made = k5test.K5Realm(
            start_kadmind=False,
            create_host=False,
            get_creds=False,
            krb5_conf={"libdefaults": {"dns_canonicalize_hostname": "false", "rdns": "false"}},
        )
        self.keytab, self.alice_keytab = folder / "kafka.keytab", folder / "alice.keytab"
        self.service = f"kafka/{HOST}@{self.made.realm}"
        self.made.addprinc(self.service)
        self.made.extract_keytab(self.service, str(self.keytab))
        self.node = f"kafka/127.0.0.1@{self.made.realm}"
        self.made.addprinc(self.node)
        self.made.extract_keytab(self.node, str(self.keytab))
        self.alice = f"alice@{self.made.realm}"
        self.made.addprinc(self.alice, ALICE_PASSWORD)
        self.stranger = f"stranger/admin@{self.made.realm}"
        self.made.addprinc(self.stranger)
        for one in (self.alice, self.stranger):
            self.made.extract_keytab(one, str(self.alice_keytab))

    @property
    def settings(self) -> dict[str, str]:
        return {name: value for name, value in self.made.env.items() if name.startswith("KRB5")}

    def jaas(self, keytab: Path, principal: str) -> str:
        return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    made = Realm(tmp_path_factory.mktemp("realm"))
    before = dict(os.environ)
    os.environ.update(made.settings)  # for nodes that are started, and for the client in this process
    yield made
    os.environ.clear()
    os.environ.update(before)
    made.made.stop()


@pytest.fixture(scope="module")
def node(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    server = SecuredOttla(
        tmp_path_factory.mktemp("gssapi") / "data",
        mechanisms="GSSAPI",
        properties={
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](.*)s/@.*//,RULE:[2:$1](kafka)",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": realm.jaas(realm.keytab, realm.service),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice;User:kafka;User:ANONYMOUS",
            "log.level": "debug",
        },
    )
    address = server.ports["SASL_PLAINTEXT"]
    server.overrides = [
        one.replace(f"SASL_PLAINTEXT://127.0.0.1:{address}", f"SASL_PLAINTEXT://{HOST}:{address}")
        if one.startswith("advertised.listeners=")
        else one
        for one in server.overrides
    ]
    server.start()
    yield server
    server.stop()
    assert "a bug" not in server.output()
    assert ALICE_PASSWORD not in server.log.read_text()


def client(node: SecuredOttla, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"{HOST}:{node.ports['SASL_PLAINTEXT']}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        **more,
    }


def test_our_client_logs_in_with_a_keytab(node: SecuredOttla, realm: Realm) -> None:
    settings = client(node, **{"sasl.jaas.config": realm.jaas(realm.alice_keytab, realm.alice)})
    before = node.count("successful_authentication_total")
    with Producer(settings) as producer:
        producer.send("orders", b"by ticket").result()
    with Consumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([("orders", 0)])
        assert [record.value for record in consumer.poll(30_000)] == [b"by ticket"]
    assert node.count("successful_authentication_total") > before
    assert '"uid":"User:alice"' in node.log.read_text()


def test_our_client_logs_in_with_the_ticket_of_kinit(node: SecuredOttla, realm: Realm) -> None:
    realm.made.kinit(realm.alice, ALICE_PASSWORD)
    with Admin(client(node)) as admin:
        admin.list_topics()


def test_a_principal_that_no_rule_knows_is_refused_and_counted(node: SecuredOttla, realm: Realm) -> None:
    before = node.count("failed_authentication_total")
    settings = client(node, **{"sasl.jaas.config": realm.jaas(realm.alice_keytab, realm.stranger)})
    with pytest.raises(AuthenticationError, match="Kerberos ticket"), Admin(settings) as admin:
        admin.list_topics()
    assert node.count("failed_authentication_total") == before + 1
    assert "no rule of sasl.kerberos.principal.to.local.rules" in node.log.read_text()


def test_a_client_without_a_key_learns_what_is_missing(node: SecuredOttla, realm: Realm, tmp_path: Path) -> None:
    settings = client(node, **{"sasl.jaas.config": realm.jaas(tmp_path / "none.keytab", realm.alice)})
    with pytest.raises(AuthenticationError, match=r"no login to kafka@localhost: .*keytab"), Admin(settings) as admin:
        admin.list_topics()


def test_bytes_that_are_no_token_are_refused_and_hurt_no_one_else(node: SecuredOttla, realm: Realm) -> None:
    from ottla.wire.frames import encode_request
    from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
    from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

    for token in (b"", b"\0" * 40, os.urandom(5_000)):
        with socket.create_connection((HOST, node.ports["SASL_PLAINTEXT"]), 60) as connection:
            for key, version, request in (
                (17, 1, SaslHandshakeRequest(mechanism="GSSAPI")),
                (36, 2, SaslAuthenticateRequest(auth_bytes=token)),
            ):
                frame = b"".join(map(bytes, encode_request(key, version, 1, "x", request)))
                connection.sendall(frame)
            while connection.recv(4096):
                pass
    test_our_client_logs_in_with_the_ticket_of_kinit(node, realm)


@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="long: OTTLA_INTEROP_ALL=1 runs it")
@pytest.mark.skipif(kafka_anchor() is None, reason="Kafka's command line tools: no anchor script or no java")
def test_javas_client_logs_in(node: SecuredOttla, realm: Realm, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    jaas = realm.jaas(realm.alice_keytab, realm.alice)
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={jaas}\n"
    )
    java = f"-Djava.security.krb5.conf={realm.settings['KRB5_CONFIG']}"
    address = f"{HOST}:{node.ports['SASL_PLAINTEXT']}"
    done = subprocess.run(
        [str(kafka_anchor()), "topics", "--bootstrap-server", address, "--command-config", str(config), "--list"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "JAVA_TOOL_OPTIONS": java},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="three nodes: OTTLA_INTEROP_ALL=1 runs it")
def test_nodes_log_in_to_each_other(realm: Realm, tmp_path: Path) -> None:
    module = realm.jaas(realm.keytab, realm.node)
    cluster = LoginCluster(
        tmp_path,
        "SASL_PLAINTEXT",
        [
            "sasl.enabled.mechanisms=GSSAPI",
            "sasl.mechanism.inter.broker.protocol=GSSAPI",
            "sasl.mechanism.controller.protocol=GSSAPI",
            "sasl.kerberos.service.name=kafka",
            f"listener.name.secure.gssapi.sasl.jaas.config={module}",
            f"listener.name.controller.gssapi.sasl.jaas.config={module}",
        ],
    )
    cluster.client = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": realm.jaas(realm.alice_keytab, realm.alice),
    }
    try:
        cluster.start()
        check(cluster, [ALICE_PASSWORD])
    finally:
        cluster.close()
