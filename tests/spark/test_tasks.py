"""What tasks do in executors, without Spark: bounded memory, brokers that die in the middle, records that are gone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from confluent_kafka import TopicPartition as Place

from ottla.client.core.partitions import TopicPartition
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.offsets import OffsetRange
from ottla.spark.options import parse_read_options, parse_write_options
from ottla.spark.partition_reader import DataLost, PartitionReader, ReadTask
from ottla.spark.reader import read_task
from ottla.spark.row_sender import RowSender
from ottla.spark.transactions import init_idempotent_producer
from ottla.wire.primitives import ZERO_UUID
from tests.interop.conftest import new_server
from tests.interop.servers import Server
from tests.spark.conftest import Topics

COLUMNS = ["key", "value", "offset"]


def task_of(topics: Topics, topic: str, **options: str) -> ReadTask:
    given = {**topics.options, "subscribe": topic, **options}
    return read_task(parse_read_options(given, is_streaming=False), COLUMNS)


def values_of(batches: Iterator[pyarrow.RecordBatch]) -> list[str]:
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may kill and start again."""
    server = new_server(tmp_path / "data", ["offsets.topic.num.partitions=1"])
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_a_batch_is_never_larger_than_a_fetch_or_so(codec: str, topics: Topics) -> None:
    """A thousand times as many rows would take no more memory."""
    topic = topics.new(1, compression_type=codec)
    rows = [(None, f"row-{number}-" + "x" * 500) for number in range(5_000)]
    topics.produce(topic, rows)
    options = {"kafka.max.partition.fetch.bytes": "65536", "maxRowsPerArrowBatch": "300"}
    batches = list(
        PartitionReader(task_of(topics, topic, **options), OffsetRange(topic, 0, 0, 5_000, ZERO_UUID)).batches()
    )
    assert [value for batch in batches for value in values_of(iter([batch]))] == [value for _, value in rows]
    assert max(batch.num_rows for batch in batches) <= 300
    assert max(batch.get_total_buffer_size() for batch in batches) < 1_000_000


def test_a_range_is_read_to_its_end_and_no_further(topics: Topics) -> None:
    topic = topics.new(1)
    topics.fill(topic, 0, 100)
    reader = PartitionReader(task_of(topics, topic), OffsetRange(topic, 0, 17, 42, ZERO_UUID))
    assert values_of(reader.batches()) == [f"row-{number}" for number in range(17, 42)]


def test_a_read_that_is_left_in_the_middle_leaves_no_answer_for_the_next(topics: Topics) -> None:
    """`limit`, or a task that failed: the next task of the same worker reads its own rows."""
    topic = topics.new(2)
    for partition, first in itertools.product(range(2), range(0, 500, 100)):
        rows = [(None, f"{partition}-{number}-" + "x" * 500) for number in range(first, first + 100)]
        topics.produce(topic, rows, partition=partition)
    task = task_of(topics, topic, **{"kafka.max.partition.fetch.bytes": "65536", "maxRowsPerArrowBatch": "30"})
    left = PartitionReader(task, OffsetRange(topic, 0, 0, 500, ZERO_UUID)).batches()
    assert values_of(iter([next(left)]))[0].startswith("0-0-")
    read = values_of(PartitionReader(task, OffsetRange(topic, 1, 0, 500, ZERO_UUID)).batches())
    assert [value.split("-")[:2] for value in read] == [["1", str(number)] for number in range(500)]
    rest = values_of(left)  # the first goes on after all: with the rest of its own
    assert [value.split("-")[:2] for value in rest] == [["0", str(number)] for number in range(30, 500)]


def test_a_broker_that_dies_in_the_middle_of_a_read_loses_and_doubles_nothing(own_server: Server) -> None:
    topics = Topics(own_server.bootstrap)
    topic = topics.new(1)
    rows = [(None, f"row-{number}-" + "x" * 500) for number in range(2_000)]
    topics.produce(topic, rows)
    task = task_of(topics, topic, **{"kafka.max.partition.fetch.bytes": "65536"})
    batches = PartitionReader(task, OffsetRange(topic, 0, 0, 2_000, ZERO_UUID)).batches()
    read = values_of(iter([next(batches)]))
    own_server.kill()
    own_server.start()
    read += values_of(batches)
    assert read == [value for _, value in rows]


def test_a_broker_that_dies_in_the_middle_of_a_write_loses_and_doubles_nothing(own_server: Server) -> None:
    topics = Topics(own_server.bootstrap)
    topic = topics.new(2)
    options = parse_write_options({**topics.options, "topic": topic, "kafka.batch.size": "2000"})
    cluster = BlockingCluster(options.config)
    identity = init_idempotent_producer(cluster)
    sender = RowSender(cluster, options.config, topic=topic, batch_size=options.batch_size, identity=identity)
    for part in range(4):
        values = [f"row-{part}-{number}" for number in range(500)]
        sender.send(pyarrow.record_batch({"key": values, "value": values}))
        if part == 1:
            own_server.kill()
            own_server.start()
    sender.finish()
    cluster.close()
    written = topics.values(topic)
    assert sorted(written) == sorted(f"row-{part}-{number}" for part in range(4) for number in range(500))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_records_that_are_gone_end_the_query_unless_it_goes_on_without_them(fails: str, topics: Topics) -> None:
    topic = topics.new(1)
    topics.fill(topic, 0, 30)
    for deleted in topics.admin.delete_records([Place(topic, 0, 10)]).values():
        deleted.result()
    reader = PartitionReader(task_of(topics, topic, failOnDataLoss=fails), OffsetRange(topic, 0, 5, 30, ZERO_UUID))
    if fails == "true":
        with pytest.raises(DataLost, match=f"the query that reads {topic}: {topic}-0 begins at offset 10"):
            list(reader.batches())
    else:
        assert values_of(reader.batches()) == [f"row-{number}" for number in range(10, 30)]


def test_a_topic_that_was_created_again_is_told_by_its_id(topics: Topics) -> None:
    topic = topics.new(1)
    topics.fill(topic, 0, 5)
    reader = PartitionReader(task_of(topics, topic), OffsetRange(topic, 0, 0, 5, b"another topic id"))
    with pytest.raises(DataLost, match=f"the topic {topic} was deleted and created again"):
        list(reader.batches())


def test_rows_go_where_they_say(topics: Topics) -> None:
    first, second = topics.new(2), topics.new(1)
    options = parse_write_options(topics.options)
    cluster = BlockingCluster(options.config)
    sender = RowSender(cluster, options.config, topic=None, batch_size=0, identity=init_idempotent_producer(cluster))
    sender.send(pyarrow.record_batch({"topic": [first, second, first], "value": ["a", "b", "c"]}))
    sender.finish()
    ends = cluster.ends([TopicPartition(first, 0), TopicPartition(first, 1)], "read_uncommitted")
    cluster.close()
    assert sum(ends.values()) == 2 and sorted(topics.values(first)) == ["a", "c"]
    assert topics.values(second) == ["b"]
