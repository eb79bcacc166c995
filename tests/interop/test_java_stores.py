"""Java clients with certificates from JKS, PKCS12 and PEM stores, on a listener that wants certificates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.admin import Acl, AclOperation, AclResource
from ottla.client.blocking import Admin
from ottla.wire.acls import PatternType
from tests.interop.access_matrix import STANDARD_AUTHORIZER
from tests.interop.secured_kafka import FILES, STORE_PASSWORD
from tests.interop.secured_ottla import SecuredOttla, running_ottla
from tests.interop.toolbox import Toolbox

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="a JVM for each store: OTTLA_INTEROP_ALL=1 runs it"
)
TOPIC = "stores"


def in_files(kind: str, ending: str) -> dict[str, str]:
    return {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(FILES / f"client.{ending}"),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(FILES / f"trust.{ending}"),
        "ssl.truststore.password": STORE_PASSWORD,
    }


STORES = {
    "JKS": in_files("JKS", "jks"),
    "PKCS12": in_files("PKCS12", "p12"),
    "PEM": {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(FILES / "client.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(FILES / "ca.pem"),
    },
}
ANOTHER = {**STORES["PEM"], "ssl.keystore.location": str(FILES / "client-of-another.pem")}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "listener.name.ssl.ssl.client.auth": "required",
    }
    with running_ottla(tmp_path_factory.mktemp("stores") / "data", protocols=("SSL",), properties=settings) as server:
        with Admin(bootstrap_servers=server.bootstrap) as admin:
            admin.create_topic(TOPIC, partition_count=1)
            own = "User:CN=client"
            admin.create_acls([Acl(AclResource.TOPIC, TOPIC, own, AclOperation.ALL)])
            admin.create_acls([Acl(AclResource.GROUP, TOPIC, own, AclOperation.ALL, pattern=PatternType.PREFIXED)])
        yield server


def settings_file(folder: Path, stores: dict[str, str]) -> str:
    file = folder / "client.properties"
    settings = {"security.protocol": "SSL", "request.timeout.ms": "20000", **stores}
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)


@pytest.mark.parametrize("kind", STORES)
def test_a_java_client_is_the_principal_of_its_store(
    kind: str, node: SecuredOttla, tools: Toolbox, tmp_path: Path
) -> None:
    settings, address = settings_file(tmp_path, STORES[kind]), node.address("SSL")
    at = ("--bootstrap-server", address, "--topic", TOPIC)
    tools("console-producer", *at, "--command-config", settings, stdin=f"by {kind}\n")
    group = ("--group", f"{TOPIC}-{kind}", "--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
    read = tools("console-consumer", *at, "--command-config", settings, *group)
    assert read.lines[0].startswith("by "), read


def test_a_java_client_with_a_certificate_of_another_ca_is_refused(
    node: SecuredOttla, tools: Toolbox, tmp_path: Path
) -> None:
    settings = settings_file(tmp_path, ANOTHER)
    refused = tools.run("topics", "--bootstrap-server", node.address("SSL"), "--command-config", settings, "--list")
    assert refused.code != 0 and TOPIC not in refused.lines
