"""Exactly-once writes of many shapes, counted by readers of committed records: none lost, none doubled.

Few partitions and many, rows without keys, with even and with skewed ones, several topics through the column `topic`;
by a task's sender alone, by Spark in batches and in streams. With OTTLA_INTEROP_ALL=1 also 200 partitions, three nodes
and five million rows; OTTLA_TEST_KAFKA=1 runs all but the three nodes on Apache Kafka.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.client.config import ConsumerConfig
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.options import Topics as TopicNames
from ottla.spark.options import parse_write_options
from ottla.spark.row_sender import RowSender
from ottla.spark.transactions import end_transactions, init_transactional_producer
from tests.chaos.cluster import Cluster
from tests.interop.conftest import ON_KAFKA
from tests.spark.conftest import Read, Stream, Topics
from tests.spark.test_exactly_once import ALL

needs_time = pytest.mark.skipif(not ALL, reason="millions of rows: only with OTTLA_INTEROP_ALL=1")
KEYS = {
    "none": "cast(null as string)",
    "even": "cast(id as string)",
    "skewed": "if(id % 20 = 0 and id > {count} / 2, cast(id as string), 'hot')",
}
QUICK = {("none", 24), ("even", 6), ("skewed", 24), ("skewed", 1)}
FILLER = "x" * 80
_numbers = itertools.count()


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    if ON_KAFKA:
        pytest.skip("three nodes of Ottla")
    cluster = Cluster(tmp_path_factory.mktemp("three-nodes"))
    cluster.start()
    yield Topics(cluster.bootstrap)
    cluster.stop()


def sent_rows(topics: Topics, topic: str | None, batches: Iterator[pyarrow.RecordBatch]) -> None:
    """What one task does, and its commit."""
    options = parse_write_options({**topics.options, **({} if topic is None else {"topic": topic})})
    cluster = BlockingCluster(options.config)
    name = f"wide-{next(_numbers)}"
    identity = init_transactional_producer(cluster, name)
    sender = RowSender(cluster, options.config, topic=topic, batch_size=0, identity=identity, transactional_id=name)
    for batch in batches:
        sender.send(batch)
    sender.finish()
    assert end_transactions(cluster, [(name, identity)], committed=True) == {}
    cluster.close()


def batches_of(count: int, keys: str, topics: tuple[str, ...] = ()) -> Iterator[pyarrow.RecordBatch]:
    for first in range(0, count, 10_000):
        numbers = range(first, min(first + 10_000, count))
        columns = {"value": [f"{number:020d}{FILLER}" for number in numbers]}
        if keys != "none":
            is_hot = keys == "skewed"
            columns["key"] = [
                "hot" if is_hot and (one % 20 or one < count / 2) else str(one) for one in numbers
            ]  # first one partition, then the others
        if topics:
            columns["topic"] = [topics[number % len(topics)] for number in numbers]
        yield pyarrow.record_batch(columns)


def wait_for_markers(topics: Topics, topic: str) -> None:
    """Apache Kafka answers EndTxn before the transaction's markers are in all partitions."""
    cluster = BlockingCluster(ConsumerConfig.parse({"bootstrap.servers": topics.bootstrap}))
    partitions = cluster.partitions(TopicNames(names=(topic,)))
    ends_at = time.monotonic() + 120
    while cluster.ends(partitions, "read_committed") != cluster.ends(partitions, "read_uncommitted"):
        assert time.monotonic() < ends_at, "a transaction is open"
        time.sleep(0.1)
    cluster.close()


def check_written(topics: Topics, topic: str, count: int) -> None:
    wait_for_markers(topics, topic)
    values = topics.raw_values(topic)
    assert (len(values), len(set(values))) == (count, count)


@pytest.mark.parametrize(
    ("keys", "partition_count"),
    [
        pytest.param(keys, count, marks=() if (keys, count) in QUICK else needs_time)
        for keys in KEYS
        for count in (1, 6, 24)
    ],
)
def test_a_task_writes_each_row_once(keys: str, partition_count: int, topics: Topics) -> None:
    topic = topics.new(partition_count)
    sent_rows(topics, topic, batches_of(40_000, keys))
    check_written(topics, topic, 40_000)


def test_a_task_writes_to_topics_that_its_rows_name(topics: Topics) -> None:
    named = (topics.new(6), topics.new(2), topics.new(1))
    sent_rows(topics, None, batches_of(30_000, "none", named))
    for topic in named:
        check_written(topics, topic, 10_000)


@needs_time
@pytest.mark.parametrize("keys", list(KEYS))
@pytest.mark.parametrize("partition_count", [24, 200])
def test_a_task_writes_each_row_once_to_three_nodes(keys: str, partition_count: int, three_nodes: Topics) -> None:
    topic = three_nodes.new(partition_count)
    sent_rows(three_nodes, topic, batches_of(600_000, keys))
    check_written(three_nodes, topic, 600_000)


# Through Spark


def rows(spark: SparkSession, count: int, keys: str = "none", more: str = "1 more") -> DataFrame:
    return spark.range(0, count, 1, 2).selectExpr(
        f"{KEYS[keys].format(count=count)} key", f"concat(lpad(cast(id as string), 20, '0'), '{FILLER}') value", more
    )


def counted(spark: SparkSession, topics: Topics, topic: str) -> tuple[int, int]:
    """Committed rows, and how many different ones."""
    wait_for_markers(topics, topic)
    reader = spark.read.format("ottla").options(**topics.options).option("kafka.isolation.level", "read_committed")
    frame = reader.option("subscribe", topic).schema("value binary").load()
    number = "cast(substring(cast(value as string), 1, 20) as bigint)"
    (row,) = frame.selectExpr("count(*)", f"count(distinct {number})").collect()
    return row[0], row[1]


def append(topics: Topics, frame: DataFrame, topic: str | None) -> None:
    writer = frame.write.format("ottla").options(**topics.options)
    (writer if topic is None else writer.option("topic", topic)).mode("append").save()


@pytest.mark.parametrize(
    ("partition_count", "keys"),
    [(6, "none"), *(pytest.param(24, keys, marks=needs_time) for keys in KEYS)],
)
def test_spark_writes_each_row_once(partition_count: int, keys: str, spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(partition_count)
    append(topics, rows(spark, 60_000, keys), topic)
    assert counted(spark, topics, topic) == (60_000, 60_000)


def test_spark_writes_to_topics_that_rows_name(spark: SparkSession, topics: Topics) -> None:
    first, second = topics.new(6), topics.new(2)
    append(topics, rows(spark, 100, more=f"if(id % 2 = 0, '{first}', '{second}') topic"), None)
    assert counted(spark, topics, first) == counted(spark, topics, second) == (50, 50)


def test_a_stream_writes_each_row_once_to_many_partitions(
    spark: SparkSession, topics: Topics, read: Read, stream: Stream
) -> None:
    incoming, outgoing = topics.new(2), topics.new(24)
    append(topics, rows(spark, 60_000, "even"), incoming)
    stream.run(incoming, outgoing, maxOffsetsPerTrigger="40000")
    assert counted(spark, topics, outgoing) == (60_000, 60_000)


@needs_time
@pytest.mark.parametrize("keys", list(KEYS))
def test_five_million_rows_in_a_batch_and_in_a_stream(
    keys: str, spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    _write_five_million(keys, spark, topics, tmp_path)


@needs_time
def test_five_million_rows_on_three_nodes(spark: SparkSession, three_nodes: Topics, tmp_path: Path) -> None:
    _write_five_million("skewed", spark, three_nodes, tmp_path)


def _write_five_million(keys: str, spark: SparkSession, topics: Topics, folder: Path) -> None:
    count = 5_000_000
    incoming, outgoing = topics.new(200), topics.new(200)
    append(topics, rows(spark, count, keys), incoming)
    assert counted(spark, topics, incoming) == (count, count)
    Stream(spark, topics, folder).run(incoming, outgoing, maxOffsetsPerTrigger="1500000")
    assert counted(spark, topics, outgoing) == (count, count)
    for topic in (incoming, outgoing):
        topics.delete(topic)
