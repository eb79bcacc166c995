"""A node of `--secure` as programs from elsewhere see it: Kafka's own tools and openssl."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import Toolbox

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(secure=True) as broker:
        with broker.admin() as admin:
            admin.create_topic("orders")
        yield broker


def test_kafkas_own_tools_take_client_properties(secured: Broker) -> None:
    if kafka_anchor() is None:
        pytest.skip("Kafka's command line tools: no anchor script or no java")
    assert secured.security is not None
    place = [
        "--bootstrap-server",
        secured.bootstrap_servers,
        "--command-config",
        str(secured.security.client_properties),
    ]
    toolbox = Toolbox()
    try:
        assert toolbox.run("topics", *place, "--list").out.split() == ["orders"]
        added = toolbox.run(
            "acls", *place, "--add", "--allow-principal", "User:java", "--operation", "Read", "--topic", "t"
        )
        assert (added.code, "operation=READ" in added.out) == (0, True)
        user = ["--alter", "--entity-type", "users", "--entity-name", "java"]
        made = toolbox.run("configs", *place, *user, "--add-config", "SCRAM-SHA-512=[password=coffee]")
        assert made.code == 0, made.err
    finally:
        toolbox.close()
    with secured.admin() as admin:
        assert "java" in admin.describe_user_scram_credentials()
        assert [acl.principal for acl in admin.describe_acls()] == ["User:java"]


def test_openssl_trusts_the_node_by_its_ca(secured: Broker) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there")
    assert secured.security is not None
    said = subprocess.run(
        ["openssl", "s_client", "-connect", secured.bootstrap_servers, "-CAfile", str(secured.security.ca),
         "-verify_return_error", "-verify_hostname", "localhost"],
        input="", capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert "Verify return code: 0 (ok)" in said.stdout, said.stderr
    assert "TLSv1.3" in said.stdout
