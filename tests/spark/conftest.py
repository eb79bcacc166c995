"""One broker and one Spark for all tests of a process. Spark needs Java 17; without it these tests are skipped.

OTTLA_TEST_KAFKA=1 runs them on Apache Kafka. What takes long (drivers that are killed, a cluster of workers, Spark
Connect) runs when OTTLA_INTEROP_ALL=1.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import StreamingQueryException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.run import PipelineRun
from ottla.spark.pipelines.run_loop import run_pipeline
from ottla.spark.pipelines.state import PipelineState
from tests.interop.conftest import shared_server
from tests.interop.servers import Server
from tests.spark.official import official_jars

HERE = Path(__file__).parent
SETTINGS = (
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "auto.create.topics.enable=false",
)
long = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="takes long: only with `make interop`")
SPARKS_LIMIT = "Python worker failed to connect back"
"""Spark gives the worker of a stream ten seconds to start, whatever else the machine has to do: then it starts again,
which is nothing that a test here is about."""
_numbers = itertools.count()


class Py4jSocket(socket.socket):
    """A connection with Spark's JVM. Those of threads that ended are collected at any time, in any later test of the
    process, and there they would be an unclosed socket."""

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        return Py4jSocket(fileno=accepted.detach()), address

    def __del__(self) -> None:
        self.close()


def _give_py4j_sockets() -> None:
    sockets = ModuleType("socket")
    vars(sockets).update(vars(socket), socket=Py4jSocket)
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        vars(import_module(name))["socket"] = sockets

    def get_request(server: AccumulatorTCPServer) -> tuple[socket.socket, Any]:
        accepted, address = server.socket.accept()
        return Py4jSocket(fileno=accepted.detach()), address

    setattr(AccumulatorTCPServer, "get_request", get_request)  # noqa: B010


_give_py4j_sockets()
# A failed query makes a logger that does not propagate. pytest gives its handlers to these, too, and PySpark sets its
# JSON formatter on each handler that such a logger is given: the captured logs of all later tests would be JSON.
setattr(PySparkLogger, "addHandler", logging.Logger.addHandler)  # noqa: B010


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)
            item.add_marker(pytest.mark.timeout(900))
            # Threads of py4j end with the JVM, and sockets with the process.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            if shutil.which("java") is None:
                item.add_marker(pytest.mark.skip(reason="Spark needs Java 17"))


@pytest.fixture(scope="module", autouse=True)
def rubbish_goes_with_its_module() -> Iterator[None]:
    """What Spark's sockets leave is collected here, where it is no error."""
    yield
    gc.collect()


class Topics:
    """Topics of a broker, and their records as others write and read them (librdkafka)."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.options = {"kafka.bootstrap.servers": bootstrap}
        self.connection = Connection(bootstrap)
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def new(self, partitions: int = 2, name: str = "topic", **config: str) -> str:
        topic = f"{name}-{os.getpid()}-{next(_numbers)}"
        self.create(topic, partitions, **config)
        return topic

    def create(self, topic: str, partitions: int = 2, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        for created in self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
            created.result()

    def delete(self, topic: str) -> None:
        for deleted in self.admin.delete_topics([topic]).values():
            deleted.result()

    def add_partitions(self, topic: str, count: int) -> None:
        for created in self.admin.create_partitions([NewPartitions(topic, count)]).values():
            created.result()

    def produce(self, topic: str, rows: Sequence[tuple[str | None, str | bytes | None]], **record: Any) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
        for key, value in rows:
            producer.produce(topic, key=key, value=value, **record)
        assert producer.flush(120) == 0

    def fill(self, topic: str, first: int, last: int) -> None:
        """Rows with keys and values that tell their number."""
        self.produce(topic, [(str(number), f"row-{number}") for number in range(first, last)])

    def values(self, topic: str, isolation_level: str = "read_committed") -> list[str]:
        """All values as text, in the order of their partitions and offsets."""
        return [value.decode() for value in self.raw_values(topic, isolation_level)]

    def raw_values(self, topic: str, isolation_level: str = "read_committed") -> list[bytes]:
        return [value for _, _, value, _ in self.records(topic, isolation_level)]

    def records(self, topic: str, isolation_level: str = "read_committed") -> list[tuple[Any, ...]]:
        """Partition, offset, value and headers of all records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reads-all",
                "isolation.level": isolation_level,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        count = len(self.admin.list_topics(topic).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
        found: list[tuple[Any, ...]] = []
        ended: set[Any] = set()
        while len(ended) < count:
            for message in consumer.consume(1000, 1):
                if message.error():
                    ended.add(message.partition())
                else:
                    place = message.partition(), message.offset()
                    found.append((*place, message.value() or b"", message.headers() or []))
        consumer.close()
        return sorted(found, key=lambda record: record[:2])

    def committed(self, group_id: str, topic: str) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group_id, "log_level": 0})
        count = len(self.admin.list_topics(topic).topics[topic].partitions)
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(count)], timeout=120)
        consumer.close()
        return {one.partition: one.offset for one in found if one.offset >= 0}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from shared_server(tmp_path_factory.mktemp("spark-broker"), SETTINGS)


@pytest.fixture(scope="session")
def topics(server: Server) -> Topics:
    return Topics(server.bootstrap)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("ottla-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        # Tests end before the JVM's second compiler is worth its time: with it they take twice as long on two cores.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.network.timeout", "900s")
        .config("spark.executor.heartbeatInterval", "60s")
        .config("spark.python.authenticate.socketTimeout", "300s")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    if (jars := official_jars()) is not None:
        builder = builder.config("spark.jars", jars)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, topics: Topics) -> Read:
    """A topic as a DataFrame: read(topic, option=value, ...)."""

    def made(topic: str | None = None, schema: str | None = None, source: str = "ottla", **options: str) -> DataFrame:
        reader = spark.read.format(source).options(**topics.options, **options)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load()

    return made


class Stream:
    """A query that is run until it has read what there is."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        self._spark = spark
        self._topics = topics
        self._folder = folder

    def run(
        self, topic: str | None, to: str | None = None, *, sink: str = "ottla", source: str = "ottla", **options: str
    ) -> list[dict[str, object]]:
        """Topic to topic, or into memory; options beginning with `sink_` are the sink's. The progress of each batch."""
        sinks = {name.removeprefix("sink_"): value for name, value in options.items() if name.startswith("sink_")}
        sources = {name: value for name, value in options.items() if not name.startswith("sink_")}
        reader = self._spark.readStream.format(source).options(**self._topics.options)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        frame = reader.options(**{"startingOffsets": "earliest", **sources}).load()
        if to is None:
            writer = frame.selectExpr("cast(value as string) value").writeStream.format("noop")
        else:
            writer = frame.select("key", "value").writeStream.format(sink).options(**self._topics.options, **sinks)
            writer = writer.option("topic", to)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint")).trigger(availableNow=True)
        progress: list[dict[str, object]] = []
        while True:
            query = writer.start()
            try:
                query.awaitTermination()
            except StreamingQueryException as failure:
                if SPARKS_LIMIT not in str(failure):
                    raise
            progress += [dict(one) for one in query.recentProgress]
            if query.exception() is None:
                return progress


@pytest.fixture
def stream(spark: SparkSession, topics: Topics, tmp_path: Path) -> Stream:
    return Stream(spark, topics, tmp_path)


class Runner:
    """Runs pipelines to the end of what is there."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        self._spark = spark
        self._topics = topics
        self.state = PipelineState(folder / "state")
        self.state.folder.mkdir()

    def run(self, pipeline: Pipeline) -> dict[str, Any]:
        """The status after the run, with flows and sources by their names."""
        while True:
            made = PipelineRun(pipeline, self._spark, self.state, self._topics.connection)
            try:
                run_pipeline(made, self.state, threading.Event(), lambda run: None, is_once=True)
                break
            except PipelineError as failure:
                if SPARKS_LIMIT not in str(failure):
                    raise
        status = made.status("done")
        return {
            **{flow["flow"]: flow for flow in status["flows"]},
            **{source["source"]: source for source in status["sources"]},
        }


@pytest.fixture
def runner(spark: SparkSession, topics: Topics, tmp_path: Path) -> Runner:
    return Runner(spark, topics, tmp_path)


def pipeline_of(
    topics: Topics,
    folder: Path,
    source: dict[str, Any],
    flow: dict[str, Any],
    more_flows: dict[str, Any] | None = None,
    **more: Any,
) -> Pipeline:
    """A pipeline of one source, `rows`, that is a new topic with the pipeline's name, and the flow `rows`."""
    topic = topics.new(1)
    flows = {"rows": flow, **(more_flows or {})}
    document = {"name": topic, "sources": {"rows": {"topic": topic, **source}}, "flows": flows, **more}
    return parse_pipeline(folder, document, {})
