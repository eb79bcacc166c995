"""SCRAM credentials that `kafka-storage format --add-scram` gives a new cluster: users log in from its first start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import ScramCredential, ScramMechanism
from ottla.client.blocking import Admin
from ottla.client.errors import AuthenticationError
from tests.cli.kafka.scenes import original_tools, our_tools
from tests.interop.secured_kafka import TRUST, SecuredKafka, jaas
from tests.interop.secured_ottla import SecuredOttla
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import Toolbox

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
USERS = {
    "SCRAM-SHA-256=[name=alice,password=alices-secret]": ("alice", "alices-secret", "SCRAM-SHA-256"),
    'SCRAM-SHA-512=[name=bob,iterations=8192,password="bob=s] secret"]': ("bob", "bob=s] secret", "SCRAM-SHA-512"),
}
Tool = Callable[[str, list[str]], tuple[int, str, str]]


def arguments_of(folder: Path, data: Path, port: int) -> list[str]:
    properties = folder / "server.properties"
    properties.write_text(
        f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{port + 1}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}
controller.listener.names=CONTROLLER
log.dirs={data}
"""
    )
    users = [argument for user in USERS for argument in ("--add-scram", user)]
    return ["format", "-t", CLUSTER_ID, "-c", str(properties), *users]


def check(server: SecuredOttla | SecuredKafka) -> None:
    """Both users are known, with their iterations; they log in, and no other password does."""
    with Admin(bootstrap_servers=server.bootstrap) as admin:
        assert admin.describe_user_scram_credentials() == {
            "alice": [ScramCredential(ScramMechanism.SCRAM_SHA_256, 4096)],
            "bob": [ScramCredential(ScramMechanism.SCRAM_SHA_512, 8192)],
        }
    for user, password, mechanism in USERS.values():
        with Admin(login(server, user, password, mechanism)) as admin:
            admin.connect()
        with Admin(login(server, user, password + "?", mechanism)) as admin, pytest.raises(AuthenticationError):
            admin.connect()


def login(server: SecuredOttla | SecuredKafka, user: str, password: str, mechanism: str) -> dict[str, Any]:
    protocol = "SASL_SSL" if isinstance(server, SecuredKafka) else "SASL_PLAINTEXT"
    return {
        "bootstrap.servers": f"127.0.0.1:{server.ports[protocol]}",
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas("scram.ScramLoginModule", username=user, password=password),
        **(TRUST if protocol == "SASL_SSL" else {}),
    }


def formatted_by(tool: Tool, folder: Path, data: Path, port: int) -> None:
    code, out, err = tool("storage", arguments_of(folder, data, port))
    assert code == 0, err
    assert "Formatting metadata directory" in out


def run(server: SecuredOttla | SecuredKafka) -> None:
    server.start()
    try:
        check(server)
    finally:
        server.stop()


def test_users_of_a_folder_that_our_tool_formatted_log_in_to_ottla(tmp_path: Path) -> None:
    server = SecuredOttla(tmp_path / "data")
    formatted_by(our_tools, tmp_path, tmp_path / "data", server.port)
    run(server)
    assert all(password not in server.output() for _, password, _ in USERS.values())


@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="OTTLA_INTEROP_ALL=1 starts Apache Kafka")
@pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java")
class TestBothMakes:
    def test_users_of_a_folder_that_our_tool_formatted_log_in_to_kafka(self, tmp_path: Path) -> None:
        server = SecuredKafka(tmp_path / "data")
        formatted_by(our_tools, tmp_path, tmp_path / "data", server.port)
        run(server)

    def test_users_of_a_folder_that_kafkas_tool_formatted_log_in_to_ottla(self, tmp_path: Path) -> None:
        server = SecuredOttla(tmp_path / "data")
        toolbox = Toolbox()
        try:
            tools = original_tools(toolbox)
            formatted_by(lambda name, given: tools(name, given, ""), tmp_path, tmp_path / "data", server.port)
        finally:
            toolbox.close()
        run(server)
