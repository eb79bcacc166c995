"""Kafka's own tools change the voters of three Ottla nodes. OTTLA_INTEROP_ALL=1 runs it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import Toolbox

pytestmark = [
    pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="OTTLA_INTEROP_ALL=1 runs it"),
    pytest.mark.skipif(kafka_anchor() is None, reason="no anchor script or no java"),
]
PATIENCE_S = 60


def replicas(toolbox: Toolbox, server: str) -> dict[int, tuple[str, str]]:
    """By node its directory's id, and whether it votes."""
    _, *rows = toolbox("metadata-quorum", "--bootstrap-server", server, "describe", "--replication").lines
    found = {}
    for row in rows:
        id, directory_id, *_, status = row.split()
        found[int(id)] = directory_id, "observer" if status == "Observer" else "voter"
    return found


def test_voters_go_and_come_back(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    toolbox = Toolbox()
    try:
        cluster.start()
        server = cluster.nodes[1].bootstrap
        toolbox("features", "--bootstrap-server", server, "upgrade", "--feature", "kraft.version=1")
        before = replicas(toolbox, server)
        assert [status for _, status in before.values()] == ["voter"] * 3
        removing = ["--controller-id", "3", "--controller-directory-id", before[3][0]]
        removed = toolbox("metadata-quorum", "--bootstrap-server", server, "remove-controller", *removing)
        assert removed.lines == [f"Removed  KRaft controller 3 with directory id {before[3][0]}"]
        end = time.monotonic() + PATIENCE_S
        while replicas(toolbox, server) != {**before, 3: (before[3][0], "observer")}:
            assert time.monotonic() < end, replicas(toolbox, server)
        port = cluster.nodes[3].port
        properties = tmp_path / "controller.properties"
        properties.write_text(
            f"process.roles=broker,controller\nnode.id=3\nlog.dirs={cluster.nodes[3].data}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
            f"controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{cluster.nodes[1].port + 1}\n"
        )
        adding = ["--command-config", str(properties), "add-controller"]
        added = toolbox("metadata-quorum", "--bootstrap-server", server, *adding)
        assert f"Added controller 3 with directory id {before[3][0]}" in added.out
        assert replicas(toolbox, server) == before
    finally:
        cluster.kill()
        toolbox.close()
