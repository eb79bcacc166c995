"""Real processes killed, frozen and starved while clients work. OTTLA_CHAOS_ROUNDS says how often (4 times)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop.conftest import new_server
from tests.interop.servers import Server

if TYPE_CHECKING:
    from tests.chaos.cluster import Cluster

HERE = Path(__file__).parent

NewServer = Callable[..., Server]
NewCluster = Callable[..., "Cluster"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.chaos)


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[NewServer]:
    servers: list[Server] = []

    def start(*overrides: str, data: Path | None = None) -> Server:
        server = new_server(data or tmp_path / f"data-{len(servers)}", overrides)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.kill()


def small_file_system(tmp_path: Path, size: str) -> Iterator[Path]:
    """A folder with room for so much; the test is skipped where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system: mount is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[NewCluster]:
    from tests.chaos.cluster import Cluster  # needs librdkafka: without it, tests that use the fixture are skipped

    clusters: list[Cluster] = []

    def start(*overrides: str, **options: Any) -> Cluster:
        cluster = Cluster(tmp_path, overrides=["log.segment.bytes=1048576", *overrides], **options)
        clusters.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in clusters:
        print(cluster.output())
        cluster.kill()
