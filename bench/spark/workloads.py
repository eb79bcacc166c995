"""The same work by Spark's own Kafka connector and by ours, in one Spark and on one topic."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

OFFICIAL, OURS = "kafka", "ottla"
PARTITION_COUNT = 4
KEYS = {
    "even": "cast(id as string)",
    "none": "cast(null as string)",
    "skewed": "if(id % 20 = 0, cast(id as string), 'hot')",
}


@dataclass
class Workloads:
    """Work on one broker. Each returns rows a second, or milliseconds for `latency`."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.options = {"kafka.bootstrap.servers": self.bootstrap}
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def new_topic(self, name: str, partitions: int = PARTITION_COUNT) -> str:
        topic = f"{name}-{uuid.uuid4().hex[:6]}"
        for created in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            created.result()
        return topic

    def delete(self, topic: str) -> None:
        for deleted in self.admin.delete_topics([topic]).values():
            deleted.result()

    def rows(self, count: int, value_bytes: int, keys: str = "even", topics: Sequence[str] = ()) -> DataFrame:
        """Rows whose values are text of that size, evenly in four tasks; topics are named by a column, in turns."""
        filler = "x" * (value_bytes - 20)
        columns = [f"{KEYS[keys]} key", f"concat(lpad(cast(id as string), 20, '0'), '{filler}') value"]
        if topics:
            columns.append(
                f"element_at(array({', '.join(map(repr, topics))}), cast(id % {len(topics)} as int) + 1) topic"
            )
        return self.spark.range(0, count, 1, PARTITION_COUNT).selectExpr(*columns)

    def fill(self, count: int, value_bytes: int, partitions: int) -> str:
        topic = self.new_topic(f"rows-{value_bytes}", partitions)
        self.write(OURS, topic, self.rows(count, value_bytes), deliveryGuarantee="at_least_once")
        return topic

    # Work

    def timed(self, count: int, work: Callable[[], object]) -> float:
        started = time.perf_counter()
        work()
        return count / (time.perf_counter() - started)

    def source(self, source: str, topic: str) -> DataFrame:
        return self.spark.read.format(source).options(**self.options).option("subscribe", topic).load()

    def read(self, source: str, topic: str, columns: str = "*", schema: str | None = None) -> None:
        reader = self.spark.read.format(source).options(**self.options).option("subscribe", topic)
        if schema is not None:
            reader = reader.schema(schema)
        reader.load().selectExpr(*columns.split(",")).write.format("noop").mode("overwrite").save()

    def stream(self, source: str, topic: str, schema: str | None = None) -> float:
        reader = self.spark.readStream.format(source).options(**self.options).option("subscribe", topic)
        if schema is not None:
            reader = reader.schema(schema)
        frame = reader.option("startingOffsets", "earliest").load()
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            return self.batch_rate(writer)

    def batch_rate(self, writer: DataStreamWriter) -> float:
        """Rows a second of a query's batches, from planning to commit; what starting the query takes is not counted."""
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [one for one in query.recentProgress if one["numInputRows"]]
        seconds: float = sum(one["durationMs"]["triggerExecution"] for one in batches) / 1000
        count: int = sum(one["numInputRows"] for one in batches)
        return count / seconds

    def write(self, sink: str, topic: str | None, frame: DataFrame, **options: str) -> None:
        writer = frame.write.format(sink).options(**self.options, **options)
        (writer if topic is None else writer.option("topic", topic)).mode("append").save()

    def stream_write(self, sink: str, source_topic: str, topic: str, batch_rows: int, **options: str) -> float:
        """Topic to topic in batches of so many rows, read by our source each time."""
        reader = self.spark.readStream.format(OURS).options(**self.options).option("subscribe", source_topic)
        frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", batch_rows).load()
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoint:
            writer = frame.select("key", "value").writeStream.format(sink).options(**self.options, **options)
            return self.batch_rate(writer.option("topic", topic).option("checkpointLocation", checkpoint))

    # From topic to topic

    def latency(self, source: str, sink: str, seconds: float, per_second: int, **options: str) -> dict[str, float]:
        """Milliseconds from a record's sending to its arrival in the other topic, at the default trigger."""
        incoming, outgoing = self.new_topic("in", 2), self.new_topic("out", 2)
        reader = self.spark.readStream.format(source).options(**self.options).option("subscribe", incoming)
        frame = reader.option("startingOffsets", "earliest").load().select("key", "value")
        checkpoint = tempfile.mkdtemp(dir=self.folder)
        writer = frame.writeStream.format(sink).options(**self.options, **options).option("topic", outgoing)
        query = writer.option("checkpointLocation", checkpoint).start()
        found: list[float] = []
        is_over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(outgoing, found, is_over))
        watcher.start()
        try:
            producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
            self._wait_for_first(producer, incoming, found)
            found.clear()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                producer.produce(incoming, str(time.time_ns()).encode())
                producer.poll(0)
                time.sleep(1 / per_second)
            producer.flush()
            time.sleep(3)
        finally:
            query.stop()
            is_over.set()
            watcher.join()
        cuts = quantiles(found, n=100)
        return {"p50": cuts[49], "p99": cuts[98], "count": float(len(found))}

    def _wait_for_first(self, producer: Producer, topic: str, found: list[float]) -> None:
        """Records until some arrive: the first batches start processes."""
        end = time.monotonic() + 120
        while len(found) < 20 and time.monotonic() < end:
            producer.produce(topic, str(time.time_ns()).encode())
            producer.poll(0)
            time.sleep(0.2)
        time.sleep(2)

    def _watch(self, topic: str, found: list[float], is_over: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "watch",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 5,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
        while not is_over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append((time.time_ns() - int(message.value() or 0)) / 1e6)
        consumer.close()
