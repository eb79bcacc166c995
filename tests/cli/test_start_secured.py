"""`ottla start --secure`: one command from nothing to a node with TLS, logins and ACLs."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.servers import cluster_port, free_port

READY_S = 120


class Folder:
    """A working folder; `ottla` runs commands in it as a person does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.port = free_port()
        self._environment = {**os.environ, "OTTLA_CLUSTERS": str(path / "no-clusters.toml")}
        self._environment.pop("OTTLA_BROKER", None)
        self._node: subprocess.Popen[str] | None = None
        self.output = path / "node.out"

    def start(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ottla", "start", "--port", str(self.port), *arguments]
        with self.output.open("a") as output:
            self._node = subprocess.Popen(
                command, cwd=self.path, stdout=subprocess.PIPE, stderr=output, text=True, env=self._environment
            )
        assert self._node.stdout is not None
        line = self._node.stdout.readline()
        assert "ready on" in line, self.output.read_text()

    def stop(self) -> None:
        if self._node is not None:
            self._node.terminate()
            self._node.communicate(timeout=READY_S)
            self._node = None

    def ottla(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ottla", *arguments], cwd=self.path, env=self._environment, input=stdin,
            capture_output=True, text=True, timeout=READY_S,
        )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.stop()


def wait_for_file(path: Path) -> None:
    import time

    ends_at = time.monotonic() + READY_S
    while not path.exists() and time.monotonic() < ends_at:
        time.sleep(0.05)
    assert path.exists()


def test_one_command_gives_a_secured_node_that_commands_find_by_themselves(folder: Folder) -> None:
    folder.start("--secure", "--log-level", "debug")
    wait_for_file(folder.path / "security" / "brokers")
    assert (folder.path / "security" / "brokers").read_text() == f"127.0.0.1:{folder.port}\n"
    assert folder.ottla("topics", "create", "orders").returncode == 0
    assert folder.ottla("users", "add", "alice", "--password-file", "-", stdin="wonderland\n").returncode == 0
    assert folder.ottla("acls", "grant", "alice", "--producer", "topic", "orders").returncode == 0
    address = ["-b", f"127.0.0.1:{folder.port}"]
    assert folder.ottla("topics", "list", *address).stdout.split()[3] == "orders"
    # Another broker gets none of these passwords.
    elsewhere = folder.ottla("topics", "list", "-b", f"127.0.0.1:{free_port()}")
    assert (elsewhere.returncode, "connection refused" in elsewhere.stderr) == (1, True)
    alice = (folder.path / "security" / "client.properties").read_text()
    password = (folder.path / "security" / "admin.password").read_text().strip()
    (folder.path / "alice.properties").write_text(
        alice.replace('username="admin"', 'username="alice"').replace(password, "wonderland")
    )
    as_alice = [*address, "--command-config", "alice.properties"]
    assert folder.ottla("produce", "orders", *as_alice, stdin="one\n").returncode == 0
    refused = folder.ottla("consume", "orders", "-e", *as_alice)
    assert (refused.returncode, "AUTHORIZATION_FAILED" in refused.stderr) == (1, True), refused.stderr
    said = folder.output.read_text()
    assert "clients: bootstrap.servers=" in said
    assert "ottla.serving" in said
    keys = [(folder.path / "security" / name).read_text().splitlines()[1] for name in ("ca.key", "node-1.pem")]
    for secret in (password, "wonderland", *keys):
        assert secret not in said
    folder.stop()
    assert not (folder.path / "security" / "brokers").exists()
    folder.start("--secure")
    assert "orders" in folder.ottla("topics", "list").stdout


def test_data_that_was_made_without_users_is_pointed_out(folder: Folder) -> None:
    folder.start()
    folder.stop()
    folder.start("--secure")
    wait_for_file(folder.path / "security" / "brokers")
    folder.stop()
    assert "this data has no user admin" in folder.output.read_text()
    assert folder.ottla("topics", "list").returncode == 1


def test_a_secured_cluster_is_started_used_and_stopped_with_one_command_each(folder: Folder) -> None:
    port = cluster_port()
    started = folder.ottla("cluster", "start", "--secure", "--port", str(port))
    assert (started.returncode, "clients: bootstrap.servers=" in started.stderr) == (0, True), started.stderr
    try:
        assert folder.ottla("topics", "create", "orders", "-p", "3").returncode == 0
        assert folder.ottla("cluster", "status").stdout.count("running") == 3
        described = folder.ottla("cluster", "brokers").stdout
        assert [line.split()[2] for line in described.splitlines()[1:]] == [str(port + at) for at in range(3)]
        for open_protocol in ("PLAINTEXT", "SSL"):
            (folder.path / "open.properties").write_text(
                f"security.protocol={open_protocol}\nssl.ca.location={folder.path}/security/ca.pem\n"
                "default.api.timeout.ms=3000\nrequest.timeout.ms=3000\n"
            )
            for door in (port, port + 1000, port + 2000):
                at = ["-b", f"127.0.0.1:{door}", "--command-config", "open.properties"]
                assert folder.ottla("topics", "list", *at).returncode == 1, (open_protocol, door)
        other = folder.ottla("cluster", "start", "--secure=elsewhere")
        assert (other.returncode, "was made with --secure" in other.stderr) == (1, True)
    finally:
        stopped = folder.ottla("cluster", "stop")
    assert "3 nodes stopped" in stopped.stderr
    assert not (folder.path / "security" / "brokers").exists()


def test_the_metrics_port_speaks_tls_and_asks_for_a_certificate_or_a_token(folder: Folder) -> None:
    port = free_port()
    folder.start("--secure", "--metrics-port", str(port), "--metrics-tls")
    security = folder.path / "security"
    context = ssl.create_default_context(cafile=str(security / "ca.pem"))
    with pytest.raises(OSError):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=context, timeout=60)
    context.load_cert_chain(security / "client-admin.pem")
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=context, timeout=60) as answer:
        assert b"ottla_audit_events" in answer.read()
    folder.stop()
    token = folder.path / "token"
    token.write_text("0123456789abcdef\n")
    folder.start("--secure", "--metrics-port", str(port), "--metrics-tls", "--metrics-token-file", str(token))
    context = ssl.create_default_context(cafile=str(security / "ca.pem"))
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=context, timeout=60)
    refused.value.close()
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/health", headers={"Authorization": "Bearer 0123456789abcdef"}
    )
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        assert answer.read() == b"ok\n"


def test_a_metrics_port_open_to_other_hosts_is_refused(folder: Folder) -> None:
    said = folder.ottla("start", "--port", "0", "--metrics-port", "0", "--metrics-host", "0.0.0.0")
    assert (said.returncode, "--metrics-token-file" in said.stderr) == (2, True)
