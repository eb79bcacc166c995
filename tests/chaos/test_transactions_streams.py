"""Kafka Streams with processing.guarantee=exactly_once_v2: the application and the broker are killed at random, and
the words must still be counted exactly.

Slow (a JVM starts at every round): only with OTTLA_INTEROP_ALL=1, or when OTTLA_CHAOS_ROUNDS says how often.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.chaos.conftest import NewServer
from tests.chaos.load import create
from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "3"))
WANTED = os.environ.get("OTTLA_INTEROP_ALL") == "1" or "OTTLA_CHAOS_ROUNDS" in os.environ
WORDS = ("ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay")
PARTITIONS = 2
SETTINGS = (
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.session.timeout.ms=6000",
    "group.streams.min.heartbeat.interval.ms=500",
    "group.streams.heartbeat.interval.ms=500",
    "group.streams.initial.rebalance.delay.ms=0",
)
PROGRAMS = {"classic": "StreamsWordCount.java", "streams": "StreamsGroupApp.java"}
"""By `group.protocol`."""


class WordCount:
    """One instance of the application, which is started again and again on the same state folder."""

    def __init__(self, bootstrap: str, folder: Path, protocol: str) -> None:
        self._program = PROGRAMS[protocol]
        self._arguments = [bootstrap, "word-count", str(folder / "state"), "lines", "counts"]
        self._log = folder / "streams.out"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        script = kafka_anchor()
        assert script is not None
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(script), str(JAVA_SOURCES / self._program), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class Counts:
    """What a read_committed reader sees in the topic of counts, in order."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: dict[str, list[int]] = defaultdict(list)
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.assign([confluent_kafka.TopicPartition("counts", index, 0) for index in range(PARTITIONS)])

    def read(self, seconds: float) -> None:
        for message in self._consumer.consume(1000, seconds):
            if message.error() is None:
                self.seen[message.key().decode()].append(struct.unpack(">q", message.value())[0])

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))

    def wait_for(self, goal: int, seconds: float, words: WordCount) -> None:
        end = time.monotonic() + seconds
        while self.total < goal:
            assert time.monotonic() < end, f"{self.total} of {goal} counts\n{words.output()}"
            self.read(0.2)

    def close(self) -> None:
        self._consumer.close()


def feed(producer: Any, rng: Random, lines: int) -> Counter[str]:
    """Write lines of random words; how often each word was written."""
    written: Counter[str] = Counter()
    for _ in range(lines):
        words = rng.choices(WORDS, k=rng.randint(1, 6))
        written.update(words)
        producer.produce("lines", " ".join(words).encode(), partition=rng.randrange(PARTITIONS))
    assert producer.flush(60) == 0
    return written


@pytest.mark.skipif(not WANTED, reason="Kafka Streams: only with OTTLA_INTEROP_ALL=1 or OTTLA_CHAOS_ROUNDS")
@pytest.mark.skipif(kafka_anchor() is None, reason="Kafka Streams: no anchor script or no java")
@pytest.mark.timeout(900 + 90 * ROUNDS)
@pytest.mark.parametrize("protocol", PROGRAMS)
def test_words_are_counted_exactly_once_while_processes_are_killed(
    start_server: NewServer, tmp_path: Path, protocol: str
) -> None:
    rng = Random(21)
    server = start_server(*SETTINGS)
    create(server.bootstrap, "lines", PARTITIONS)
    create(server.bootstrap, "counts", PARTITIONS)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
    )
    application, counts = WordCount(server.bootstrap, tmp_path, protocol), Counts(server.bootstrap)
    try:
        application.start()
        written = feed(producer, rng, 300)
        counts.wait_for(written.total() // 2, 90, application)
        for number in range(ROUNDS):
            written += feed(producer, rng, 200)
            counts.read(rng.uniform(0, 1.0))
            if number % 3 != 1:
                application.kill()
            if number % 3 != 0:
                server.kill()
                server.start()
            written += feed(producer, rng, 100)
            if number % 3 != 1:
                application.start()
            counts.wait_for(counts.total + (written.total() - counts.total) // 2, 90, application)
        counts.wait_for(written.total(), 90, application)
        counts.read(2)
    finally:
        application.kill()
        counts.close()
    assert {word: len(numbers) for word, numbers in counts.seen.items()} == written
    for word, numbers in counts.seen.items():
        assert numbers == list(range(1, written[word] + 1)), f"{word}: counted out of turn"
