"""Kafka Streams with `group.protocol=streams` (KIP-1071): the broker makes its internal topics and assigns its tasks.

Slow (JVMs start): only with OTTLA_INTEROP_ALL=1. With OTTLA_INTEROP=kafka it runs against Apache Kafka."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.interop.conftest import new_server
from tests.interop.servers import Server, kafka_anchor
from tests.interop.streams_app import WORDS, Counts, Instance, described, has_all_tasks, wait_until

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

GROUP = "word-count"
PARTITIONS = 4
SETTINGS = (
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.session.timeout.ms=6000",
    "group.streams.min.heartbeat.interval.ms=1000",
    "group.streams.heartbeat.interval.ms=1000",
    "group.streams.initial.rebalance.delay.ms=1000",
)

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Kafka Streams: no anchor script or no java"),
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="JVMs for minutes: OTTLA_INTEROP_ALL=1 runs it"
    ),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = new_server(tmp_path / "data", SETTINGS)
    server.start()
    admin = confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap})
    topics = [confluent_admin.NewTopic(name, PARTITIONS, 1) for name in ("lines", "counts")]
    for created in admin.create_topics(topics).values():
        created.result()
    yield server
    server.stop()


def feed(producer: Any, rng: Random, line_count: int) -> Counter[str]:
    """Write lines of random words; how often each word was written."""
    written: Counter[str] = Counter()
    for _ in range(line_count):
        words = rng.choices(WORDS, k=rng.randint(1, 6))
        written.update(words)
        producer.produce("lines", " ".join(words).encode(), partition=rng.randrange(PARTITIONS))
    assert producer.flush(60) == 0
    return written


@pytest.mark.timeout(600)
def test_words_are_counted_exactly_with_one_of_two_instances_killed(
    server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rng = Random(5)
    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap})
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
    )
    request.addfinalizer(consumer.close)
    counts = Counts(consumer, [confluent_kafka.TopicPartition("counts", index, 0) for index in range(PARTITIONS)])
    written = feed(producer, rng, 100)
    instances = [Instance(server.bootstrap, tmp_path, f"app-{index}") for index in range(2)]
    for instance in instances:
        request.addfinalizer(instance.kill)
    wait_until(lambda: has_all_tasks(*instances), 240, lambda: described(*instances))
    written += feed(producer, rng, 200)
    counts.wait_for(written.total(), 120)
    killed, left = instances
    written += feed(producer, rng, 50)
    killed.kill()
    written += feed(producer, rng, 100)
    wait_until(lambda: has_all_tasks(left), 120, lambda: described(left))
    counts.wait_for(written.total(), 120)
    assert {word: list(range(1, count + 1)) for word, count in written.items()} == {
        word: sorted(seen) for word, seen in counts.seen.items()
    }
    topics = confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap}).list_topics().topics
    internal = {name: len(topic.partitions) for name, topic in topics.items() if name.startswith("word-count-")}
    assert sorted(name.rsplit("-", 1)[1] for name in internal) == ["changelog", "repartition"]
    assert set(internal.values()) == {PARTITIONS}
    left.stop()
    assert "failed" not in left.output
    assert server.is_running(), server.output()


def run_tool(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def ours(*arguments: str) -> str:
    return run_tool([sys.executable, "-m", "ottla", "kafka-streams-groups", *arguments])


def kafkas(*arguments: str) -> str:
    return run_tool([str(kafka_anchor()), "streams-groups", *arguments])


@pytest.mark.timeout(900)
def test_the_tool_prints_what_kafkas_tool_prints(
    server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap})
    feed(producer, Random(5), 100)
    instance = Instance(server.bootstrap, tmp_path, "app")
    request.addfinalizer(instance.kill)
    wait_until(lambda: has_all_tasks(instance), 240, lambda: described(instance))
    given = ("--bootstrap-server", server.bootstrap)

    def is_read() -> bool:
        """Every line is read, and the group changes no more."""
        rows = [row.split() for row in ours(*given, "--describe", "--group", GROUP).splitlines()]
        return len(rows) == 1 + 2 * PARTITIONS and all(row[-1] in ("0", "1") for row in rows[1:])

    wait_until(is_read, 120, lambda: ours(*given, "--describe", "--group", GROUP, "--verbose"))
    describe = ("--describe", "--group", GROUP)
    for arguments in (
        ("--list",),
        ("--list", "--state", "stable,empty"),
        describe,
        (*describe, "--verbose"),
        (*describe, "--members"),
        (*describe, "--members", "--verbose"),
        (*describe, "--state"),
        (*describe, "--state", "--verbose"),
        ("--delete", "--group", GROUP),
        ("--delete-offsets", "--group", GROUP, "--input-topic", "lines"),
        ("--reset-offsets", "--group", GROUP, "--input-topic", "lines", "--to-earliest", "--dry-run"),
    ):
        mine, original = ours(*given, *arguments).splitlines(), kafkas(*given, *arguments).splitlines()
        assert mine[:1] == original[:1], arguments
        assert sorted(mine) == sorted(original), arguments  # rows of equal hash come in another order
    shown = run_tool(
        [sys.executable, "-m", "ottla", "groups", "describe", GROUP, "--bootstrap-server", server.bootstrap]
    )
    assert "streams" in shown and "lines" in shown
    instance.stop()
    wait_until(lambda: "Empty" in ours(*given, *describe, "--state"), 60, lambda: ours(*given, *describe, "--state"))
    for more in (
        ("--reset-offsets", "--group", GROUP, "--all-input-topics", "--to-earliest", "--dry-run"),
        ("--reset-offsets", "--group", GROUP, "--input-topic", "lines:1", "--shift-by", "-3", "--dry-run", "--export"),
        ("--delete", "--group", "none"),
    ):
        assert ours(*given, *more) == kafkas(*given, *more), more
    told = ours(*given, "--reset-offsets", "--group", GROUP, "--all-input-topics", "--to-earliest", "--execute")
    assert len(re.findall(rf"{GROUP} +lines +\d +0", told)) == PARTITIONS
    told = ours(*given, "--delete", "--group", GROUP, "--delete-all-internal-topics")
    assert told == (
        f"Deletion of requested streams groups ('{GROUP}') was successful.\n"
        f"Deletion of associated internal topics of the streams groups ('{GROUP}') was successful.\n"
    )
    assert GROUP not in ours(*given, "--list")
    topics = confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap}).list_topics().topics
    assert [name for name in topics if name.startswith(f"{GROUP}-")] == []
