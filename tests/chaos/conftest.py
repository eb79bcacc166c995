"""Real processes killed, frozen and starved while clients work. OTTLA_CHAOS_ROUNDS says how often (4 times)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import new_server
from tests.interop.servers import Server

HERE = Path(__file__).parent

NewServer = Callable[..., Server]


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
