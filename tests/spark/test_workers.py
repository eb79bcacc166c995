"""What a worker of Spark is spared between small batches."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import zipimport
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

from ottla.spark import context, daemon, workers
from tests.spark.conftest import Topics


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
def test_connections_exchange_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        workers.exchange_at_once()
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


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


# --- workers that start at once


def test_the_daemon_imports_from_the_installed_package(tmp_path: Path) -> None:
    lib = tmp_path / "site-packages" / "pyspark" / "python" / "lib"
    jars = tmp_path / "site-packages" / "pyspark" / "jars"
    spark = [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip"), str(jars / "spark-core_2.13-4.3.0.jar")]
    brought = [str(tmp_path / "job.zip"), str(jars / "graphs.jar")]
    installed = str(tmp_path / "site-packages")
    assert daemon.without_copies([*spark, *brought, installed]) == [*brought, installed]
    assert daemon.without_copies([*spark, *brought]) == [*spark, *brought], "the package is not installed"


def test_archives_of_spark_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path_importer_cache", {})
    finders = {}
    for name in ("python/lib/pyspark.zip", "jars/spark-core_2.13-4.3.0.jar", "job.zip"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with ZipFile(path, "w") as file:
            file.writestr("one.py", "")
        finders[name] = sys.path_importer_cache[str(path)] = zipimport.zipimporter(str(path))
    workers.keep_archives()
    kept = [name for name, finder in finders.items() if "invalidate_caches" in vars(finder)]
    assert kept == ["python/lib/pyspark.zip", "jars/spark-core_2.13-4.3.0.jar"]
    vars(finders["python/lib/pyspark.zip"])["invalidate_caches"]()


class Settings(dict[str, str]):
    """As the JVM's SparkConf."""

    def contains(self, name: str) -> bool:
        return name in self


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"spark.master": "local[2]"}, True),
        ({"spark.master": "local[2]", context.DAEMON_SETTING: "pyspark.daemon"}, False),
        ({"spark.master": "spark://127.0.0.1:7077"}, False),
        ({}, False),
    ],
)
def test_only_a_local_spark_gets_the_daemon_by_itself(settings: dict[str, str], expected: bool) -> None:
    assert context.is_wanted(Settings(settings)) == expected


def test_a_worker_ends_quietly_if_spark_wants_no_more_rows() -> None:
    script = (
        "from ottla.spark.daemon import quietly\n"
        "def worker(error):\n    raise error\n"
        "try:\n    quietly(worker)(ValueError())\nexcept ValueError:\n    quietly(worker)(BrokenPipeError())\nexit(1)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")


LEFT = """
import socket, sys
from ottla.spark.daemon import unless_spark_left
spark, worker = socket.socketpair()
report = unless_spark_left(lambda error, outfile: print(type(error).__name__, flush=True))
with worker.makefile("wb") as outfile:
    report(BrokenPipeError(), outfile)
    report(ValueError(), outfile)
    spark.close()
    report(ValueError(), outfile)
    report(ConnectionResetError(), outfile)
    print("not ended")
"""


def test_an_error_is_not_reported_to_a_spark_that_has_left() -> None:
    """A function of the user may also meet a broken pipe: of a connection of its own, while Spark listens."""
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stdout.split()) == (0, [b"BrokenPipeError", b"ValueError", b"ValueError"])


def test_tasks_that_a_limit_ends_cost_no_imports(
    spark: SparkSession, topics: Topics, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every task of this limit ends before its rows, and so does its worker: the next is a fork that is ready."""
    topic = topics.new(4)
    for partition in range(4):
        topics.produce(topic, [(None, "x" * 900) for _ in range(2_000)], partition=partition)
    rows = spark.read.format("ottla").options(**topics.options).option("subscribe", topic).load()
    assert spark.sparkContext.getConf().get(context.DAEMON_SETTING) == context.DAEMON
    assert rows.limit(1_000).count() == 1_000

    def state(batches: Iterator[object]) -> Iterator[object]:
        import pyarrow

        list(batches)
        found = [name for name in ("ottla.spark.reader", "pandas") if name in sys.modules]
        yield pyarrow.RecordBatch.from_pydict({"main": [str(vars(sys.modules["__main__"])["__spec__"].name), *found]})

    found = spark.range(0, 1, 1, 1).mapInArrow(state, "main string").collect()
    assert [row.main for row in found][:2] == [context.DAEMON, "ottla.spark.reader"]
    assert "Traceback" not in capfd.readouterr().err
