"""Spark's exactly-once sink in a cluster that breaks: every row of every batch is there once.

What a sink says to brokers is the connector's own code, unchanged: a task's write (`spark.task_writer`, with
`RowSender`), the driver's commit (`spark.exactly_once`) and, to look at the result, a source's read
(`spark.partition_reader`). What Spark itself does around it is played here:

    driver      plans a batch (its rows are written to the checkpoint, so they are the same whenever the batch is run
                again), gives its tasks to executors, commits, and notes in the checkpoint that the batch is done. A
                query that fails is started again as another run, from the checkpoint
    executors   run tasks. What an executor was doing when it died is done again by another attempt, and so is a task
                that takes too long: its first attempt may yet write
    scanner     a query that reads what is committed while all this happens

Drivers and executors are killed, freeze and come back; in some worlds two drivers run the same query.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.client import Admin, KafkaError
from ottla.client.errors import is_retriable
from ottla.sim.checkers import check
from ottla.sim.in_place import InPlace
from ottla.sim.own_clients import Applications
from ottla.sim.programs import Program
from ottla.sim.replicas import RETRY_S, Cluster
from ottla.spark.blocking_cluster import Clusters
from ottla.spark.decisions import TaskTransaction, run_id_of, transactional_id
from ottla.spark.exactly_once import DecidedBatchLost, Sink, SinkCommit
from ottla.spark.offsets import OffsetRange
from ottla.spark.options import WriteOptions, parse_read_options, parse_write_options
from ottla.spark.partition_reader import PartitionReader, ReadTask
from ottla.spark.task_writer import Rows, Task, write_task
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    import pyarrow

TOPIC = "sunk"
SINK = "sink"
PARTITION_COUNT = 3
MAX_TASK_FAILURES = 4
"""spark.task.maxFailures."""
PATIENCE_S = 8.0
"""After which the driver has another executor do what takes so long."""
LOOK_S = 0.02
MAX_BATCH_COUNT = 30
"""So many batches are written while things go wrong."""
FENCED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTION_ABORTABLE,
)
"""Errors that a task or a driver may get after another one took over its transactional id: a sweep, or a task that was
thought to be dead."""


@dataclass(slots=True)
class Checkpoint:
    """Spark's own disk: the content of each batch, and how many batches are done."""

    batches: list[list[list[bytes]]] = field(default_factory=list)
    """By batch and task: the rows."""
    done_count: int = 0


class Job:
    """An attempt at a task, on its way to an executor and back."""

    def __init__(self, sink: Sink, batch_id: int, number: int, attempt: int, rows: list[bytes]) -> None:
        name = transactional_id(sink.sink_id, sink.run_id, batch_id, number, attempt)
        self.task = Task(number, attempt, name)
        self.rows = rows
        self.incarnation = 0
        """Of the executor that has it."""
        self.written: Rows | None = None
        self.error: KafkaError | None = None


class TaskFailed(Exception):
    """A task failed too often: the query ends."""


class SparkSink(Applications):
    """One query that writes, as two drivers may run it, and its executors."""

    _sim: Cluster
    name = "spark-sink"

    def __init__(self, sim: Cluster, rng: random.Random) -> None:
        super().__init__(sim, rng)
        self._query_id = UUID(int=rng.getrandbits(128))
        self._given = {
            "kafka.bootstrap.servers": ",".join(f"{name}:9092" for name in sim.names),
            "kafka.request.timeout.ms": str(rng.choice((1_500, 5_000, 30_000))),
            "kafka.max.block.ms": str(rng.choice((5_000, 20_000))),
            "kafka.delivery.timeout.ms": str(rng.choice((31_000, 60_000))),
            "kafka.retry.backoff.ms": str(rng.choice((10, 100))),
        }
        self._options: WriteOptions = parse_write_options(
            {**self._given, "topic": TOPIC, "kafka.batch.size": str(rng.choice((200, 2_000)))}
        )
        self._task_count = rng.choice((1, 2, 4))
        self.checkpoint = Checkpoint()
        self._jobs: dict[str, list[Job]] = {}
        """By executor: its tasks, oldest first."""
        self._run_count = 0
        self._awaited_count = 0
        self.scanned: list[list[bytes]] = [[] for _ in range(PARTITION_COUNT)]
        """By partition: what a reader of committed records has found so far."""
        self._drivers = [
            Program(sim, f"driver-{number}", sim.names, self._drive) for number in range(1 + (rng.random() < 0.3))
        ]
        self._executors = [
            Program(sim, f"executor-{number}", sim.names, self._execute) for number in range(rng.choice((1, 2, 3)))
        ]
        self._scanner = Program(sim, "scanner", sim.names, self._scan)
        self.programs = [*self._drivers, *self._executors, self._scanner]

    async def set_up(self) -> None:
        program = Program(self._sim, "sink-admin", self._sim.names, self._create)
        program.start()
        await program.ended()
        await super().set_up()

    async def _create(self, program: Program) -> None:
        async with program.using(Admin(**program.surroundings())) as admin:
            await admin.create_topic(
                TOPIC, partition_count=PARTITION_COUNT, replication_factor=self._sim.replication_factor
            )

    # The driver

    async def _drive(self, program: Program) -> None:
        """Runs of the query, one after the other: a failed run is started again."""
        in_place = InPlace(program)
        rng = random.Random(f"{program.name} {program.incarnation} life {self._sim.seed}")
        checkpoint = self.checkpoint
        while not program.is_asked_to_end or checkpoint.done_count < len(checkpoint.batches):
            self._run_count += 1
            sink = Sink(SINK, self._query_id, run_id_of(str(UUID(int=self._run_count << 96))))
            clusters = Clusters(in_place)
            try:
                await self._run(program, sink, SparkDriver(in_place, clusters, self._options, sink), rng)
            except (KafkaError, TaskFailed, DecidedBatchLost) as error:
                self._sim.loop.trace.note(program.name, f"run {sink.run_id} failed: {error}")
                if isinstance(error, KafkaError):
                    check(may_fail(error), "driver", f"{program.name}: {error!r}")
                # A driver that was overtaken by another cannot tell what the other one rolled and used again from what
                # is lost. Whether something is lost, the audit finds out.
                check(len(self._drivers) > 1 or not isinstance(error, DecidedBatchLost), "decided", str(error))
                await asyncio.sleep(RETRY_S)
            finally:
                clusters.drop(self._options.config)

    async def _run(self, program: Program, sink: Sink, driver: SparkDriver, rng: random.Random) -> None:
        checkpoint = self.checkpoint
        while not program.is_asked_to_end or checkpoint.done_count < len(checkpoint.batches):
            batch_id = checkpoint.done_count
            if batch_id == len(checkpoint.batches):
                if batch_id >= MAX_BATCH_COUNT and batch_id >= self._awaited_count:
                    await asyncio.sleep(RETRY_S)
                    continue
                checkpoint.batches.append(self._plan(batch_id, rng))
            tasks = [
                self._sim.loop.create_task(self._until_written(sink, batch_id, number, rows, rng))
                for number, rows in enumerate(checkpoint.batches[batch_id])
            ]
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            written = [one for one in answers if isinstance(one, Rows)]
            transactions = [one.transaction for one in written if one.transaction is not None]
            failures = [one for one in answers if isinstance(one, BaseException)]
            try:
                for failure in failures:
                    raise failure
                if transactions:
                    await driver.commit(batch_id, transactions)
            except (KafkaError, TaskFailed):
                if transactions:
                    await driver.abort(batch_id, transactions)
                raise
            self._sim.loop.trace.note(program.name, f"batch {batch_id} is done")
            checkpoint.done_count = max(checkpoint.done_count, batch_id + 1)
            await asyncio.sleep(rng.choice((0.0, 0.05, 0.5)))

    def _plan(self, batch_id: int, rng: random.Random) -> list[list[bytes]]:
        return [
            [f"{batch_id}.{number}.{row}".encode() for row in range(rng.choice((0, 1, 5, 40)))]
            for number in range(self._task_count)
        ]

    async def _until_written(
        self, sink: Sink, batch_id: int, number: int, rows: list[bytes], rng: random.Random
    ) -> Rows:
        """One task, as many attempts as it takes; TaskFailed after too many failures."""
        failure_count = 0
        for attempt in range(100):
            executor = rng.choice(self._executors)
            while not executor.is_running:
                await asyncio.sleep(LOOK_S)
                executor = rng.choice(self._executors)
            job = Job(sink, batch_id, number, attempt, rows)
            job.incarnation = executor.incarnation
            self._jobs.setdefault(executor.name, []).append(job)
            given_up_at = self._sim.loop.time() + PATIENCE_S
            while job.written is None and job.error is None:
                is_lost = executor.incarnation != job.incarnation or not executor.is_running
                if is_lost or self._sim.loop.time() > given_up_at:
                    break
                await asyncio.sleep(LOOK_S)
            if job.written is not None:
                return job.written
            if job.error is not None:
                failure_count += 1
                if failure_count == MAX_TASK_FAILURES:
                    raise TaskFailed(f"task {number} of batch {batch_id}: {job.error}")
        raise TaskFailed(f"task {number} of batch {batch_id} has no executor")

    # Executors

    async def _execute(self, program: Program) -> None:
        in_place = InPlace(program)
        clusters = Clusters(in_place)  # kept from task to task, as Spark keeps its workers
        jobs = self._jobs[program.name] = []
        while jobs or not program.is_asked_to_end:
            if not jobs:
                await asyncio.sleep(LOOK_S)
                continue
            job = jobs[0]
            rows = [arrow_rows(job.rows)] if job.rows else []
            try:
                job.written = await in_place.call(
                    lambda rows=rows, task=job.task: write_task(  # type: ignore[misc]
                        clusters, self._options, rows, task, may_wait_for_ever=True
                    )
                )
            except KafkaError as error:
                check(may_fail(error), "task", f"{program.name}: {job.task}: {error!r}")
                job.error = error
            jobs.pop(0)

    # The scanner

    async def _scan(self, program: Program) -> None:
        in_place = InPlace(program)
        clusters = Clusters(in_place)
        while not program.is_asked_to_end:
            try:
                await in_place.call(lambda: self._look(clusters))
            except (KafkaError, TimeoutError) as error:
                if isinstance(error, KafkaError):
                    check(is_retriable(error), "scanner", repr(error))
            await asyncio.sleep(1.0)

    def _look(self, clusters: Clusters) -> dict[str, list[int]]:
        """Read all partitions up to where they are committed; their ends by isolation level."""
        options = parse_read_options(
            {**self._given, "subscribe": TOPIC, "kafka.isolation.level": "read_committed"}, is_streaming=False
        )
        task = ReadTask(
            options.config, ("value",), options.fetch_bytes, options.max_rows, 20_000, True, "the query of the scanner"
        )
        cluster = clusters.shared(options.config)
        try:
            partitions = cluster.partitions(options.topics)
            ends = cluster.ends(partitions, "read_committed")
            for one in partitions:
                wanted = OffsetRange(*one, 0, ends[one], cluster.topic_id(TOPIC))
                found = [
                    value for batch in PartitionReader(task, wanted, clusters).batches() for value in values_of(batch)
                ]
                self.compare(one.partition, found)
            last = cluster.ends(partitions, "read_uncommitted")
        finally:
            clusters.drop(options.config)
        return {"committed": [ends[one] for one in partitions], "all": [last[one] for one in partitions]}

    def compare(self, partition: int, found: list[bytes]) -> None:
        """A committed row stays at its place."""
        before = self.scanned[partition]
        is_kept = found[: len(before)] == before
        where = f"{TOPIC}-{partition}"
        check(is_kept or before[: len(found)] == found, "committed", f"{where} changed: {before} became {found}")
        if len(found) > len(before):
            self.scanned[partition] = found

    # The end

    def _missing(self) -> str:
        done_count = self.checkpoint.done_count
        return "" if done_count >= self._awaited_count else f"{done_count} of {self._awaited_count} batches are done"

    async def settle(self) -> None:
        """The last run begins when no task of an earlier one is left: it sweeps what those left open."""
        for driver in self._drivers:
            if driver.is_running:
                driver.kill()
        self._scanner.kill()
        self.programs = self._executors
        self._start_all()
        for executor in self._executors:
            while self._jobs.get(executor.name):
                self._check()
                await asyncio.sleep(LOOK_S)
        self.programs = [self._drivers[0], *self._executors]
        self._awaited_count = max(self.checkpoint.done_count, len(self.checkpoint.batches)) + 3
        await self._until_done("batches are committed again")
        await self._drivers[0].ended()
        await self._end_all()

    async def verify(self) -> None:
        program = Program(self._sim, "sink-auditor", self._sim.names, self._audit)
        program.start()
        await program.ended()

    async def _audit(self, program: Program) -> None:
        in_place = InPlace(program)
        clusters = Clusters(in_place)
        ends: dict[str, list[int]] = {}
        for _ in range(200):
            ends = await in_place.call(lambda: self._look(clusters))
            if ends["committed"] == ends["all"]:
                break
            await asyncio.sleep(RETRY_S)  # markers are still being written
        check(ends["committed"] == ends["all"], "open", f"a transaction was left open: {ends}")
        expected = sorted(row for batch in self.checkpoint.batches for task in batch for row in task)
        found = sorted(row for partition in self.scanned for row in partition)
        missing, extra = [*expected], []
        for row in found:
            if row in missing:
                missing.remove(row)
            else:
                extra.append(row)
        check(not missing, "lost", f"rows of committed batches are not there: {missing[:5]} ({len(missing)})")
        check(not extra, "once", f"rows are there twice, or of no batch: {extra[:5]} ({len(extra)})")


class SparkDriver:
    """The driver's calls of a sink, as `StreamWriter` makes them."""

    def __init__(self, in_place: InPlace, clusters: Clusters, options: WriteOptions, sink: Sink) -> None:
        self._in_place = in_place
        self._clusters = clusters
        self._options = options
        self._sink = sink

    async def commit(self, batch_id: int, transactions: list[TaskTransaction]) -> None:
        await self._in_place.call(lambda: self._sink_commit().commit(batch_id, TOPIC, transactions))

    async def abort(self, batch_id: int, transactions: list[TaskTransaction]) -> None:
        """Best effort: Spark has an error to show already."""
        self._clusters.drop(self._options.config)
        try:
            await self._in_place.call(lambda: self._sink_commit().abort(batch_id, transactions))
        except KafkaError as error:
            check(may_fail(error), "abort", repr(error))

    def _sink_commit(self) -> SinkCommit:
        return SinkCommit(self._clusters.shared(self._options.config), self._sink)


def may_fail(error: KafkaError) -> bool:
    """Whether a task or a commit may end like this while brokers, drivers and executors come and go."""
    return is_retriable(error) or error.code in FENCED


def arrow_rows(rows: list[bytes]) -> pyarrow.RecordBatch:
    import pyarrow

    values = pyarrow.array([row.ljust(60, b".") for row in rows], pyarrow.binary())
    return pyarrow.record_batch({"value": values, "key": pyarrow.array(rows, pyarrow.binary())})


def values_of(batch: pyarrow.RecordBatch) -> list[bytes]:
    return [value.rstrip(b".") for value in batch.column(0).to_pylist()]
