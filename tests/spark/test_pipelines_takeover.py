"""A machine that runs a pipeline does not answer, and another one takes over: the first run, paused in the middle of a
batch, goes on when the second one has done that batch, or waits for it. Each row is in the target once, and the first
run ends. It takes long and runs with OTTLA_INTEROP_ALL=1; see test_pipelines_processes.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.spark.pipelines.pipeline_file import load_pipeline
from tests.interop.servers import REPOSITORY
from tests.spark.conftest import Topics
from tests.spark.test_pipelines_changes import table_of
from tests.spark.test_pipelines_processes import (
    Database,
    command,
    database,
    jar,
    numbers_pipeline,
    run,
    wait_for,
)

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Spark in processes of their own: only with `make interop`"
)
__all__ = ["database", "jar"]


class Paused:
    """A run whose processes all stop when one of them reaches a step of the second batch."""

    def __init__(self, topics: Topics, folder: Path, step: str) -> None:
        self._faults = folder / "faults"
        self._faults.mkdir()
        (self._faults / "pid").write_text("pause")
        self._log = folder / "paused.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command(topics, "pipeline", "run", str(folder)),
                cwd=REPOSITORY,
                env={**os.environ, "OTTLA_SPARK_FAULT": f"{step}:1:{self._faults}"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, until: Callable[[], object]) -> None:
        def is_so() -> bool:
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            return bool(until())

        wait_for("the step is reached", is_so)
        self._signal(signal.SIGSTOP)

    def wait_for_step(self) -> None:
        self.wait(lambda: "T" in self._states().values())

    def _states(self) -> dict[int, str]:
        """The processes of its session."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                    if int(session) == self._process.pid:
                        found[int(folder.name)] = state
        return found

    def _signal(self, number: int) -> None:
        for pid in self._states():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def go_on(self) -> str:
        """Let it go on, to its end: what it says."""
        self._signal(signal.SIGCONT)
        assert self._process.wait(300) == 3, self._log.read_text()[-3000:]
        return self._log.read_text()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def paused(topics: Topics, tmp_path: Path) -> Iterator[Callable[[str], Paused]]:
    made: list[Paused] = []

    def start(step: str) -> Paused:
        made.append(Paused(topics, tmp_path, step))
        return made[0]

    yield start
    for one in made:
        one.kill()


def take_over(folder: Path) -> None:
    """The lock of a machine that does not answer is given to others."""
    (folder / ".state" / "lock").unlink()


def check_takeover(topics: Topics, folder: Path, first: Paused) -> None:
    """The next run does everything; then the first one goes on, and ends."""
    take_over(folder)
    run(topics, "pipeline", "run", str(folder), "--once")
    status = (folder / ".state" / "status.json").read_text()
    assert "another run of the pipeline has begun" in first.go_on()
    assert (folder / ".state" / "status.json").read_text() == status
    run(topics, "pipeline", "run", str(folder), "--once")


@pytest.mark.parametrize("step", ["task", "owned", "undecided", "decided", "half"])
def test_a_topic(topics: Topics, tmp_path: Path, paused: Callable[[str], Paused], step: str) -> None:
    target = topics.new(2)
    numbers_pipeline(topics, tmp_path, f"topic: {target}")
    first = paused(step)
    first.wait_for_step()
    check_takeover(topics, tmp_path, first)
    assert sorted(json.loads(value)["n"] for value in topics.values(target)) == [*range(12)]


@pytest.mark.parametrize(
    ("flow", "step"),
    [
        ("delta: numbers", "table-undecided"),
        ("iceberg: shop.numbers", "table-undecided"),
        ("delta: numbers, keys: [n]", "merge-task"),
        ("delta: numbers, keys: [n]", "merge-undecided"),
        ("iceberg: shop.numbers, keys: [n]", "merge-undecided"),
    ],
)
def test_a_table(topics: Topics, tmp_path: Path, paused: Callable[[str], Paused], flow: str, step: str) -> None:
    numbers_pipeline(topics, tmp_path, flow)
    first = paused(step)
    first.wait_for_step()
    check_takeover(topics, tmp_path, first)
    found = [row["n"] for row in table_of(load_pipeline(tmp_path, {}), "numbers")]
    assert sorted(found) == [*range(12)]


def test_files(topics: Topics, tmp_path: Path, paused: Callable[[str], Paused]) -> None:
    """Wherever in its second batch it is. Spark reads the files that its log names."""
    numbers_pipeline(topics, tmp_path, "files: numbers, format: json")
    first = paused("none")
    first.wait((tmp_path / ".state" / "checkpoints" / "numbers" / "offsets" / "1").exists)
    check_takeover(topics, tmp_path, first)
    logged = [
        json.loads(line)["path"].removeprefix("file://")
        for file in (tmp_path / "numbers" / "_spark_metadata").glob("[0-9]*")
        for line in file.read_text().splitlines()[1:]
    ]
    rows = [json.loads(line)["n"] for path in logged for line in Path(path).read_text().splitlines()]
    assert sorted(rows) == [*range(12)]


@pytest.mark.parametrize("flow", ["guarantee: exactly_once", "keys: [n]"])
def test_a_database(
    topics: Topics, database: Database, jar: str, tmp_path: Path, paused: Callable[[str], Paused], flow: str
) -> None:
    table = "t_" + topics.new(1).replace("-", "_")
    numbers_pipeline(topics, tmp_path, f'jdbc: "{database.url}", table: {table}, {flow}', f'jars: ["{jar}"]\n')
    first = paused("jdbc-staged")
    first.wait_for_step()
    check_takeover(topics, tmp_path, first)
    assert database.query(f"select string_agg(n::text, ',' order by n) from {table}") == ",".join(map(str, range(12)))


def test_a_database_whose_transaction_is_open(
    topics: Topics, database: Database, jar: str, tmp_path: Path, paused: Callable[[str], Paused]
) -> None:
    """The next run waits for the locks of the first one, which commits its batch when it goes on."""
    table = "t_" + topics.new(1).replace("-", "_")
    numbers_pipeline(topics, tmp_path, f'jdbc: "{database.url}", table: {table}', f'jars: ["{jar}"]\n')
    first = paused("jdbc-undecided")
    first.wait_for_step()
    take_over(tmp_path)
    with (tmp_path / "next.log").open("w") as log:
        arguments = command(topics, "pipeline", "run", str(tmp_path), "--once")
        following = subprocess.Popen(arguments, cwd=REPOSITORY, stdout=log, stderr=log)
    try:
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like 'update ottla%'"
        wait_for("the next run waits", lambda: database.query(waiting) == "1")
        assert "another run of the pipeline has begun" in first.go_on()
        assert following.wait(300) == 0, (tmp_path / "next.log").read_text()[-3000:]
    finally:
        following.kill()
        following.wait()
    assert database.query(f"select string_agg(n::text, ',' order by n) from {table}") == ",".join(map(str, range(12)))
