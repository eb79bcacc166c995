"""The exactly-once sink, killed between every two steps: each row once for readers of committed records.

The protocol itself is driven here without Spark, against a real broker; a driver that dies is an exception that nothing
catches. With OTTLA_INTEROP_ALL=1 real drivers are killed at each step, and a worker in the middle of its task.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow
import pytest

from ottla.client.config import ProducerConfig
from ottla.client.errors import KafkaError
from ottla.spark import decisions, exactly_once
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.decisions import Decision, TaskTransaction, transactional_id
from ottla.spark.exactly_once import DecidedBatchLost, Sink, SinkCommit
from ottla.spark.row_sender import RowSender
from ottla.spark.transactions import init_transactional_producer, open_transactions
from tests.interop.conftest import ON_KAFKA, new_server
from tests.spark.conftest import Topics

ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"
needs_time = pytest.mark.skipif(not ALL, reason="starts Spark again and again: only with OTTLA_INTEROP_ALL=1")
STEPS = ("before", "owned", "undecided", "decided", "half", "done")


class DriverDied(BaseException):
    """The end of a driver: no handler may stand in its way."""


class Driver:
    """One run of a query that writes batches of two tasks each."""

    def __init__(self, topics: Topics, topic: str, query_id: UUID) -> None:
        self.topic = topic
        self.cluster = BlockingCluster(ProducerConfig.parse({"bootstrap.servers": topics.bootstrap}))
        self.sink = Sink(f"sink-{query_id}", query_id, uuid4().hex[:8])
        self.sink_commit = SinkCommit(self.cluster, self.sink)

    def write(
        self, batch_id: int, task: int, values: list[str], attempt: int = 0, timeout_ms: int | None = None
    ) -> TaskTransaction:
        """What a task does: rows in a transaction that stays open."""
        name = transactional_id(self.sink.sink_id, self.sink.run_id, batch_id, task, attempt)
        identity = init_transactional_producer(self.cluster, name, timeout_ms=timeout_ms, may_wait_for_ever=True)
        sender = RowSender(
            self.cluster,
            ProducerConfig.parse({"bootstrap.servers": "127.0.0.1:1"}),
            topic=self.topic,
            batch_size=0,
            identity=identity,
            transactional_id=name,
        )
        sender.send(pyarrow.record_batch({"key": values, "value": values}))
        sender.finish()
        return TaskTransaction(task, attempt, *identity)

    def write_batch(self, batch_id: int) -> list[TaskTransaction]:
        return [self.write(batch_id, task, rows_of(batch_id, task)) for task in range(2)]

    def commit(self, batch_id: int, transactions: list[TaskTransaction]) -> None:
        self.sink_commit.commit(batch_id, self.topic, transactions)

    def run(self, batch_id: int) -> None:
        self.commit(batch_id, self.write_batch(batch_id))


def rows_of(batch_id: int, task: int) -> list[str]:
    return [f"{batch_id}-{task}-{number}" for number in range(20)]


def rows_until(batch_id: int) -> list[str]:
    return sorted(row for batch in range(batch_id) for task in range(2) for row in rows_of(batch, task))


@pytest.fixture
def new_driver(topics: Topics) -> Iterator[Callable[[], Driver]]:
    """Drivers of one query, one after the other."""
    topic, query_id = topics.new(3), uuid4()
    made: list[Driver] = []

    def new() -> Driver:
        made.append(Driver(topics, topic, query_id))
        return made[-1]

    yield new
    for driver in made:
        driver.cluster.close()


@pytest.fixture
def dies_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Let the driver die at a step of a batch, once."""

    def arm(step: str, batch_id: int) -> None:
        pending = [(step, batch_id)]

        def reached(at: str, batch: int) -> None:
            if pending == [(at, batch)]:
                pending.clear()
                raise DriverDied

        monkeypatch.setattr(exactly_once, "fault_point", reached)
        monkeypatch.setattr(exactly_once, "is_armed", lambda: True)

    return arm


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_at_any_step_leaves_each_row_once(
    step: str, topics: Topics, new_driver: Callable[[], Driver], dies_at: Callable[[str, int], None]
) -> None:
    first = new_driver()
    first.run(0)
    dies_at(step, 1)
    with pytest.raises(DriverDied):
        first.run(1)
    second = new_driver()
    second.run(1)  # Spark runs again what it has not seen committed
    second.run(2)
    assert sorted(topics.values(second.topic)) == rows_until(3)
    assert open_transactions(second.cluster, second.sink.sink_id) == []


def test_two_deaths_in_a_row(
    topics: Topics, new_driver: Callable[[], Driver], dies_at: Callable[[str, int], None]
) -> None:
    for step in ("undecided", "decided", "half"):
        dies_at(step, 0)
        with pytest.raises(DriverDied):
            new_driver().run(0)
    last = new_driver()
    last.run(0)
    last.run(1)
    assert sorted(topics.values(last.topic)) == rows_until(2)


def test_a_driver_that_was_thought_dead_cannot_decide(topics: Topics, new_driver: Callable[[], Driver]) -> None:
    zombie, driver = new_driver(), new_driver()
    late = zombie.write_batch(0)
    owner = zombie.sink_commit._own()
    driver.run(0)
    with pytest.raises(KafkaError):
        zombie.sink_commit._decide(
            owner, Decision(zombie.sink.query_id, zombie.sink.run_id, 0, tuple(late)), driver.topic
        )
    zombie.commit(0, late)  # from the beginning: it finds that the batch was decided by another
    driver.run(1)
    assert sorted(topics.values(driver.topic)) == rows_until(2)


def test_a_task_that_was_run_again_counts_once(topics: Topics, new_driver: Callable[[], Driver]) -> None:
    driver = new_driver()
    driver.run(0)
    driver.write(1, 0, rows_of(1, 0))  # its executor died with the transaction open
    driver.commit(1, [driver.write(1, 0, rows_of(1, 0), attempt=1), driver.write(1, 1, rows_of(1, 1))])
    assert sorted(topics.values(driver.topic)) == rows_until(2)
    assert open_transactions(driver.cluster, driver.sink.sink_id) == []


def test_a_batch_that_is_given_up_is_aborted_unless_it_was_decided(
    topics: Topics, new_driver: Callable[[], Driver], dies_at: Callable[[str, int], None]
) -> None:
    driver = new_driver()
    driver.sink_commit.abort(0, driver.write_batch(0))
    assert topics.values(driver.topic) == []
    dies_at("decided", 0)
    written = driver.write_batch(0)
    with pytest.raises(DriverDied):
        driver.commit(0, written)
    driver.sink_commit.abort(0, written)  # Spark calls it when commit fails
    assert sorted(topics.values(driver.topic)) == rows_until(1)


def test_a_list_that_is_too_long_for_one_note_goes_on_in_other_groups(
    topics: Topics,
    new_driver: Callable[[], Driver],
    dies_at: Callable[[str, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decisions, "PACKED_SIZE", 8)
    driver = new_driver()
    dies_at("decided", 0)
    with pytest.raises(DriverDied):
        driver.run(0)
    last = new_driver()
    last.run(0)
    assert sorted(topics.values(last.topic)) == rows_until(1)


def test_another_query_under_the_same_name_begins_anew(topics: Topics, new_driver: Callable[[], Driver]) -> None:
    """Its batches count from 0 again; the last batch of the other query must not stand in their way."""
    old = new_driver()
    for batch_id in range(3):
        old.run(batch_id)
    new = Driver(topics, old.topic, uuid4())
    new.sink = Sink(old.sink.sink_id, new.sink.query_id, new.sink.run_id)
    new.sink_commit = SinkCommit(new.cluster, new.sink)
    new.run(0)
    new.cluster.close()
    assert len(topics.values(old.topic)) == len(rows_until(3)) + len(rows_until(1))


@pytest.mark.skipif(ON_KAFKA, reason="Kafka holds two-phase commit back as unstable")
@pytest.mark.parametrize("is_two_phase", [True, False])
def test_a_decided_batch_waits_for_a_driver_that_stays_away(
    is_two_phase: bool, tmp_path: Path, dies_at: Callable[[str, int], None]
) -> None:
    """Dead for longer than the transactional timeout: with two-phase commit no record is lost, without it the loss
    is reported."""
    overrides = ["transaction.abort.timed.out.transaction.cleanup.interval.ms=50"]
    if is_two_phase:
        overrides.append("transaction.two.phase.commit.enable=true")
    server = new_server(tmp_path / "data", overrides)
    server.start()
    try:
        topics = Topics(server.bootstrap)
        query_id = uuid4()
        driver = Driver(topics, topics.new(1), query_id)
        timeout_ms = 300 if is_two_phase else 5_000  # then it counts from the first row: all of them must come in time
        written = [driver.write(0, task, rows_of(0, task), timeout_ms=timeout_ms) for task in range(2)]
        dies_at("decided", 0)
        with pytest.raises(DriverDied):
            driver.commit(0, written)
        _until(lambda: is_two_phase or not open_transactions(driver.cluster, driver.sink.sink_id))
        later = Driver(topics, driver.topic, query_id)
        if is_two_phase:
            later.run(0)
            assert sorted(topics.values(driver.topic)) == rows_until(1)
        else:
            with pytest.raises(DecidedBatchLost, match=r"transaction\.timeout\.ms"):
                later.run(0)
        driver.cluster.close()
        later.cluster.close()
    finally:
        server.stop()


def _until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    time.sleep(0.5)
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


# Real drivers


def run_driver(topics: Topics, incoming: str, outgoing: str, folder: Path, fault: str, master: str = "local[2]") -> int:
    folder.mkdir(exist_ok=True)
    script = Path(__file__).with_name("killed_driver.py")
    command = [sys.executable, str(script), master, topics.bootstrap, incoming, outgoing, str(folder)]
    done = subprocess.run(
        command,
        env={**os.environ, "OTTLA_SPARK_FAULT": f"{fault}:{folder}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if fault != "never:0":
        assert (folder / "killed").exists(), f"{fault} was not reached\n{done.stdout}{done.stderr[-3000:]}"
    return done.returncode


@needs_time
def test_drivers_that_are_killed_leave_each_row_once(topics: Topics, tmp_path: Path) -> None:
    """The same query, killed at one step after the other, batch after batch, and then left alone."""
    incoming, outgoing = topics.new(2), topics.new(3)
    steps = ("task", *STEPS)
    topics.fill(incoming, 0, 50 * (len(steps) + 2))
    for batch_id, step in enumerate(steps, 1):
        assert run_driver(topics, incoming, outgoing, tmp_path / step, f"{step}:{batch_id}") != 0
    assert run_driver(topics, incoming, outgoing, tmp_path / "last", "never:0") == 0
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(50 * (len(steps) + 2)))


@needs_time
def test_a_worker_that_is_killed_leaves_each_row_once(topics: Topics, tmp_path: Path) -> None:
    incoming, outgoing = topics.new(2), topics.new(3)
    topics.fill(incoming, 0, 100)
    folder = tmp_path / "worker"
    folder.mkdir()
    (folder / "pid").write_text("self")
    assert run_driver(topics, incoming, outgoing, folder, "task:1", "local[2,4]") == 0
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(100))
