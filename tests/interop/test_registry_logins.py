"""`ottla registry --login` on a secured node: users, ACLs and TLS are the cluster's."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from ottla.client.admin import Acl
from ottla.testing import Broker
from ottla.wire.acls import AclOperation, AclResource

pytestmark = pytest.mark.interop
USERS = {"writer": "writer-secret", "reader": "reader-secret"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(secure=True) as made:
        for user, password in USERS.items():
            made.add_user(user, password)
        with made.admin() as admin:
            admin.create_acls(
                [
                    Acl(AclResource.TOPIC, "orders", "User:writer", AclOperation.WRITE),
                    Acl(AclResource.TOPIC, "orders", "User:reader", AclOperation.READ),
                ]
            )
        yield made


@pytest.fixture(scope="module")
def registry(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The registry's URL, and its log."""
    with started(broker, tmp_path_factory.mktemp("registry")) as found:
        yield found


@contextmanager
def started(broker: Broker, folder: Path) -> Iterator[tuple[str, Path]]:
    assert broker.security is not None
    client, tls = folder / "client.properties", folder / "tls.properties"
    settings = broker.client_settings()
    client.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if name != "bootstrap.servers"))
    own = broker.security.node("node-1")
    tls.write_text(f"ssl.keystore.location={own}\nssl.truststore.location={broker.security.ca}\n")
    command = [sys.executable, "-m", "ottla", "registry", "--port", "0", "-b", broker.bootstrap_servers]
    options = ["--command-config", str(client), "--login", "--ssl-config", str(tls), "--advertised-host", "localhost"]
    log = folder / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen([*command, *options], stderr=stderr)
    try:
        url = None
        while url is None and process.poll() is None:
            url = re.search(r"https://\S+", log.read_text())
        assert url is not None, log.read_text()
        yield url.group(), log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def client(registry: tuple[str, Path], broker: Broker, user: str, password: str) -> SchemaRegistryClient:
    assert broker.security is not None
    return SchemaRegistryClient(
        {"url": registry[0], "basic.auth.user.info": f"{user}:{password}", "ssl.ca.location": str(broker.security.ca)}
    )


def refusal(call: object) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as caught:
        call()  # type: ignore[operator]
    return caught.value.http_status_code, caught.value.error_code


def test_users_of_the_cluster_read_and_write_as_acls_say(broker: Broker, registry: tuple[str, Path]) -> None:
    with ExitStack() as stack:  # a client that is left open is the error of a later test
        passwords = {**USERS, "admin": broker.security.password() if broker.security else ""}
        users = ("writer", "reader", "admin")
        clients = [stack.enter_context(client(registry, broker, user, passwords[user])) for user in users]
        reads_and_writes_as_acls_say(*clients)


def reads_and_writes_as_acls_say(
    writer: SchemaRegistryClient, reader: SchemaRegistryClient, admin: SchemaRegistryClient
) -> None:
    schema = Schema('"string"', "AVRO")
    schema_id = writer.register_schema("orders-value", schema)
    assert reader.get_schema(schema_id).schema_str == '"string"'
    assert refusal(lambda: reader.register_schema("orders-value", Schema('"int"', "AVRO"))) == (403, 40301)
    assert refusal(lambda: writer.register_schema("other-value", schema)) == (403, 40301)
    assert refusal(lambda: writer.delete_subject("orders-value")) == (403, 40301)
    assert refusal(lambda: writer.set_compatibility(level="NONE")) == (403, 40301)
    admin.register_schema("secret-value", Schema('"long"', "AVRO"))
    subjects = reader.get_subjects()
    assert "orders-value" in subjects and "secret-value" not in subjects, subjects
    assert {"orders-value", "secret-value"} <= set(admin.get_subjects())


def test_writes_and_denials_are_audit_events(broker: Broker, registry: tuple[str, Path]) -> None:
    with client(registry, broker, "writer", USERS["writer"]) as writer:
        writer.register_schema("orders-value", Schema('"bytes"', "AVRO"))
        assert refusal(lambda: writer.register_schema("audited-value", Schema('"bytes"', "AVRO"))) == (403, 40301)
    lines = [line.partition("ottla.audit: ")[2] for line in registry[1].read_text().splitlines()]
    events = [json.loads(line) for line in lines if line]
    mine = [one for one in events if one.get("actor", {}).get("user", {}).get("uid") == "User:writer"]
    written = [one for one in mine if one["resources"][0]["name"] == "/subjects/orders-value/versions"]
    (denied,) = [one for one in mine if one["resources"][0]["name"] == "/subjects/audited-value/versions"]
    assert written[-1]["status"] == "Success" and denied["status"] == "Failure" and denied["action"] == "Denied"


def test_without_a_login_nothing_is_answered(broker: Broker, registry: tuple[str, Path]) -> None:
    assert broker.security is not None
    for path in ("/", "/subjects", "//subjects", "/%73ubjects", "/subjects/../subjects", "/nothing"):
        script = (
            "import http.client, ssl, sys; u = sys.argv[1].split('//')[1]; "
            "c = http.client.HTTPSConnection(u, context=ssl.create_default_context(cafile=sys.argv[3])); "
            "c.request('GET', sys.argv[2]); r = c.getresponse(); print(r.status, r.headers['WWW-Authenticate'])"
        )
        found = subprocess.run(
            [sys.executable, "-c", script, registry[0], path, str(broker.security.ca)], capture_output=True, text=True
        )
        assert found.stdout.startswith("401 Basic"), (path, found)
    wrong = client(registry, broker, "writer", "wrong-secret")
    assert refusal(wrong.get_subjects)[0] == 401
    wrong.close()
    said = registry[1].read_text()
    assert "a login as 'writer'" in said
    events = [json.loads(line.partition("ottla.audit: ")[2]) for line in said.splitlines() if "ottla.audit: " in line]
    assert any(one["class_uid"] == 3002 and one["user"]["uid"] == "User:writer" for one in events), said
    assert not any(secret in said for secret in ("wrong-secret", *USERS.values()))


def test_another_instance_forwards_the_login_over_tls(
    broker: Broker, registry: tuple[str, Path], tmp_path: Path
) -> None:
    with started(broker, tmp_path) as second:
        writer = client(second, broker, "writer", USERS["writer"])
        schema_id = writer.register_schema("orders-key", Schema('"long"', "AVRO"))
        first = client(registry, broker, "reader", USERS["reader"])
        assert first.get_schema(schema_id, "orders-key").schema_str == '"long"'
        assert refusal(lambda: writer.register_schema("other-key", Schema('"int"', "AVRO"))) == (403, 40301)
        for one in (writer, first):
            one.close()


def test_beyond_loopback_it_wants_logins_and_tls(broker: Broker) -> None:
    command = [sys.executable, "-m", "ottla", "registry", "--host", "0.0.0.0", "-b", broker.bootstrap_servers]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2
    assert "needs --login and --ssl-config" in found.stderr
    assert json.dumps(found.stdout) == '""'
