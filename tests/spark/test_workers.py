"""What a worker of Spark is spared between small batches."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
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


WORKER_START = """
import json, sys, time
import pyspark.sql.streaming.python_streaming_source_runner
import pyspark.sql.worker.python_streaming_sink_runner
before = [name for name in sys.modules if name.split(".")[0] in ("ottla", "pyspark_ottla")]
import pyspark_ottla, ottla.spark.stream_reader, ottla.spark.stream_writer
print(json.dumps([before, sorted(sys.modules), time.process_time()]))
"""


def test_a_worker_of_a_stream_starts_with_little_work() -> None:
    """Spark gives it ten seconds to connect, a constant of PythonWorkerFactory. Until then nothing of ours is imported;
    after that nothing that a worker does not use. The processor time has room for a slow machine: 0.4 s is usual."""
    done = subprocess.run([sys.executable, "-c", WORKER_START], capture_output=True, check=True, timeout=120)
    before, modules, cpu_seconds = json.loads(done.stdout)
    assert before == []
    unused = ("pandas", "grpc", "ottla.broker", "ottla.cli", "ottla.client.producer", "ottla.client.consumer")
    assert [name for name in unused if name in modules] == []
    assert cpu_seconds < 1.5


def test_the_modes_of_sparks_sink_come_with_pyspark() -> None:
    """Whichever is imported first; a command that needs no Spark does not import it."""
    for script in (
        "import sys, ottla.spark; assert 'pyspark' not in sys.modules; import pyspark.sql",
        "import pyspark.sql, ottla.spark",
    ):
        check = "print(hasattr(pyspark.sql.DataFrameWriter.save, '__wrapped__'))"
        command = [sys.executable, "-c", f"{script}; {check}"]
        done = subprocess.run(command, capture_output=True, check=True, timeout=120)
        assert done.stdout.strip() == b"True"
