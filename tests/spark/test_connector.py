"""`format("ottla")` in a real Spark against a real broker. One file, so that all of it shares one Spark."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import ottla.spark  # noqa: F401  (the modes of Spark's own sink)
from ottla.spark.pipelines.batch_sink import BatchOfStream
from ottla.spark.registration import register
from tests.spark.conftest import SPARKS_LIMIT, Read, Stream, Topics
from tests.spark.official import official_jars

needs_official = pytest.mark.skipif(official_jars() is None, reason="Spark's Kafka connector is not available")


def in_order(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


# Reading


def test_every_column_is_read(read: Read, topics: Topics) -> None:
    topic = topics.new(2)
    topics.produce(topic, [("k", "v")], partition=0, timestamp=1_700_000_000_123, headers=[("h", b"1"), ("n", None)])
    topics.produce(topic, [(None, None)], partition=1, timestamp=1_700_000_000_000)
    rows = sorted(read(topic, includeHeaders="true").collect(), key=lambda row: row.partition)
    first, second = (row.asDict(recursive=True) for row in rows)
    assert first == {
        "key": bytearray(b"k"),
        "value": bytearray(b"v"),
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(1_700_000_000, UTC).replace(tzinfo=None, microsecond=123_000),
        "timestampType": 0,
        "headers": [{"key": "h", "value": bytearray(b"1")}, {"key": "n", "value": None}],
    }
    assert (second["key"], second["value"], second["partition"], second["headers"]) == (None, None, 1, None)


def test_only_the_columns_that_are_asked_for(read: Read, topics: Topics) -> None:
    topic = topics.new(1)
    topics.fill(topic, 0, 3)
    assert read(topic, "offset bigint, value binary").columns == ["offset", "value"]
    assert in_order(read(topic, "offset bigint, value binary"), "offset", "value")[2] == (2, bytearray(b"row-2"))
    for schema, said in (("price int", "no column price"), ("value string", "is binary, not string")):
        with pytest.raises(PySparkException, match=said):
            read(topic, schema).collect()


def test_where_a_batch_begins_and_ends(read: Read, topics: Topics) -> None:
    topic = topics.new(2)
    for number in range(6):
        topics.produce(topic, [(None, str(number))], partition=number % 2, timestamp=1_000 + number)

    def values(**options: str) -> list[str]:
        return sorted(bytes(row.value).decode() for row in read(topic, **options).collect())

    assert values(startingOffsets=json.dumps({topic: {"0": 1, "1": -2}})) == ["1", "2", "3", "4", "5"]
    assert values(endingOffsets=json.dumps({topic: {"0": 2, "1": 0}})) == ["0", "2"]
    assert values(startingTimestamp="1003") == ["3", "4", "5"]
    assert values(endingOffsetsByTimestamp=json.dumps({topic: {"0": 1_002, "1": 9_999}})) == ["0", "1", "3", "5"]
    only = json.dumps({topic: [1]})
    assert in_order(read(None, assign=only), "partition", "offset") == [(1, 0), (1, 1), (1, 2)]
    latest = read(topic, startingTimestamp="9999", startingOffsetsByTimestampStrategy="latest")
    assert latest.count() == 0
    for options, said in (
        ({"startingOffsets": json.dumps({topic: {"0": 1}})}, f"it lacks {topic}-1"),
        ({"startingOffsets": json.dumps({topic: {"0": 1, "1": 1, "2": 1}})}, "which the query does not read"),
        ({"startingOffsets": json.dumps({topic: {"0": 9, "1": 0}})}, "the start is after the end"),
        ({"startingTimestamp": "9999"}, "no record as young"),
    ):
        with pytest.raises(PySparkException, match=said):
            read(topic, **options).collect()


def test_topics_by_pattern_and_more_tasks_than_partitions(read: Read, topics: Topics) -> None:
    first, second = topics.new(1, "pattern"), topics.new(1, "pattern")
    topics.fill(first, 0, 60)
    topics.fill(second, 60, 100)
    frame = read(None, subscribePattern="pattern-.*", minPartitions="5")
    assert frame.rdd.getNumPartitions() == 5
    assert frame.select("value").distinct().count() == 100
    assert read(first, maxRecordsPerPartition="7").rdd.getNumPartitions() == 9


def test_what_does_not_exist_is_told(read: Read, topics: Topics) -> None:
    topic = topics.new(1)
    with pytest.raises(PySparkException, match=f"there is no {topic}-3"):
        read(None, assign=json.dumps({topic: [0, 3]}), **{"kafka.default.api.timeout.ms": "2000"}).collect()


# Writing


def test_rows_are_written_as_spark_writes_them(spark: SparkSession, read: Read, topics: Topics) -> None:
    """Keys go to Kafka's partitions; a column may name topic, partition or headers; other columns are left out."""
    theirs, ours, other = topics.new(3), topics.new(3), topics.new(1)
    topics.fill(theirs, 0, 50)
    frame = spark.range(50).selectExpr("cast(id as string) key", "concat('row-', id) value", "id more")
    frame.write.format("ottla").options(**topics.options).option("topic", ours).mode("append").save()
    committed = {"kafka.isolation.level": "read_committed"}
    assert in_order(read(ours, **committed), "key", "partition") == in_order(read(theirs), "key", "partition")
    rows = f"""select '{other}' topic, 'a' value, 0 partition, array(struct('h' key, cast('1' as binary) value)) headers
               union all select '{ours}', 'b', 2, null"""
    spark.sql(rows).write.format("ottla").options(**topics.options).mode("append").save()
    (row,) = read(other, includeHeaders="true", **committed).collect()
    assert (row.value, row.headers[0].key) == (bytearray(b"a"), "h")
    assert in_order(read(ours, **committed).where("value = cast('b' as binary)"), "partition") == [(2,)]


def test_what_cannot_be_written_is_refused_before_anything_is(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(1)
    for select, mode, said in (
        ("1 value", "append", "must be string or binary, not int"),
        ("'x' key", "append", "need a column value"),
        ("'x' value", "overwrite", "cannot be overwritten"),
    ):
        writer = spark.sql(f"select {select}").write.format("ottla").options(**topics.options).option("topic", topic)
        with pytest.raises(PySparkException, match=said):
            writer.mode(mode).save()
    with pytest.raises(PySparkException, match="the option topic"):
        spark.sql("select 'x' value").write.format("ottla").options(**topics.options).mode("append").save()
    assert topics.values(topic, "read_uncommitted") == []


def test_a_job_without_a_mode_appends(spark: SparkSession, topics: Topics) -> None:
    """As Spark's own Kafka sink does, also in foreachBatch: Spark's default mode is errorifexists."""
    topic = topics.new(1)
    for number in range(2):
        frame = spark.sql(f"select 'row-{number}' value")
        frame.write.format("ottla").options(**topics.options).option("topic", topic).save()
    with pytest.raises(PySparkException, match='cannot be written in the "Ignore" mode'):
        frame.write.format("ottla").options(**topics.options).option("topic", topic).mode("ignore").save()
    assert topics.values(topic) == ["row-0", "row-1"]

    def append(batch: DataFrame, batch_id: int) -> None:
        rows = batch.selectExpr("concat('batch-', value) value")
        rows.write.format("ottla").options(**topics.options).option("topic", topic).save()

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).option("numPartitions", 1).load()
    stream.writeStream.foreachBatch(append).trigger(availableNow=True).start().awaitTermination()
    assert topics.values(topic)[2:] == ["batch-0", "batch-1", "batch-2"]


def test_a_job_without_a_broker_fails_within_its_time_and_says_where(spark: SparkSession) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1000"}
    began = time.monotonic()
    with pytest.raises(PySparkException, match=r"no broker of 127\.0\.0\.1:1 answers: cannot connect to 127"):
        spark.read.format("ottla").options(**options).option("subscribe", "t").load().count()
    with pytest.raises(PySparkException, match=r"no broker of 127\.0\.0\.1:1 answers: cannot connect to 127"):
        spark.sql("select 'x' value").write.format("ottla").options(**options).option("topic", "t").save()
    assert time.monotonic() - began < 55, "not the minute that a call has by default"


def test_a_job_that_fails_leaves_nothing_behind(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(1)
    frame = spark.range(0, 2_000, 1, 2).selectExpr("if(id < 1999, concat('row-', id), raise_error('poison')) value")
    with pytest.raises(PySparkException, match="poison"):
        frame.write.format("ottla").options(**topics.options).option("topic", topic).mode("append").save()
    assert topics.values(topic) == []


# Streaming


def test_a_query_goes_on_where_it_stopped(stream: Stream, topics: Topics) -> None:
    """Batch by batch, also into partitions that were added; its progress stands in a consumer group."""
    incoming, outgoing = topics.new(2), topics.new(2)
    topics.fill(incoming, 0, 25)
    progress = stream.run(incoming, outgoing, maxOffsetsPerTrigger="10", groupId="lag-tools")
    assert [one["numInputRows"] for one in progress if one["numInputRows"]] != [25]
    assert topics.values(outgoing) != [] and len(topics.values(outgoing)) == 25
    assert sum(topics.committed("lag-tools", incoming).values()) == 25
    topics.add_partitions(incoming, 3)
    topics.produce(incoming, [("new", "row-25")], partition=2)
    stream.run(incoming, outgoing, groupId="lag-tools")
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(26))
    assert topics.committed("lag-tools", incoming)[2] == 1


def test_a_new_query_begins_where_a_group_stands(stream: Stream, topics: Topics, spark: SparkSession) -> None:
    topic = topics.new(1)
    topics.fill(topic, 0, 10)
    stream.run(topic, groupId=f"group-of-{topic}")
    topics.fill(topic, 10, 13)
    reader = spark.read.format("ottla").options(**topics.options).option("subscribe", topic)
    frame = reader.option("startingOffsets", "group").option("groupId", f"group-of-{topic}").load()
    assert in_order(frame, "offset") == [(10,), (11,), (12,)]


def test_gaps_in_the_offsets_are_no_loss(stream: Stream, read: Read, topics: Topics, spark: SparkSession) -> None:
    """A log whose offsets are those of an aborted job, of markers and of rows: only the rows count."""
    topic, outgoing = topics.new(1), topics.new(1)
    poison = spark.range(0, 500, 1, 1).selectExpr("if(id < 499, 'lost', raise_error('poison')) value")
    with pytest.raises(PySparkException):
        poison.write.format("ottla").options(**topics.options).option("topic", topic).mode("append").save()
    good = spark.sql("select 'kept' value")
    good.write.format("ottla").options(**topics.options).option("topic", topic).mode("append").save()
    assert read(topic, **{"kafka.isolation.level": "read_committed"}).count() == 1
    stream.run(topic, outgoing, **{"kafka.isolation.level": "read_committed"})
    assert topics.values(outgoing) == ["kept"]


def test_a_topic_that_was_deleted_and_created_again_ends_the_query(stream: Stream, topics: Topics) -> None:
    incoming, outgoing = topics.new(1), topics.new(1)
    topics.fill(incoming, 0, 5)
    stream.run(incoming, outgoing)
    topics.delete(incoming)
    _until_created(topics, incoming)
    topics.fill(incoming, 5, 15)
    with pytest.raises(PySparkException, match=f"{incoming} was deleted and created again"):
        stream.run(incoming, outgoing)
    assert len(topics.values(outgoing)) == 5
    stream.run(incoming, outgoing, failOnDataLoss="false")
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(15))


def _until_created(topics: Topics, topic: str) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            topics.create(topic, 1)
            return
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_the_sink_writes_at_least_once_if_so_told(stream: Stream, topics: Topics) -> None:
    incoming, outgoing = topics.new(1), topics.new(1)
    topics.fill(incoming, 0, 20)
    stream.run(incoming, outgoing, sink_deliveryGuarantee="at_least_once")
    assert len(topics.values(outgoing, "read_uncommitted")) == 20


def test_a_query_in_update_mode_writes_what_changed(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    incoming, outgoing = topics.new(1), topics.new(1)

    def run(mode: str, **trigger: Any) -> None:
        frame = spark.readStream.format("ottla").options(**topics.options, subscribe=incoming)
        counts = frame.option("startingOffsets", "earliest").load().groupBy("key").count()
        writer = counts.selectExpr("key", "concat(cast(key as string), cast(count as string)) value").writeStream
        writer = writer.format("ottla").options(**topics.options).outputMode(mode)
        while True:
            query = writer.trigger(**trigger).start(topic=outgoing, checkpointLocation=str(tmp_path / "checkpoint"))
            try:
                query.awaitTermination()
                return
            except PySparkException as failure:
                if SPARKS_LIMIT not in str(failure):
                    raise

    topics.produce(incoming, [("a", "1"), ("b", "1"), ("a", "2")])
    run("update", availableNow=True)
    assert sorted(topics.values(outgoing)) == ["a2", "b1"]
    topics.produce(incoming, [("b", "2")])
    run("update", availableNow=True)
    assert sorted(topics.values(outgoing)) == ["a2", "b1", "b2"]
    for name in ("continuous", "realTime"):
        with pytest.raises(ValueError, match=rf"trigger\({name}=.*spark-sql-kafka-0-10_2.13:{pyspark.__version__}"):
            run("append", **{name: "5 seconds"})
    # The batch sink is registered with this session, which is active: a pipeline has one of its own, and registers it
    # there, too.
    other = spark.newSession()
    register(other, BatchOfStream)
    register(other, BatchOfStream)
    assert other._jsparkSession.sessionState().dataSourceManager().dataSourceExists("ottla-batch")
    assert SparkSession.getActiveSession() is not other


def test_a_batch_that_was_decided_is_not_written_again(stream: Stream, topics: Topics, tmp_path: Path) -> None:
    """Spark forgets that it committed the last batch, as if it had died right after the decision."""
    incoming, outgoing = topics.new(1), topics.new(1)
    topics.fill(incoming, 0, 10)
    stream.run(incoming, outgoing)
    commits = tmp_path / "checkpoint" / "commits"
    for file in (commits / "0", commits / ".0.crc"):
        file.unlink()
    topics.fill(incoming, 10, 20)
    stream.run(incoming, outgoing)
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(20))
    assert len(topics.values(outgoing, "read_uncommitted")) > 20


# Spark's own connector


@needs_official
@pytest.mark.parametrize("connector", ["kafka", "ottla"])
def test_the_documented_examples_work_with_both_connectors(
    connector: str, spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """The examples of Spark's Kafka integration guide, with nothing changed but the format's name."""
    servers = topics.bootstrap
    topic1, topic2, target = topics.new(2), topics.new(2), topics.new(2)
    for topic in (topic1, topic2):
        topics.fill(topic, 0, 30)
    df = (
        spark.read.format(connector)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", f"{topic1},{topic2}")
        .option("startingOffsets", f'{{"{topic1}":{{"0":3,"1":-2}},"{topic2}":{{"0":-2,"1":-2}}}}')
        .option("endingOffsets", f'{{"{topic1}":{{"0":5,"1":-1}},"{topic2}":{{"0":-1,"1":-1}}}}')
        .load()
    )
    read = df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    assert df.where(f"topic = '{topic1}' and partition = 0").count() == 2
    headers = (
        spark.read.format(connector)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribePattern", f"{topic1}|{topic2}")
        .option("includeHeaders", "true")
        .load()
    )
    assert headers.selectExpr("CAST(key AS STRING)", "headers").where("headers is null").count() == 60
    streamed = (
        spark.readStream.format(connector)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic1)
        .option("startingOffsets", "earliest")
        .load()
    )
    ds = (
        streamed.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
        .writeStream.format(connector)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    ds.awaitTermination()
    assert sorted(topics.values(target)) == sorted(f"row-{number}" for number in range(30))
    writer = read.limit(5).write.format(connector).option("kafka.bootstrap.servers", servers).option("topic", target)
    writer.save()
    assert len(topics.values(target)) == 35


@needs_official
def test_a_query_of_sparks_connector_goes_on_with_ours(stream: Stream, topics: Topics) -> None:
    """The same checkpoint, the other format's name: nothing is read twice, nothing is passed over."""
    incoming, outgoing = topics.new(2), topics.new(1)
    topics.fill(incoming, 0, 20)
    stream.run(incoming, outgoing, source="kafka", sink="kafka")
    topics.fill(incoming, 20, 40)
    stream.run(incoming, outgoing)
    assert sorted(topics.values(outgoing)) == sorted(f"row-{number}" for number in range(40))
