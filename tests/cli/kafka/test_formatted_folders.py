"""Folders that our kafka-storage has formatted: Ottla starts on them with kafka-server-start, and so does Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kafka.scenes import our_tools
from tests.interop.servers import Kafka, Ottla, Server, free_port, kafka_anchor

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
VOTERS = {
    "static": "controller.quorum.voters=1@127.0.0.1:{controller}",
    "standalone": "controller.quorum.bootstrap.servers=127.0.0.1:{controller}",
}


def write_properties(path: Path, data: Path, port: int, voters: str) -> None:
    path.write_text(
        f"""process.roles=broker,controller
node.id=1
{VOTERS[voters].format(controller=port + 1)}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
"""
    )


class Started(Ottla):
    """A node that kafka-server-start runs."""

    def __init__(self, data: Path, port: int, properties: Path) -> None:
        super().__init__(data, port=port)
        self._properties = properties

    def launch(self) -> None:
        command = [sys.executable, "-m", "ottla", "kafka-server-start", str(self._properties)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "--override", "log.retention.hours=3"], stdout=output, stderr=subprocess.STDOUT
            )
        self.pid = self._process.pid


def test_a_release_of_kafka_4_4_has_its_own_levels(tmp_path: Path) -> None:
    """Kafka 4.3.1, which the recorded scenes are from, does not know them."""
    assert our_tools("storage", ["version-mapping", "-r", "4.4"])[1].splitlines() == [
        "metadata.version=33 (4.4)",
        "kraft.version=1",
        "transaction.version=2",
        "group.version=1",
        "eligible.leader.replicas.version=1",
        "share.version=2",
        "streams.version=1",
    ]
    code, _, err = our_tools("storage", ["version-mapping", "-r", "nix"])
    assert code == 1 and err.rstrip().endswith("4.3-IV0, 4.4-IV0, 4.4-IV1, 4.4-IV2, 4.5-IV0")


def use(server: Server) -> None:
    """What a person does first with a new broker."""
    to = ["--bootstrap-server", server.bootstrap]
    assert our_tools("topics", [*to, "--create", "--topic", "registrations"])[:2] == (
        0,
        "Created topic registrations.\n",
    )
    status = our_tools("metadata-quorum", [*to, "describe", "--status"])[1]
    assert status.splitlines()[0] == f"ClusterId:              {CLUSTER_ID}"
    assert '"id": 1' in status


@pytest.mark.parametrize("voters", VOTERS)
def test_ottla_starts_on_a_formatted_folder(tmp_path: Path, voters: str) -> None:
    data, properties, port = tmp_path / "data", tmp_path / "server.properties", free_port()
    write_properties(properties, data, port, voters)
    flags = ["--standalone"] if voters == "standalone" else []
    code, out, err = our_tools("storage", ["format", "-t", CLUSTER_ID, "-c", str(properties), *flags])
    assert code == 0, err
    assert out.endswith("with metadata.version 4.3-IV0.\n")
    server = Started(data, port, properties)
    server.start()
    try:
        use(server)
        retention = our_tools(
            "configs", ["--bootstrap-server", server.bootstrap, "--describe", "--all", "--broker", "1"]
        )[1]
        assert (
            "  log.retention.hours=3 sensitive=false synonyms={STATIC_BROKER_CONFIG:log.retention.hours=3" in retention
        )
        if voters == "standalone":
            directory = next(
                line for line in (data / "meta.properties").read_text().splitlines() if "directory.id" in line
            )
            listed = our_tools("metadata-quorum", ["--bootstrap-server", server.bootstrap, "describe", "--replication"])
            assert directory.partition("=")[2] in listed[1]
    finally:
        server.stop()
    assert our_tools("storage", ["info", "-c", str(properties)])[0] == 0


@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="OTTLA_INTEROP_ALL=1 starts Apache Kafka")
def test_kafka_starts_on_a_formatted_folder(tmp_path: Path) -> None:
    if kafka_anchor() is None:
        pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
    data, properties = tmp_path / "data", tmp_path / "server.properties"
    server = Kafka(data)
    write_properties(properties, data, server.port, "static")
    assert our_tools("storage", ["format", "-t", CLUSTER_ID, "-c", str(properties)])[0] == 0
    server.start()
    try:
        use(server)
    finally:
        server.stop()
