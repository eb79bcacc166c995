"""Ottla starts on a data folder that Apache Kafka 4.3.1 formatted and used."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import ON_KAFKA, StartServer, a_sample
from tests.interop.contents import Contents
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import Toolbox

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="both servers take part"),
    pytest.mark.timeout(900),
]


@pytest.mark.parametrize("how", a_sample([("stop",), ("kill",)], every=2))
def test_we_find_everything_that_kafka_wrote_and_kafka_finds_it_again(
    start_server: StartServer, tools: Toolbox, tmp_path: Path, how: str
) -> None:
    folder, contents = tmp_path / "data", Contents(tools)
    often = "metadata.log.max.record.bytes.between.snapshots=2000"
    kafka = start_server(often, data=folder, on_kafka=True)
    contents.add(kafka)
    contents.add(kafka)
    getattr(kafka, how)()
    ours = start_server(often, data=folder, on_kafka=False)
    contents.check(ours)
    contents.add(ours)
    contents.check(ours)
    getattr(ours, how)()
    contents.check(start_server(often, data=folder, on_kafka=True))


def test_we_lead_a_quorum_whose_voters_are_dynamic(start_server: StartServer, tools: Toolbox, tmp_path: Path) -> None:
    """`kafka-storage format --standalone` writes the voters into the log (KIP-853)."""
    folder = tmp_path / "data"
    script = kafka_anchor()
    assert script is not None
    properties = tmp_path / "format.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=127.0.0.1:19093\n"
        "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={folder}\n"
    )
    command = [str(script), "storage", "format", "--standalone", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(properties)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    contents = Contents(tools)
    ours = start_server(data=folder, on_kafka=False)
    contents.add(ours)
    ours.stop()
    state = (folder / "__cluster_metadata-0" / "quorum-state").read_text()
    assert '"data_version":1' in state
    contents.check(start_server(data=folder, on_kafka=False))
