"""What a worker of Spark is spared between small batches."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator

import pytest

from ottla.spark import workers


@pytest.fixture
def in_daemons_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_is_daemons_worker", lambda: True)
    monkeypatch.setattr(workers, "_known_module_count", 0)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("in_daemons_worker")
def test_modules_are_set_aside_once() -> None:
    workers.set_modules_aside()
    assert gc.get_freeze_count() > 10_000
    gc.unfreeze()
    workers.set_modules_aside()
    assert gc.get_freeze_count() == 0, "no module came since"


def test_other_processes_keep_their_collector() -> None:
    before = gc.get_freeze_count()
    workers.set_modules_aside()
    assert gc.get_freeze_count() == before


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux acknowledges on demand")
@pytest.mark.usefixtures("in_daemons_worker")
def test_connections_acknowledge_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        workers.acknowledge_at_once()
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
