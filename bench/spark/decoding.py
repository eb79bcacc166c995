"""`python -m bench.spark.decoding`: JSON of a topic read, parsed and grouped by in three ways, all by our source: by
Spark's from_json, by a function in Python (as pipelines did before), and by the reading task. Beside it keyed writes,
exactly once and at least once, and a limit. It needs no jar.

CPU seconds of JVM and workers are what counts on a machine that does other work, too. Each round runs all ways in
turns; the first round is not counted."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.interop.servers import Ottla

from bench.observation import load_average
from bench.spark.processes import JVM, WORKERS, Processes
from bench.spark.queries import SCHEMA, filled
from bench.spark.workloads import OURS, Workloads

NEEDED = ("kind", "amount", "at")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.spark.decoding", description=__doc__)
    made.add_argument("--rows", type=int, default=500_000, metavar="COUNT", help="rows of the topic (500000)")
    made.add_argument("--rounds", type=int, default=3, metavar="COUNT", help="rounds that count (3)")
    made.add_argument("--output", type=Path, metavar="FILE", help="write the table there")
    made.add_argument("--note", default="", metavar="TEXT", help="what a reader of the results should know")
    return made


def ways(work: Workloads, topic: str, count: int) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F

    from ottla.converters.json_values import JsonDecoder
    from ottla.spark.decoded_topics import decoded_topics
    from ottla.spark.pipelines import converters

    decoder = JsonDecoder(converters.arrow_columns(converters.schema_of("rows", SCHEMA)))

    def grouped(rows: DataFrame, row: Column) -> object:
        chosen = rows.select(row.alias("row")).select(*(F.col("row")[name].alias(name) for name in NEEDED))
        found = chosen.groupBy("kind").agg(F.count("*"), F.sum("amount"), F.max("at"))
        return sorted(tuple(one) for one in found.collect())

    def task() -> object:
        rows = work.source(decoded_topics(work.spark, decoder, has_raw=False), topic)
        return grouped(rows, F.col("value"))

    def written(guarantee: str) -> Callable[[], object]:
        def write() -> None:
            target = work.new_topic("written", 24)
            work.write(OURS, target, work.rows(count, 100), deliveryGuarantee=guarantee)
            work.delete(target)

        return write

    def source() -> DataFrame:
        return work.source(OURS, topic)

    return {
        "JSON, group by: from_json": lambda: grouped(source(), F.from_json(F.col("value").cast("string"), SCHEMA)),
        "JSON, group by: a function": lambda: grouped(source(), converters.decoded(decoder, F.col("value"))["row"]),
        "JSON, group by: the reading task": task,
        "keyed write to 24 partitions: at least once": written("at_least_once"),
        "keyed write to 24 partitions: exactly once": written("exactly_once"),
        "limit(1000).count()": lambda: source().limit(1000).count(),
    }


def main() -> int:
    options = parser().parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import ottla.spark  # noqa: F401  (workers that start at once, as its users have them)

    load = [load_average()]
    seconds: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="ottla-bench-decoding-") as folder:
        broker = Ottla(Path(folder) / "data")
        broker.start()
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "2g").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        processes = Processes()
        try:
            work = Workloads(spark, broker.bootstrap, Path(folder))
            topic = filled(work, options.rows, 4)
            for number in range(options.rounds + 1):
                answers = []
                for name, way in ways(work, topic, options.rows).items():
                    before, started = processes.start(), time.perf_counter()
                    answers.append(way())
                    took, used = time.perf_counter() - started, processes.usage(before).cpu_seconds
                    print(f"round {number}: {name}: {took:.1f} s", file=sys.stderr, flush=True)
                    if number:
                        seconds.setdefault(name, []).append(took)
                        cpu.setdefault(name, []).append(float(used[JVM] + used[WORKERS]))
                if not answers[0] == answers[1] == answers[2]:
                    raise AssertionError("the ways disagree")
        finally:
            processes.close()
            spark.stop()
            broker.stop()
    load.append(load_average())
    command = " ".join(["python -m bench.spark.decoding", *sys.argv[1:]])
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    lines = [f"`{command}`, {date}, load average {load[0]:.1f} to {load[1]:.1f}, medians. {options.note}", ""]
    lines += ["| work | CPU s of JVM and workers | s |", "|---|---|---|"]
    lines += [f"| {name} | {median(cpu[name]):.1f} | {median(seconds[name]):.1f} |" for name in seconds]
    print("\n".join(lines))
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
