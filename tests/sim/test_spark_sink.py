"""Spark's exactly-once sink, unchanged, against simulated nodes: scenarios that seeds found, and what the workload
checks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest

from ottla.net import Socket
from ottla.sim import group_workload, transaction_workload
from ottla.sim.checkers import Violation
from ottla.sim.cluster import Sim
from ottla.sim.in_place import InPlace
from ottla.sim.programs import Program
from ottla.sim.replicas import Cluster
from ottla.sim.spark_sink import SparkSink, arrow_rows, values_of
from ottla.spark.blocking_cluster import Clusters
from ottla.spark.decisions import Decision, TaskTransaction
from ottla.spark.exactly_once import Sink, SinkCommit
from ottla.spark.offsets import OffsetRange
from ottla.spark.options import parse_read_options, parse_write_options
from ottla.spark.partition_reader import PartitionReader, ReadTask
from ottla.spark.task_writer import Task, write_task
from ottla.spark.transactions import open_transactions

PROPERTIES = {**group_workload.PROPERTIES, **transaction_workload.PROPERTIES}
SERVERS = {"kafka.bootstrap.servers": "node-1:9092"}
OPTIONS = parse_write_options({**SERVERS, "topic": "t", "kafka.request.timeout.ms": "2000"})
QUERY, OTHER_QUERY = UUID(int=1), UUID(int=2)


class Stage:
    """A node, and a program that runs blocking code of one or more drivers, step by step."""

    def __init__(self) -> None:
        self.sim = Sim(5, properties=PROPERTIES)
        self.sim.node()
        self.sim.create_topic("t")

    def play(self, work: Callable[[Clusters], None]) -> None:
        async def life(program: Program) -> None:
            in_place = InPlace(program)
            await in_place.call(lambda: work(Clusters(in_place)))

        program = Program(self.sim, "spark", ["node-1"], life)
        program.start()
        self.sim.run(program.ended())
        self.sim.finish()


class Driver:
    """One run of a query."""

    def __init__(self, clusters: Clusters, run_id: str, query_id: UUID = QUERY) -> None:
        self.sink = Sink("sink", query_id, run_id)
        self.clusters = clusters
        self.cluster = clusters.new(OPTIONS.config)
        self.commits = SinkCommit(self.cluster, self.sink)

    def write(self, batch_id: int, *rows: str, attempt: int = 0) -> TaskTransaction:
        name = self.sink.name_of(batch_id, TaskTransaction(0, attempt, 0, 0))
        batches = [arrow_rows([row.encode() for row in rows])]
        written = write_task(self.clusters, OPTIONS, batches, Task(0, attempt, name))
        assert written.transaction is not None
        return written.transaction

    def commit(self, batch_id: int, *transactions: TaskTransaction) -> None:
        self.commits.commit(batch_id, "t", transactions)


def committed(clusters: Clusters) -> list[bytes]:
    options = parse_read_options(
        {**SERVERS, "subscribe": "t", "kafka.isolation.level": "read_committed"}, is_streaming=False
    )
    cluster = clusters.shared(options.config)
    (partition,) = cluster.partitions(options.topics)
    end = cluster.ends([partition], "read_committed")[partition]
    wanted = OffsetRange(*partition, 0, end, cluster.topic_id("t"))
    task = ReadTask(options.config, ("value",), options.fetch_bytes, options.max_rows, 10_000, True, "q")
    return [value for batch in PartitionReader(task, wanted, clusters).batches() for value in values_of(batch)]


def test_a_query_goes_on_after_a_batch_without_rows_and_a_driver_that_died() -> None:
    """Seed 213: a batch without rows is not decided, so the batch after it has the task ids of the last decision. The
    next run took them for a decided batch that the broker had aborted, and no later run could go on."""

    def work(clusters: Clusters) -> None:
        first = Driver(clusters, "00000001")
        first.commit(0, first.write(0, "a"))
        # Batch 1 has no rows. Batch 2 is written, and the driver dies before it commits.
        first.write(2, "b")
        second = Driver(clusters, "00000002")
        second.commit(2, second.write(2, "b"))
        assert committed(clusters) == [b"a", b"b"]
        assert open_transactions(second.cluster, "sink-") == []

    Stage().play(work)


def test_another_query_may_have_the_name_of_a_sink_whose_driver_died_after_a_batch_without_rows() -> None:
    def work(clusters: Clusters) -> None:
        first = Driver(clusters, "00000001")
        first.commit(0, first.write(0, "a"))
        first.write(2, "b")
        other = Driver(clusters, "00000002", OTHER_QUERY)
        other.commit(0, other.write(0, "c"))
        assert committed(clusters) == [b"a", b"c"]

    Stage().play(work)


def test_a_driver_that_gives_up_does_not_abort_what_its_successor_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 106: two drivers ran the same query. The one that was fenced swept every open transaction of the sink, also
    those that the other one had decided to commit a moment ago."""

    def work(clusters: Clusters) -> None:
        slow, fast = Driver(clusters, "00000001"), Driver(clusters, "00000002")
        of_slow, of_fast = slow.write(0, "a"), fast.write(0, "a")

        def abort_meanwhile() -> None:
            monkeypatch.undo()
            slow.commits._abort(0, [of_slow])  # the end of slow.commits.abort: it owned the sink, looked and lost it
            slow.commits._sweep_own(0, ())

        roll = SinkCommit._roll_forward

        def roll_late(commits: SinkCommit, decision: Decision) -> None:
            abort_meanwhile()
            roll(commits, decision)

        monkeypatch.setattr(SinkCommit, "_roll_forward", roll_late)
        fast.commit(0, of_fast)
        assert committed(clusters) == [b"a"]

    Stage().play(work)


def test_a_driver_sweeps_what_other_runs_left_open_but_not_what_they_began_since() -> None:
    def work(clusters: Clusters) -> None:
        dead, driver = Driver(clusters, "00000001"), Driver(clusters, "00000002")
        dead.write(0, "left", attempt=0)
        mine = driver.write(0, "a")
        listed = driver.commits._of_other_runs()
        assert [name for name, _ in listed] == ["sink-00000001-0-0-0"]
        dead.write(2, "begun since", attempt=0)
        driver.commits._end_for_good(listed)
        assert open_transactions(driver.cluster, "sink-0") == ["sink-00000001-0-0-0", "sink-00000002-0-0-0"]
        driver.commit(0, mine)
        assert open_transactions(driver.cluster, "sink-") == []
        assert committed(clusters) == [b"a"]

    Stage().play(work)


# Blocking code on the virtual clock


def test_blocking_code_waits_on_the_virtual_clock_and_is_killed_where_it_waits() -> None:
    sim = Sim(3)
    seen: list[str] = []

    async def life(program: Program) -> None:
        in_place = InPlace(program)

        def work() -> None:
            began = in_place.now()
            in_place.sleep(2.5)
            seen.append(f"{in_place.now() - began:.1f}")
            try:
                in_place.sleep(3_600)
            finally:
                seen.append("ended")
                in_place.sleep(1)  # a dead process waits for nothing
                seen.append("never")

        await in_place.call(work)

    program = Program(sim, "app", [], life)
    program.start()
    sim.sleep(10)
    program.kill()
    sim.sleep(1)
    assert seen == ["2.5", "ended"]
    sim.finish()


def test_a_wait_for_a_socket_that_stays_silent_is_a_timeout() -> None:
    sim = Sim(3)
    sim.node()

    async def life(program: Program) -> None:
        in_place = InPlace(program)

        def work() -> None:
            sock: Socket = in_place.sockets.connect("node-1", 9092)
            in_place.wait_writable(sock, 5)
            began = in_place.now()
            with pytest.raises(TimeoutError):
                in_place.wait_readable(sock, 5)
            assert in_place.now() - began == pytest.approx(5, abs=0.1)
            sock.close()

        await in_place.call(work)

    program = Program(sim, "app", ["node-1"], life)
    program.start()
    sim.run(program.ended())
    sim.finish()


# What the workload checks


def sink_world(seed: int = 1) -> tuple[Cluster, SparkSink]:
    """A sink in peace: no driver and no executor dies."""
    sim = Cluster(seed, properties=group_workload.PROPERTIES | {"offsets.topic.replication.factor": "3"})
    sink = SparkSink(sim, random.Random(seed))
    sink.is_rough = False
    return sim, sink


async def lived(sim: Cluster, sink: SparkSink, before_the_audit: Callable[[], Any] = lambda: None) -> None:
    await sink.set_up()
    await asyncio.sleep(3)
    await sink.settle()
    await sim.settled()
    before_the_audit()
    await sink.verify()


def test_a_sink_keeps_its_promise_in_peace() -> None:
    sim, sink = sink_world()
    sim.run(lived(sim, sink))
    assert sink.checkpoint.done_count > 3
    sim.finish()


@pytest.mark.parametrize(("checker", "change"), [("lost", "one row more"), ("once", "one row less")])
def test_a_row_that_is_missing_or_too_many_is_found(checker: str, change: str) -> None:
    sim, sink = sink_world()

    def falsify() -> None:
        task = next(rows for batch in sink.checkpoint.batches for rows in batch if rows)
        if change == "one row more":
            task.append(b"never written")
        else:
            task.pop()

    with pytest.raises(Violation, match=checker):
        sim.run(lived(sim, sink, falsify))
    sim.abandon()


def test_committed_rows_that_change_their_place_are_found() -> None:
    def rows(*values: str) -> Iterable[bytes]:
        return [value.encode() for value in values]

    sim, sink = sink_world()
    sink.compare(0, list(rows("a", "b")))
    sink.compare(0, list(rows("a")))  # a reader that knows less of the end
    sink.compare(0, list(rows("a", "b", "c")))
    with pytest.raises(Violation, match="committed"):
        sink.compare(0, list(rows("a", "c")))
    sim.abandon()
