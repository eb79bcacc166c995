"""The connector where Spark is more than one process: a standalone cluster of two workers, and Spark Connect; and
Spark's own connector in real-time mode. Each starts JVMs of its own, so they run with OTTLA_INTEROP_ALL=1 only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random, SystemRandom

import pyspark
import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.tables.table import NoTable
from tests.interop.servers import free_port
from tests.spark.conftest import Topics
from tests.spark.official import official_jars
from tests.spark.test_exactly_once import ALL, run_driver
from tests.spark.test_pipelines_changes import table_of
from tests.spark.test_pipelines_definition import PIPELINES
from tests.spark.test_pipelines_processes import Database, command, database, jar, wait_for

pytestmark = pytest.mark.skipif(not ALL, reason="starts JVMs of its own: only with OTTLA_INTEROP_ALL=1")
__all__ = ["database", "jar"]
HOME = Path(pyspark.__file__).parent
KILLS = 6


class StandaloneCluster:
    """A master and two workers of one core each, on 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"spark://127.0.0.1:{free_port()}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: dict[int, subprocess.Popen[bytes]] = {}

    def _launch(self, name: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [str(HOME / "bin" / "spark-class"), *arguments],
                    env={**os.environ, "SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        return log

    def start(self) -> None:
        port = self.url.rpartition(":")[2]
        deploy = "org.apache.spark.deploy"
        log = self._launch(
            "master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"
        )
        self._wait_for(log, "New state: ALIVE")
        for number in range(2):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        folder = str(self.folder / f"worker-{number}")
        limits = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", folder]
        worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", *limits, self.url]
        self._wait_for(self._launch(f"worker-{number}", *worker), "Successfully registered with master")
        self.workers[number] = self.processes[-1]

    def kill_worker(self, number: int) -> None:
        """A worker and its executors, which are of its process group, as if their machine was gone."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait(120)

    def _wait_for(self, log: Path, text: str) -> None:
        end = time.monotonic() + 120
        while text not in log.read_text(errors="replace"):
            assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def check_both_worked(self) -> None:
        for number in range(2):
            assert list((self.folder / f"worker-{number}").glob("app-*/*/stderr")), f"worker {number} ran no executor"

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(120)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    made = StandaloneCluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_two_workers_of_a_standalone_cluster(cluster: StandaloneCluster, topics: Topics, tmp_path: Path) -> None:
    """The same driver as on one machine, killed half way through a commit and started again."""
    incoming, outgoing = topics.new(4), topics.new(3)
    topics.fill(incoming, 0, 150)
    assert run_driver(topics, incoming, outgoing, tmp_path / "killed", "half:1", cluster.url) != 0
    assert run_driver(topics, incoming, outgoing, tmp_path / "last", "never:0", cluster.url) == 0
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(150))
    cluster.check_both_worked()


def test_a_pipeline_runs_there_unchanged(cluster: StandaloneCluster, topics: Topics, tmp_path: Path) -> None:
    topics.create("lines", 2)
    topics.create("word-counts", 1)
    topics.produce("lines", [(None, f"the {word}") for word in ("castle", "trial", "castle", "burrow")])
    where = ["--state", str(tmp_path / "state"), "--master", cluster.url, "--broker", topics.bootstrap]
    command = [sys.executable, "-m", "ottla", "pipeline", "run", str(PIPELINES / "word-count"), "--once", *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    counts = {one["word"]: one["count"] for one in map(json.loads, topics.values("word-counts"))}
    assert counts == {"the": 4, "castle": 2, "trial": 1, "burrow": 1}
    cluster.check_both_worked()


def test_a_pipeline_goes_on_though_each_worker_is_killed_in_turn(
    cluster: StandaloneCluster, topics: Topics, tmp_path: Path
) -> None:
    incoming, outgoing = topics.new(4), topics.new(3)
    folder = tmp_path / "copies"
    folder.mkdir()
    (folder / "pipeline.yml").write_text(
        f"sources: {{rows: {{topic: {incoming}, format: string, options: {{maxOffsetsPerTrigger: 20}}}}}}\n"
        f"flows: {{copies: {{from: rows, topic: {outgoing}, format: string}}}}\n"
    )
    command = [sys.executable, "-m", "ottla", "pipeline", "run", str(folder), "--broker", topics.bootstrap]
    with (tmp_path / "run.log").open("wb") as log:
        run = subprocess.Popen([*command, "--master", cluster.url], stdout=log, stderr=subprocess.STDOUT)
    try:
        written = 0
        for killed in (None, 0, 1):
            topics.fill(incoming, written, written + 60)
            written += 60
            if killed is not None:
                cluster.kill_worker(killed)
            end = time.monotonic() + 400
            while len(topics.values(outgoing)) < written:
                assert run.poll() is None and time.monotonic() < end, (tmp_path / "run.log").read_text()[-3000:]
                time.sleep(0.5)
            if killed is not None:
                cluster.start_worker(killed)
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) == 0, (tmp_path / "run.log").read_text()[-3000:]
    finally:
        run.kill()
        run.wait()
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(written))


def test_each_row_is_written_once_though_workers_are_killed_at_random_moments(
    cluster: StandaloneCluster, topics: Topics, database: Database, jar: str, tmp_path: Path
) -> None:
    """To a topic, a database and a Delta table. The moments and the workers are drawn; nothing is judged by them."""
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = Random(seed)
    incoming, outgoing = topics.new(4), topics.new(3)
    table = f"t_{seed}"
    (tmp_path / "pipeline.yml").write_text(
        f"name: {incoming}\n"
        f'jars: ["{jar}"]\n'
        "trigger: 1 second\n"
        f"sources: {{rows: {{topic: {incoming}, format: string, options: {{maxOffsetsPerTrigger: 20}}}}}}\n"
        "flows:\n"
        f"  copies: {{from: rows, topic: {outgoing}, format: string}}\n"
        f'  table: {{from: rows, jdbc: "{database.url}", table: {table}}}\n'
        "  lake: {from: rows, delta: lake}\n"
    )
    arguments = command(topics, "pipeline", "run", str(tmp_path), "--master", cluster.url)
    with (tmp_path / "run.log").open("wb") as log:
        run = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)

    def found() -> list[list[str]]:
        in_table = database.query(f"select value from {table}").split() if is_made() else []
        pipeline = load_pipeline(tmp_path, {})
        try:
            in_lake = [row["value"] for row in table_of(pipeline, "lake")]
        except NoTable:
            in_lake = []
        return [sorted(one) for one in (topics.values(outgoing), in_table, in_lake)]

    def is_made() -> bool:
        return database.query(f"select to_regclass('{table}') is not null") == "t"

    def is_done() -> bool:
        assert run.poll() is None, (tmp_path / "run.log").read_text()[-3000:]
        return all(len(one) >= written for one in found())

    written = 40
    try:
        topics.fill(incoming, 0, written)
        wait_for("the first rows", is_done)
        for _ in range(KILLS):
            topics.fill(incoming, written, written + 40)
            written += 40
            number = chance.randrange(2)
            time.sleep(chance.uniform(0, 8))
            cluster.kill_worker(number)
            time.sleep(chance.uniform(0, 4))
            cluster.start_worker(number)
        wait_for("all rows", is_done)
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) == 0, (tmp_path / "run.log").read_text()[-3000:]
    finally:
        run.kill()
        run.wait()
    assert found() == [sorted(f"row-{number}" for number in range(written))] * 3


def test_spark_connect(topics: Topics, tmp_path: Path) -> None:
    incoming, outgoing = topics.new(2), topics.new(2)
    topics.fill(incoming, 0, 40)
    script = Path(__file__).with_name("connect_client.py")
    command = [sys.executable, str(script), topics.bootstrap, incoming, outgoing, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "read 40" in done.stdout
    assert len(topics.values(outgoing)) == 50


@pytest.mark.skipif(official_jars() is None, reason="Spark's Kafka connector is not available")
def test_sparks_own_connector_in_real_time_mode(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Milliseconds from topic to topic: a Python source cannot do that; this connector can."""
    incoming, outgoing = topics.new(1), topics.new(1)
    reader = spark.readStream.format("kafka").options(**topics.options).option("subscribe", incoming)
    rows = reader.option("startingOffsets", "earliest").load().select("key", "value")
    writer = rows.writeStream.format("kafka").options(**topics.options).option("topic", outgoing).outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds").start()  # type: ignore[call-overload]
    try:
        topics.fill(incoming, 0, 10)
        end = time.monotonic() + 60
        while len(topics.values(outgoing)) < 10:
            assert time.monotonic() < end and query.isActive, query.exception()
            time.sleep(0.2)
    finally:
        query.stop()
    assert topics.values(outgoing) == [f"row-{number}" for number in range(10)]
