"""What people do with topics of JSON, by Spark's own connector and by ours: short queries, parsing and grouping, state,
many small batches, tables. Each stretch has seconds, CPU seconds and peak memory of JVM and Python workers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from bench.spark.processes import JVM, WORKERS, Processes
from bench.spark.workloads import OFFICIAL, OURS, Workloads
from ottla.spark.pipelines.table_flows import append
from ottla.spark.tables.data_source import TableSource
from ottla.spark.tables.table import DELTA, ICEBERG, TableSettings, prepare_table

SCHEMA = "id bigint, user string, kind int, amount double, at timestamp, text string, ok boolean"
NEEDED = "value struct<user: string, kind: int, amount: double, at: timestamp>"
ROW = """to_json(struct(id, concat('user-', id % 1000) as user, id % 100 as kind, id * 0.5D as amount,
timestamp_seconds(1700000000 + id) as at, repeat('x', 150) as text, id % 2 = 0 as ok))"""
COLUMNS = ("user", "kind", "amount", "at")
SMALL_BATCH_COUNT = 20
TABLE_BATCH_COUNT = 5
TAKEN = 1_000


@dataclass(frozen=True, slots=True)
class Measured:
    seconds: float
    cpu_seconds: float
    """Of JVM and workers."""
    jvm_bytes: int
    worker_bytes: int


@dataclass
class Queries:
    """Queries on one topic."""

    work: Workloads
    processes: Processes
    topic: str
    count: int

    def measured(self, query: Callable[[], object]) -> tuple[Measured, object]:
        before = self.processes.start()
        started = time.perf_counter()
        answer = query()
        seconds = time.perf_counter() - started
        used = self.processes.usage(before)
        peak = used.peak_bytes
        cpu = float(used.cpu_seconds[JVM] + used.cpu_seconds[WORKERS])
        return Measured(seconds, cpu, peak.get(JVM, 0), peak.get(WORKERS, 0)), answer

    def named(self, who: str) -> dict[str, Callable[[], object]]:
        return {
            f"limit({TAKEN}).count()": lambda: self._records(who).limit(TAKEN).count(),
            f"take({TAKEN})": lambda: len(self._records(who).take(TAKEN)),
            "JSON, group by": lambda: self._grouped(self._parsed(who, is_stream=False)),
            f"{SMALL_BATCH_COUNT} batches of a stream": lambda: self._stream(who, is_grouped=False),
            f"state: counts, {SMALL_BATCH_COUNT} batches": lambda: self._stream(who, is_grouped=True),
        }

    def tables(self, who: str) -> dict[str, Callable[[], object]]:
        """JSON to a table, exactly once. No release of Delta's or Iceberg's own sinks runs on Spark 4.3, so Spark's
        connector has Spark's own file sink: Parquet files with a log of batches."""
        name = f"JSON to a table, {TABLE_BATCH_COUNT} batches, ours as {{}}, Spark's as Parquet files"
        return {
            name.format("Delta"): lambda: self._to_table(who, DELTA),
            name.format("Iceberg"): lambda: self._to_table(who, ICEBERG),
        }

    def _records(self, who: str) -> DataFrame:
        return self.work.source(who, self.topic)

    def _parsed(self, who: str, *, is_stream: bool, batch_count: int = SMALL_BATCH_COUNT) -> DataFrame:
        spark = self.work.spark
        reader = (spark.readStream if is_stream else spark.read).format(who).options(**self.work.options)
        reader = reader.option("subscribe", self.topic).option("startingOffsets", "earliest")
        if is_stream:
            reader = reader.option("maxOffsetsPerTrigger", -(-self.count // batch_count))
        if who == OURS:
            return reader.option("valueFormat", "json").schema(NEEDED).load().select("value.*")
        value = F.from_json(F.col("value").cast("string"), SCHEMA)
        return reader.load().select(value.alias("value")).select("value.*")

    def _grouped(self, rows: DataFrame) -> object:
        found = rows.groupBy("kind").agg(F.count("*"), F.sum("amount"), F.max("at"))
        return sorted(tuple(row) for row in found.collect())

    def _stream(self, who: str, *, is_grouped: bool) -> object:
        rows = self._parsed(who, is_stream=True)
        if is_grouped:
            rows = rows.groupBy("user").agg(F.count("*"), F.sum("amount"))
        with tempfile.TemporaryDirectory(dir=self.work.folder) as checkpoint:
            writer = rows.writeStream.format("noop").outputMode("update" if is_grouped else "append")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            return sum(one["numInputRows"] for one in query.recentProgress)

    def _to_table(self, who: str, kind: str) -> object:
        """The number of rows that the table has in the end."""
        spark = self.work.spark
        rows = self._parsed(who, is_stream=True, batch_count=TABLE_BATCH_COUNT).select(*COLUMNS)
        with tempfile.TemporaryDirectory(dir=self.work.folder) as folder:
            place, checkpoint = f"{folder}/table", f"{folder}/checkpoint"
            writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            if who == OFFICIAL:
                writer.format("parquet").option("path", place).start().awaitTermination()
                return spark.read.parquet(place).count()
            settings = _table(kind, Path(folder))
            prepare_table(settings, to_arrow_schema(rows.schema, timezone="UTC"))
            spark.dataSource.register(TableSource)
            writer.foreachBatch(lambda batch, _: append(settings, batch)).start().awaitTermination()
            return spark.read.format("ottla-table").option("settings", settings.to_json()).load().count()


def _table(kind: str, folder: Path) -> TableSettings:
    if kind == DELTA:
        return TableSettings(kind, f"{folder}/table")
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    return TableSettings(kind, "bench.table", catalog)


def filled(work: Workloads, count: int, partition_count: int) -> str:
    """A topic of JSON."""
    topic = work.new_topic("json", partition_count)
    rows = work.spark.range(0, count, 1, 4).selectExpr("cast(id as string) key", f"{ROW} value")
    work.write(OURS, topic, rows, deliveryGuarantee="at_least_once")
    return topic


CONNECTORS = (OFFICIAL, OURS)
