"""The connector on an Apache Kafka 4.3.1 with secured listeners, by the names of Spark's own Kafka connector.

OTTLA_INTEROP_ALL=1 runs it: it starts an Apache Kafka of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.interop.secured_kafka import SecuredKafka, running_kafka
from tests.interop.servers import kafka_anchor
from tests.spark.conftest import Topics

pytestmark = [
    pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="long: OTTLA_INTEROP_ALL=1 runs it"),
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
]
LIMIT_SECONDS = 120
Options = dict[str, str]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    yield from running_kafka(tmp_path_factory.mktemp("secured"))


@pytest.fixture
def topics(kafka: SecuredKafka) -> Topics:
    """What others see, over the listener in the open."""
    return Topics(kafka.bootstrap)


def options(settings: dict[str, str]) -> Options:
    return {f"kafka.{name}": value for name, value in settings.items()}


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "certificate"])
def test_rows_there_and_back(spark: SparkSession, kafka: SecuredKafka, topics: Topics, way: str) -> None:
    kafka.add_user("erin", "erin-hush")
    settings = {
        "PLAIN": lambda: kafka.plain(),
        "SCRAM-SHA-512": lambda: kafka.scram("erin", "erin-hush"),
        "certificate": lambda: kafka.certificate(),
    }[way]()
    topic = topics.new(2)
    rows = spark.range(1_000).selectExpr("cast(id as string) key", "concat('row-', id) value")
    rows.write.format("ottla").options(**options(settings), topic=topic).mode("append").save()
    assert sorted(topics.values(topic)) == sorted(f"row-{number}" for number in range(1_000))
    read = spark.read.format("ottla").options(**options(settings), subscribe=topic).load()
    assert read.count() == 1_000
    plan = read._jdf.queryExecution().toString()
    for secret in ("erin-hush", "alice-secret", "store-secret"):
        assert secret not in plan


@pytest.mark.parametrize("side", ["read", "write"])
def test_wrong_credentials_end_a_query_with_its_name(
    spark: SparkSession, kafka: SecuredKafka, topics: Topics, side: str
) -> None:
    topic = topics.new(1)
    wrong = options(kafka.plain("a wrong hush"))
    began_at = time.monotonic()
    with pytest.raises(PySparkException, match="refused user 'alice'") as failed:
        if side == "read":
            spark.read.format("ottla").options(**wrong, subscribe=topic).load().collect()
        else:
            rows = spark.range(3).selectExpr("cast(id as string) value")
            rows.write.format("ottla").options(**wrong, topic=topic).mode("append").save()
    assert time.monotonic() - began_at < 60, "Kafka's clients do not try refused credentials again"
    verb = "reads" if side == "read" else "writes to"
    assert f"the query that {verb} {topic}" in str(failed.value)
    assert "a wrong hush" not in str(failed.value)


def test_a_topic_is_queried_with_the_settings_of_a_file(kafka: SecuredKafka, topics: Topics, tmp_path: Path) -> None:
    topic = topics.new(2, name="orders").replace("-", "_")
    topics.create(topic)
    topics.fill(topic, 0, 30)
    file = tmp_path / "client.properties"
    settings = kafka.plain()
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    where = ["--broker", settings["bootstrap.servers"], "--command-config", str(file), "--output", "json"]
    found = subprocess.run(
        [sys.executable, "-m", "ottla", "sql", f"select count(*) as n from {topic}", *where],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_SECONDS,
        check=False,
    )
    assert '"n": 30' in found.stdout.replace('"n":30', '"n": 30'), found.stderr


def wait_until(condition: Callable[[], bool], query: StreamingQuery) -> None:
    ends_at = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < ends_at
        query.awaitTermination(1)


def test_credentials_that_expire_in_a_running_query(
    spark: SparkSession, kafka: SecuredKafka, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.new(2), topics.new(2)

    def started(password: str, *, is_once: bool = False) -> StreamingQuery:
        given = options(kafka.sessions("fay", password))
        reader = spark.readStream.format("ottla").options(**given, subscribe=source, startingOffsets="earliest")
        writer = reader.load().select("key", "value").writeStream.format("ottla").options(**given, topic=target)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).queryName("expiring")
        return (
            writer.trigger(availableNow=True) if is_once else writer.trigger(processingTime="100 milliseconds")
        ).start()

    kafka.add_user("fay", "hush-before")
    topics.fill(source, 0, 500)
    query = started("hush-before")
    wait_until(lambda: len(topics.values(target)) == 500, query)
    kafka.add_user("fay", "hush-after")
    topics.fill(source, 500, 1_000)
    with pytest.raises(StreamingQueryException, match="refused user 'fay'") as failed:
        for number in range(LIMIT_SECONDS):
            topics.fill(source, 1_000 + number, 1_001 + number)
            query.awaitTermination(1)
    message = str(failed.value)
    assert f"the query that reads {source}" in message or f"the query that writes to {target}" in message
    assert "hush" not in message
    started("hush-after", is_once=True).awaitTermination()
    assert sorted(topics.values(target)) == sorted(topics.values(source)), "a row was lost or doubled"
    kept = b"".join(file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file())
    assert kept
    assert b"hush" not in kept
