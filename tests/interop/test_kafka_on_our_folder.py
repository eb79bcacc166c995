"""Apache Kafka 4.3.1 starts on a data folder that Ottla formatted and used, and reads what Ottla wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.conftest import ON_KAFKA, StartServer, a_sample
from tests.interop.contents import Contents, eventually
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import Toolbox

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="both servers take part"),
    pytest.mark.timeout(900),
]
METADATA = "__cluster_metadata-0"


@pytest.mark.parametrize("how", a_sample([("kill",), ("stop",)], every=2))
def test_kafka_finds_everything_and_goes_on(
    start_server: StartServer, tools: Toolbox, tmp_path: Path, how: str
) -> None:
    folder, contents = tmp_path / "data", Contents(tools)
    ours = start_server(data=folder, on_kafka=False)
    contents.add(ours)
    contents.check(ours)
    getattr(ours, how)()
    kafka = start_server(data=folder, on_kafka=True)
    contents.check(kafka)
    contents.add(kafka)
    contents.check(kafka)
    getattr(kafka, how)()
    back = start_server(data=folder, on_kafka=False)
    contents.check(back)
    contents.add(back)
    contents.check(back)


def test_kafka_starts_on_our_snapshot(start_server: StartServer, tools: Toolbox, tmp_path: Path) -> None:
    folder, contents = tmp_path / "data", Contents(tools)
    often = "metadata.log.max.record.bytes.between.snapshots=1000"
    ours = start_server(often, data=folder, on_kafka=False)
    for _ in range(2):
        contents.add(ours)
    eventually(lambda: bool(list((folder / METADATA).glob("*.checkpoint"))))
    ours.stop()
    kafka = start_server(often, data=folder, on_kafka=True)
    contents.check(kafka)
    contents.add(kafka)
    kafka.stop()
    contents.check(start_server(data=folder, on_kafka=False))


def test_kafkas_dump_log_reads_our_metadata(start_server: StartServer, tools: Toolbox, tmp_path: Path) -> None:
    folder, contents = tmp_path / "data", Contents(tools)
    ours = start_server("metadata.log.max.record.bytes.between.snapshots=1000", data=folder, on_kafka=False)
    contents.add(ours)
    eventually(lambda: bool(list((folder / METADATA).glob("*.checkpoint"))))
    ours.stop()
    files = [folder / "bootstrap.checkpoint", *sorted((folder / METADATA).glob("*.log"))]
    files += sorted((folder / METADATA).glob("*.checkpoint"))
    for file in files:
        printed = tools("dump-log", "--cluster-metadata-decoder", "--files", str(file)).out
        assert "isvalid: false" not in printed and "Error" not in printed and "Could not" not in printed
        if file.stat().st_size:
            assert "isvalid: true" in printed
        if file.suffix == ".checkpoint":
            assert "SnapshotHeader" in printed and "SnapshotFooter" in printed
