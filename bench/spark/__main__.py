"""`python -m bench.spark`: Spark's own Kafka connector and ours, in turns, in one Spark on one Ottla broker."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from tests.interop.servers import Ottla
from tests.spark.official import official_jars

from bench.observation import load_average
from bench.spark.processes import Processes
from bench.spark.queries import CONNECTORS, Queries, filled
from bench.spark.workloads import OFFICIAL, OURS, PARTITION_COUNT, Workloads

RESULTS = Path(__file__).parents[1] / "results"
SIZES = {"100 B": (100, 2_000_000, 1_000_000), "1 KB": (1000, 400_000, 300_000)}
"""Size of values, rows that are read, rows that are written."""
KINDS = ("read", "stream", "write", "wide", "sink", "latency", "queries", "tables")
QUERY_ROWS = 1_000_000
WIDE = {
    "24 partitions": (24, "even", 1),
    "24 partitions, no keys": (24, "none", 1),
    "24 partitions, skewed keys": (24, "skewed", 1),
    "200 partitions, no keys": (200, "none", 1),
    "three topics of 8 partitions by the column topic": (8, "even", 3),
}
"""Partitions of a topic, keys, topics."""
Measures = dict[str, dict[str, list[float]]]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    made.add_argument("--rounds", type=int, default=3, metavar="COUNT", help="each round runs both connectors (3)")
    made.add_argument("--only", default=",".join(KINDS), metavar="KINDS", help=f"some of {', '.join(KINDS)}")
    made.add_argument("--scale", type=float, default=1.0, help="rows, as a part of the full number")
    made.add_argument("--rows", type=int, metavar="COUNT", help="rows of each topic that is read or written")
    made.add_argument(
        "--partitions",
        type=lambda text: [int(one) for one in text.split(",")],
        metavar="COUNTS",
        help="of topics, some of 4,24,200 (all of them for queries; 4 for read, stream, write and sink; 24 for tables)",
    )
    made.add_argument("--minutes", type=float, default=60.0, help="begin nothing new after so many (60)")
    made.add_argument(
        "--output", type=Path, metavar="FILE", help="write the table there, and the figures beside it as .json"
    )
    made.add_argument("--note", default="", metavar="TEXT", help="what a reader of the results should know")
    made.add_argument("--no-write", action="store_true", help="print only")
    return made


class Run:
    """Figures as they come."""

    def __init__(self, minutes: float) -> None:
        self.measures: Measures = {}
        self.started = time.monotonic()
        self.end = self.started + 60 * minutes

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.end

    def add(self, row: str, who: str, figure: float) -> None:
        self.measures.setdefault(row, {}).setdefault(who, []).append(figure)
        print(f"{time.monotonic() - self.started:6.0f} s  {row}: {who} {figure:,.0f}", file=sys.stderr, flush=True)


def in_turns(number: int, *work: Callable[[], None]) -> None:
    for one in work if number % 2 == 0 else reversed(work):
        one()


@dataclass
class Counted:
    """Work on so many rows: how fast it is, and the CPU seconds of JVM and workers that it takes."""

    run: Run
    processes: Processes

    def add(self, row: str, who: str, count: int, work: Callable[[], object]) -> None:
        before = self.processes.start()
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        cpu_seconds = float(sum(self.processes.usage(before).cpu_seconds.values()))
        self.run.add(f"{row}, rows/s", who, count / seconds)
        self.run.add(f"{row}, CPU ms of a million rows", who, cpu_seconds * 1000 * 1_000_000 / count)


def measure(
    run: Run,
    work: Workloads,
    kinds: list[str],
    rounds: int,
    scale: float,
    rows: int | None,
    partition_counts: list[int],
) -> None:
    if not set(kinds) & {"read", "stream", "write", "wide", "sink", "latency"}:
        return
    processes = Processes()
    counted = Counted(run, processes)
    for (name, (value_bytes, read_count, write_count)), partitions in product(SIZES.items(), partition_counts):
        if not set(kinds) & {"read", "stream", "write", "wide", "sink"}:
            break
        size = name if partitions == PARTITION_COUNT else f"{name}, {partitions} partitions"
        read_count, write_count = rows or int(read_count * scale), rows or int(write_count * scale)
        topic = work.fill(read_count, value_bytes, partitions)
        for number in range(rounds):
            if run.is_over:
                break
            _reads(counted, work, kinds, number, size, topic, read_count)
            _writes(counted, work, kinds, number, size, value_bytes, write_count, partitions)
            if partitions == partition_counts[0]:
                _wide_writes(run, work, kinds, number, name, value_bytes, write_count)
        if "sink" in kinds:
            for number in range(rounds):
                _sinks(run, work, number, size, topic, read_count)
        work.delete(topic)
    if "latency" in kinds:
        for number in range(rounds):
            _latencies(run, work, number)
    processes.close()


def measure_queries(
    run: Run,
    work: Workloads,
    rounds: int,
    count: int,
    partition_counts: list[int],
    named: Callable[[Queries, str], dict[str, Callable[[], object]]],
) -> None:
    """Queries on topics of JSON. Both connectors have to find the same."""
    processes = Processes()
    try:
        for partition_count in partition_counts:
            topic = filled(work, count, partition_count)
            queries = Queries(work, processes, topic, count)
            for number in range(rounds):
                for name in named(queries, OURS):
                    if run.is_over:
                        return
                    found: list[object] = []
                    row = f"{name}, {partition_count} partitions"
                    in_turns(
                        number,
                        *(_query(run, queries, row, who, named(queries, who)[name], found) for who in CONNECTORS),
                    )
                    if found[0] != found[1]:
                        raise AssertionError(f"{row}: the connectors disagree: {found}")
            work.delete(topic)
    finally:
        processes.close()


def _query(
    run: Run, queries: Queries, row: str, who: str, query: Callable[[], object], found: list[object]
) -> Callable[[], None]:
    def job() -> None:
        measured, answer = queries.measured(query)
        found.append(answer)
        run.add(f"{row}, ms", who, measured.seconds * 1000)
        run.add(f"{row}, CPU ms", who, measured.cpu_seconds * 1000)
        run.add(f"{row}, peak of the JVM, MB", who, measured.jvm_bytes / 1e6)
        run.add(f"{row}, peak of workers, MB", who, measured.worker_bytes / 1e6)

    return job


def _reads(counted: Counted, work: Workloads, kinds: list[str], number: int, size: str, topic: str, count: int) -> None:
    value: dict[str, str | None] = {OURS: "value binary"}
    nothing: dict[str, str | None] = {}

    def batch(row: str, who: str, columns: str, schemas: dict[str, str | None]) -> Callable[[], None]:
        return lambda: counted.add(
            f"{row} {size}", who, count, lambda: work.read(who, topic, columns, schemas.get(who))
        )

    def stream(row: str, who: str, schemas: dict[str, str | None]) -> Callable[[], None]:
        return lambda: counted.run.add(f"{row} {size}, rows/s", who, work.stream(who, topic, schemas.get(who)))

    if "read" in kinds:
        for row, columns, schemas in (
            ("batch read, all columns,", "*", nothing),
            ("batch read, value only,", "value", value),
            ("batch read, sum of lengths of values,", "sum(length(value))", value),
        ):
            in_turns(number, *(batch(row, who, columns, schemas) for who in (OFFICIAL, OURS)))
    if "stream" in kinds:
        for row, schemas in (("streaming read, all columns,", nothing), ("streaming read, value only,", value)):
            in_turns(number, *(stream(row, who, schemas) for who in (OFFICIAL, OURS)))


def _writes(
    counted: Counted,
    work: Workloads,
    kinds: list[str],
    number: int,
    size: str,
    value_bytes: int,
    count: int,
    partitions: int,
) -> None:
    if "write" not in kinds:
        return
    frame = work.rows(count, value_bytes)

    def one(who: str, sink: str, **options: str) -> Callable[[], None]:
        def job() -> None:
            topic = work.new_topic("written", partitions)
            counted.add(f"batch write {size}", who, count, lambda: work.write(sink, topic, frame, **options))
            work.delete(topic)

        return job

    in_turns(
        number,
        one(OFFICIAL, OFFICIAL),
        one(OURS, OURS, deliveryGuarantee="at_least_once"),
        one("ottla exactly once", OURS, deliveryGuarantee="exactly_once"),
    )


def _wide_writes(
    run: Run, work: Workloads, kinds: list[str], number: int, size: str, value_bytes: int, count: int
) -> None:
    if "wide" not in kinds:
        return

    def one(row: str, who: str, sink: str, **options: str) -> Callable[[], None]:
        partition_count, keys, topic_count = WIDE[row]

        def job() -> None:
            topics = [work.new_topic("wide", partition_count) for _ in range(topic_count)]
            frame = work.rows(count, value_bytes, keys, topics if topic_count > 1 else ())
            topic = topics[0] if topic_count == 1 else None
            figure = work.timed(count, lambda: work.write(sink, topic, frame, **options))
            run.add(f"batch write {size}, {row}, rows/s", who, figure)
            for written in topics:
                work.delete(written)

        return job

    for row in WIDE:
        in_turns(
            number,
            one(row, OFFICIAL, OFFICIAL),
            one(row, OURS, OURS, deliveryGuarantee="at_least_once"),
            one(row, "ottla exactly once", OURS, deliveryGuarantee="exactly_once"),
        )


def _sinks(run: Run, work: Workloads, number: int, size: str, source: str, count: int) -> None:
    def one(who: str, sink: str, **options: str) -> Callable[[], None]:
        def job() -> None:
            topic = work.new_topic("sunk")
            figure = work.stream_write(sink, source, topic, max(count // 5, 1), **options)
            run.add(f"streaming write, five batches, {size}, rows/s", who, figure)
            work.delete(topic)

        return job

    in_turns(
        number,
        one(OFFICIAL, OFFICIAL),
        one(OURS, OURS, deliveryGuarantee="at_least_once"),
        one("ottla exactly once", OURS, deliveryGuarantee="exactly_once"),
    )


def _latencies(run: Run, work: Workloads, number: int) -> None:
    def one(who: str, source: str, sink: str, **options: str) -> Callable[[], None]:
        def job() -> None:
            found = work.latency(source, sink, seconds=15, per_second=50, **options)
            for name in ("p50", "p99"):
                run.add(f"topic to topic, default trigger, {name} ms", who, found[name])

        return job

    in_turns(
        number,
        one(OFFICIAL, OFFICIAL, OFFICIAL),
        one(OURS, OURS, OURS, deliveryGuarantee="at_least_once"),
        one("ottla exactly once", OURS, OURS, deliveryGuarantee="exactly_once"),
    )


def table(measures: Measures) -> str:
    lines = ["| work | Spark's connector | ours | ours / Spark's | exactly once | cost |", "|---|---|---|---|---|---|"]
    for row, by_who in measures.items():
        official = median(by_who.get(OFFICIAL, [0]))
        ours = median(by_who.get(OURS, [0]))
        once = median(by_who.get("ottla exactly once", [0]))
        cells = [row, f"{official:,.0f}", f"{ours:,.0f}", f"{ours / official:.2f}x" if official and ours else ""]
        cells.append(f"{once:,.0f}" if once else "")
        cells.append(f"{(1 - once / ours) * 100:.0f} %" if once and ours and "rows/s" in row else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    options = parser().parse_args()
    jars = official_jars()
    if jars is None:
        print("bench.spark: Spark's Kafka connector is not available (OTTLA_SPARK_KAFKA_JARS)", file=sys.stderr)
        return 2
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import ottla.spark  # noqa: F401  (workers that start at once, as its users have them)

    run = Run(options.minutes)
    kinds = options.only.split(",")
    load = [load_average()]
    with tempfile.TemporaryDirectory(prefix="ottla-bench-spark-") as folder:
        broker = Ottla(Path(folder) / "data")
        broker.start()
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", jars)
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "2g")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            work = Workloads(spark, broker.bootstrap, Path(folder))
            given: list[int] | None = options.partitions
            measure(run, work, kinds, options.rounds, options.scale, options.rows, given or [PARTITION_COUNT])
            count = options.rows or int(QUERY_ROWS * options.scale)
            if "queries" in kinds:
                measure_queries(run, work, options.rounds, count, given or [4, 24, 200], Queries.named)
            if "tables" in kinds:
                measure_queries(run, work, options.rounds, count, given or [24], Queries.tables)
        finally:
            spark.stop()
            broker.stop()
    load.append(load_average())
    command = " ".join(["python -m bench.spark", *sys.argv[1:]])
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    heading = f"`{command}`, {date}, load average {load[0]:.1f} to {load[1]:.1f}, medians. {options.note}"
    print(f"{heading}\n\n{table(run.measures)}")
    if not options.no_write:
        result: dict[str, Any] = {"date": date, "command": command, "load_average": load, "measures": run.measures}
        output: Path = options.output or RESULTS / "spark.md"
        output.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        output.write_text(f"{heading}\n\n{table(run.measures)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
