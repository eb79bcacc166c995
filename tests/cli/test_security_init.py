"""`ottla security init` makes what a secured cluster needs, and real servers and clients take it."""

from __future__ import annotations

import json
import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.__main__ import main
from ottla.cli import certificates, extras
from ottla.cli.security_folder import SecurityFolder
from ottla.client.blocking import Admin
from ottla.config.properties import parse_properties
from tests.interop.servers import Kafka, free_port, kafka_anchor
from tests.interop.toolbox import Toolbox


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> SecurityFolder:
    made = SecurityFolder(tmp_path_factory.mktemp("secured") / "security")
    made.make(2, ["kafka.example.org", "10.0.0.7"])
    return made


def handshake(server: Path, client: Path | None, ca: Path, host: str) -> str | None:
    """What goes wrong when a client meets a server, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(server)
    server_context.load_verify_locations(ca)
    server_context.verify_mode = ssl.CERT_REQUIRED if client is not None else ssl.CERT_NONE
    client_context = ssl.create_default_context(cafile=str(ca))
    if client is not None:
        client_context.load_cert_chain(client)
    ends = [
        client_context.wrap_bio(to_client, to_server, server_hostname=host),
        server_context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(error)
    return None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "kafka.example.org", "10.0.0.7"])
def test_a_node_is_trusted_under_every_name_of_it(folder: SecurityFolder, host: str) -> None:
    assert handshake(folder.node("node-1"), folder.client("admin"), folder.ca, host) is None


def test_a_node_is_not_trusted_under_another_name_or_by_another_ca(folder: SecurityFolder, tmp_path: Path) -> None:
    assert "mismatch" in str(handshake(folder.node("node-1"), None, folder.ca, "kafka.example.com"))
    other = SecurityFolder(tmp_path / "other")
    other.make(1)
    assert "CERTIFICATE_VERIFY_FAILED" in str(handshake(folder.node("node-1"), None, other.ca, "localhost"))


def test_a_clients_certificate_is_no_servers(folder: SecurityFolder) -> None:
    assert "purpose" in str(handshake(folder.client("admin"), None, folder.ca, "localhost"))


def test_only_the_owner_can_read_what_is_secret(folder: SecurityFolder) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.path.iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert set(modes) == {
        "ca.key", "node-1.pem", "node-2.pem", "client-admin.pem", "admin.password", "client.properties",
    }  # fmt: skip
    assert set(modes.values()) == {0o600}


def test_nothing_is_overwritten_and_nothing_secret_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["security", "init", "--dir", str(tmp_path / "made"), "--nodes", "1"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    made = SecurityFolder(tmp_path / "made")
    assert made.password() not in said.out + said.err
    assert "PRIVATE KEY" not in said.out + said.err
    before = {path: path.read_bytes() for path in made.path.iterdir()}
    assert main(arguments) == 1
    assert "nothing is overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in made.path.iterdir()} == before
    assert main(["security", "client", "billing", "--dir", str(made.path), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"file": str(made.client("billing")), "principal": "User:CN=billing"}
    assert main(["security", "node", "node-2", "--dir", str(made.path), "--name", "b.example.org"]) == 0
    assert handshake(made.node("node-2"), made.client("billing"), made.ca, "b.example.org") is None
    assert main(["security", "client", "billing", "--dir", str(made.path)]) == 1
    assert main(["security", "client", "../billing", "--dir", str(made.path)]) == 2
    assert main(["security", "node", "node-3", "--dir", str(made.path), "--name", "no name"]) == 2
    assert main(["security", "client", "billing", "--dir", str(tmp_path / "nowhere")]) == 1
    assert "ottla security init" in capsys.readouterr().err


def test_without_cryptography_the_command_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(extras, "ROOT", tmp_path)
    assert main(["security", "init", "--dir", str(tmp_path / "made")]) == 1
    assert "pip install 'ottla[security]'" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_checkout_installs_the_package_that_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([None, object()])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: next(found))
    (tmp_path / "requirements-security.lock").write_text("")  # nothing to fetch
    monkeypatch.setattr(extras, "ROOT", tmp_path)
    monkeypatch.setattr("sys.prefix", f"{os.sep}somewhere")
    certificates.need_cryptography()
    assert "installing cryptography (once)" in capfd.readouterr().err


@pytest.fixture(scope="module")
def kafka(folder: SecurityFolder) -> Iterator[str]:
    """The secured address of an Apache Kafka with the files of the folder."""
    if kafka_anchor() is None:
        pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
    server = Kafka(folder.path.parent / "data", ())
    port = free_port()
    clients = f"SASL_SSL://127.0.0.1:{port}"
    settings = folder.node_settings("node-1", ["node-1"], []) | {
        "listeners": f"PLAINTEXT://{server.bootstrap},CONTROLLER://127.0.0.1:{server.port + 1},{clients}",
        "advertised.listeners": f"PLAINTEXT://{server.bootstrap},{clients}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
    }
    settings["super.users"] += ";User:ANONYMOUS"
    server.overrides = [f"{name}={value}" for name, value in settings.items()]
    server.start()
    with Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.set_scram_password("admin", folder.password())
    yield f"127.0.0.1:{port}"
    server.stop()


def test_client_properties_are_taken_by_kafkas_tools_and_every_client(
    kafka: str, folder: SecurityFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka.admin import AdminClient

    config = str(folder.client_properties)
    ends = ["-b", kafka, "--command-config", config]
    assert main(["topics", "create", "made-by-ottla", *ends]) == 0
    tool = ["kafka-topics", "--bootstrap-server", kafka, "--command-config", config, "--list"]
    assert main(tool) == 0
    assert "made-by-ottla" in capfd.readouterr().out
    toolbox = Toolbox()
    try:
        printed = toolbox.run("topics", *tool[1:])
        assert (printed.code, printed.out.split()) == (0, ["made-by-ottla"])
    finally:
        toolbox.close()
    settings = parse_properties(folder.client_properties.read_text())
    client = AdminClient(
        {
            "bootstrap.servers": kafka,
            "security.protocol": settings["security.protocol"],
            "sasl.mechanism": settings["sasl.mechanism"],
            "sasl.username": "admin",
            "sasl.password": folder.password(),
            "ssl.ca.location": str(folder.ca),
        }
    )
    assert "made-by-ottla" in client.list_topics(timeout=30).topics
