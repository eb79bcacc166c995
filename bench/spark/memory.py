"""`python -m bench.spark.memory`: what a worker's memory grows by while it reads a topic of many partitions, one after
the other, as bytes and with values decoded. A process of its own reads as a task does, without Spark; the topic is on
an Ottla broker and takes as many bytes of the disk."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.servers import Ottla

from bench.observation import load_average

TOPIC = "large"
KINDS = {"bytes": "value as bytes", "json": "value as columns (valueFormat)"}
MB = 1_000_000


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.spark.memory", description=__doc__)
    made.add_argument("--partitions", type=int, default=200, metavar="COUNT", help="of the topic (200)")
    made.add_argument("--gigabytes", type=float, default=10.0, metavar="GB", help="of values (10)")
    made.add_argument("--value-bytes", type=int, default=1000, metavar="BYTES", help="of a value (1000)")
    made.add_argument("--output", type=Path, metavar="FILE", help="write the table there")
    made.add_argument("--note", default="", metavar="TEXT", help="what a reader of the results should know")
    return made


def fill(bootstrap: str, partitions: int, count: int, value_bytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, partitions, 1)]).values():
        created.result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100, "batch.size": 500_000})
    text = "x" * (value_bytes - len(json.dumps({"id": 10**9, "text": ""})))
    for number in range(count):
        value = f'{{"id": {10**9 + number}, "text": "{text}"}}'
        while True:
            try:
                # stretches of a partition, as batches of one partition are what a producer fills at this rate
                producer.produce(TOPIC, value, partition=number // 500 % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000_000 == 0:
            print(f"{number:,} of {count:,} written", file=sys.stderr, flush=True)
    if producer.flush(600):
        raise AssertionError("the broker did not take all records")


def read(kind: str, bootstrap: str, answers: SimpleQueue[dict[str, float]]) -> None:
    """In a process of its own: all partitions, one after the other."""
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    from ottla.spark.source import OttlaDataSource

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}
    columns = StructType([StructField("id", LongType()), StructField("text", StringType())])
    if kind == "json":
        options["valueFormat"] = "json"
    schema = StructType([StructField("value", columns if kind == "json" else BinaryType())])
    reader = OttlaDataSource(options).reader(schema)
    partitions = reader.partitions()
    next(reader.read(partitions[0]), None)  # imports all that a task uses
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    started, cpu = time.monotonic(), time.process_time()
    rows, largest = 0, 0
    for partition in partitions:
        for batch in reader.read(partition):
            rows += batch.num_rows
            largest = max(largest, batch.nbytes)
    answers.put(
        {
            "rows": rows,
            "partitions": len(partitions),
            "before": before,
            "growth": memory("VmHWM") - before,
            "largest": largest,
            "cpu": time.process_time() - cpu,
            "seconds": time.monotonic() - started,
        }
    )


def memory(what: str) -> int:
    """Bytes of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/self/status has no {what}")


def main() -> int:
    options = parser().parse_args()
    count = int(options.gigabytes * 1e9 / options.value_bytes)
    load = [load_average()]
    found: dict[str, dict[str, float]] = {}
    spawned = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-memory-") as folder:
        broker = Ottla(Path(folder) / "data")
        broker.start()
        try:
            fill(broker.bootstrap, options.partitions, count, options.value_bytes)
            for kind in KINDS:
                answers: SimpleQueue[dict[str, float]] = spawned.SimpleQueue()
                process = spawned.Process(target=read, args=(kind, broker.bootstrap, answers))
                process.start()
                process.join()
                if process.exitcode:
                    raise AssertionError(f"{KINDS[kind]}: reading failed")
                found[kind] = answers.get()
                if found[kind]["rows"] != count:
                    raise AssertionError(f"{KINDS[kind]}: {found[kind]['rows']:,} of {count:,} rows were read")
        finally:
            broker.stop()
    load.append(load_average())
    command = " ".join(["python -m bench.spark.memory", *sys.argv[1:]])
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    lines = [f"`{command}`, {date}, load average {load[0]:.1f} to {load[1]:.1f}. {options.note}".rstrip(), ""]
    lines += ["| read | rows | partitions | memory before, MB | growth, MB | largest Arrow batch, MB | CPU s | s |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for kind, one in found.items():
        sizes = f"{one['before'] / MB:.0f} | {one['growth'] / MB:.0f} | {one['largest'] / MB:.1f}"
        counts = f"{one['rows']:,.0f} | {one['partitions']:.0f}"
        lines.append(f"| {KINDS[kind]} | {counts} | {sizes} | {one['cpu']:.1f} | {one['seconds']:.1f} |")
    print("\n".join(lines))
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
