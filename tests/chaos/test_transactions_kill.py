"""kill -9 of the broker under real transactional producers: no reader finds a record lost, doubled,
torn from its transaction or leaked out of an aborted one."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.chaos.conftest import NewServer
from tests.chaos.load import Writer, create, read_all
from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")

ROUNDS = max(2, int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4")) // 2)
SETTINGS = (
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
    "log.segment.bytes=1048576",
)
PARTITIONS = 3
QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "log_level": 0,
    # When librdkafka 2.16 bootstraps anew, its TxnOffsetCommit waits for ever for a broker that it has put away; so it
    # does with Apache Kafka.
    "metadata.recovery.strategy": "none",
}


class Repeated:
    """A thread that does something over and over, and begins anew when the client fails it."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self._work = work
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.restarts = 0
        self.bug: BaseException | None = None
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work(self._stopping)
            except confluent_kafka.KafkaException:
                self.restarts += 1
            except BaseException as failure:  # told by the main thread
                self.bug = failure
                return

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(300)
        assert not self._thread.is_alive()
        if self.bug is not None:
            raise self.bug


class Transfers:
    """Transactions that move amounts between partitions of two topics. What became of each is noted."""

    TOPICS = ("left", "right")

    def __init__(self, bootstrap: str, name: str, seed: int) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 10_000,
            "linger.ms": 0,
            **QUICK,
        }
        self._name = name
        self._rng = Random(seed)
        self._number = 0
        self.outcomes: dict[str, str] = {}
        self.parts: dict[str, int] = {}

    def run(self, stopping: threading.Event) -> None:
        producer = confluent_kafka.Producer(self._settings)
        producer.init_transactions(120)
        while not stopping.is_set():
            self._transfer(producer)

    def _transfer(self, producer: Any) -> None:
        self._number += 1
        transfer = f"{self._name}.{self._number}"
        self.parts[transfer] = 2 * self._rng.randint(1, 3)
        amount = self._rng.randint(1, 100)
        commits = self._rng.random() < 0.75
        self.outcomes[transfer] = "unknown"
        producer.begin_transaction()
        for part in range(self.parts[transfer]):
            topic = self.TOPICS[part % 2]
            value = f"{transfer} {part} {amount if part % 2 else -amount}".encode()
            producer.produce(topic, value, partition=self._rng.randrange(PARTITIONS))
            producer.poll(0)
        if commits:
            producer.commit_transaction(120)
            self.outcomes[transfer] = "committed"
        else:
            if self._rng.random() < 0.7:
                producer.flush(120)
            producer.abort_transaction(120)
            self.outcomes[transfer] = "aborted"

    def count(self, outcome: str) -> int:
        return list(self.outcomes.values()).count(outcome)


def reader(bootstrap: str, **settings: Any) -> Any:
    fixed = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    return confluent_kafka.Consumer({**fixed, **QUICK, **settings})


class Watcher:
    """A read_committed reader that is there all the time: what it once saw must not change."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.seen: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)

    def run(self, stopping: threading.Event) -> None:
        consumer = reader(self._bootstrap)
        try:
            places = [(topic, index) for topic in Transfers.TOPICS for index in range(PARTITIONS)]
            consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in places])
            while not stopping.is_set():
                for message in consumer.consume(500, 0.2):
                    if message.error() is None:
                        place = self.seen[message.topic(), message.partition()]
                        place[message.offset()] = message.value().decode()
        finally:
            consumer.close()


def read_values(bootstrap: str, topic: str, partition: int) -> dict[int, str]:
    """What a new read_committed reader finds: offset and value."""
    consumer = reader(bootstrap, **{"enable.partition.eof": True})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        found: dict[int, str] = {}
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for message in consumer.consume(1000, 0.2):
                if message.error() is not None:
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                    return found
                found[message.offset()] = message.value().decode()
        pytest.fail(f"{topic}-{partition}: no end after {len(found)} records")
    finally:
        consumer.close()


def wait_until(holds: Callable[[], bool], what: Callable[[], str], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.02)


def kill_and_restart(server: Server, rng: Random) -> None:
    time.sleep(rng.uniform(0, 0.5))
    server.kill()
    server.start()


@pytest.mark.timeout(900 + 150 * ROUNDS)
def test_transfers_are_whole_or_not_there(start_server: NewServer) -> None:
    server = start_server(*SETTINGS)
    for topic in Transfers.TOPICS:
        create(server.bootstrap, topic, PARTITIONS)
    rng = Random(31)
    transfers = [Transfers(server.bootstrap, f"w{number}", number) for number in range(3)]
    watcher = Watcher(server.bootstrap)
    threads = [*(Repeated(each.run) for each in transfers), Repeated(watcher.run)]
    try:
        for _ in range(ROUNDS + 1):
            goals = [each.count("committed") + 25 for each in transfers]
            wait_until(
                lambda goals=goals: all(  # type: ignore[misc]
                    each.count("committed") >= goal for each, goal in zip(transfers, goals, strict=True)
                ),
                lambda: f"{[Counter(each.outcomes.values()) for each in transfers]}",
            )
            kill_and_restart(server, rng)
    finally:
        for thread in threads[:-1]:
            thread.stop()
    for each in transfers:  # the next producer of an id ends what the one before left open
        confluent_kafka.Producer(each._settings).init_transactions(120)
    found = {
        (topic, index): read_values(server.bootstrap, topic, index)
        for topic in Transfers.TOPICS
        for index in range(PARTITIONS)
    }
    wait_until(
        lambda: sum(map(len, watcher.seen.values())) >= sum(map(len, found.values())), lambda: "the watcher saw less"
    )
    threads[-1].stop()
    assert dict(watcher.seen) == {place: values for place, values in found.items() if values}
    parts: dict[str, list[int]] = defaultdict(list)
    total = 0
    for values in found.values():
        latest: dict[str, int] = {}
        for _, value in sorted(values.items()):
            transfer, part, amount = value.split()
            parts[transfer].append(int(part))
            total += int(amount)
            name, _, number = transfer.partition(".")
            assert latest.get(name, 0) <= int(number), f"{transfer} comes after {name}.{latest[name]}"
            latest[name] = int(number)
    assert total == 0
    for each in transfers:
        for transfer, outcome in each.outcomes.items():
            seen = sorted(parts.pop(transfer, []))
            whole = list(range(each.parts[transfer]))
            allowed: dict[str, list[list[int]]] = {"committed": [whole], "aborted": [[]], "unknown": [[], whole]}
            assert seen in allowed[outcome], f"{transfer} is {outcome}, but {seen} of {whole} are there"
        assert each.count("aborted") > 0
    assert not parts


class Mover:
    """librdkafka moves records from one topic to another, together with the offsets of its group."""

    def __init__(self, bootstrap: str, source: str, sink: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._source = source
        self._sink = sink
        self._name = name
        self._rng = Random(5)
        self.commits = 0
        self.aborts = 0

    def run(self, stopping: threading.Event) -> None:
        consumer = reader(self._bootstrap, **{"group.id": self._name, "session.timeout.ms": 6000})
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": self._name, "linger.ms": 0, **QUICK}
        try:
            producer = confluent_kafka.Producer({**settings, "transaction.timeout.ms": 10_000})
            producer.init_transactions(120)
            consumer.subscribe([self._source])
            while not stopping.is_set():
                messages = [each for each in consumer.consume(200, 0.2) if each.error() is None]
                if messages:
                    self._move(consumer, producer, messages)
        finally:
            consumer.close()

    def _move(self, consumer: Any, producer: Any, messages: list[Any]) -> None:
        ends: dict[int, int] = {}
        starts: dict[int, int] = {}
        producer.begin_transaction()
        for message in messages:
            starts.setdefault(message.partition(), message.offset())
            ends[message.partition()] = message.offset() + 1
            producer.produce(self._sink, message.value(), partition=message.partition())
        offsets = [confluent_kafka.TopicPartition(self._source, *each) for each in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 120)
        if self._rng.random() < 0.15:
            producer.abort_transaction(120)
            for each in starts.items():
                consumer.seek(confluent_kafka.TopicPartition(self._source, *each))
            self.aborts += 1
        else:
            producer.commit_transaction(120)
            self.commits += 1


class JavaMover:
    """The same with Java's clients: java/TokenMover.java."""

    def __init__(self, bootstrap: str, source: str, sink: str, name: str, log: Path) -> None:
        script = kafka_anchor()
        assert script is not None
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(script), str(JAVA_SOURCES / "TokenMover.java"), bootstrap, source, sink, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def stop(self) -> tuple[int, int, int]:
        """Commits, aborts and new beginnings."""
        out, _ = self._process.communicate(timeout=60)
        commits, aborts, failures = map(int, out.split())
        return commits, aborts, failures

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def committed_numbers(server: Server, topic: str, partition: int) -> list[int]:
    settings = {"isolation.level": "read_committed"}
    return [number for _, number in read_all(server.bootstrap, topic, partition, **settings)]


@pytest.mark.skipif(kafka_anchor() is None, reason="Java's clients: no anchor script or no java")
@pytest.mark.timeout(900 + 150 * ROUNDS)
def test_tokens_move_through_java_and_librdkafka_exactly_once(start_server: NewServer, tmp_path: Path) -> None:
    """first -> second by Java, second -> third by librdkafka; each token is in each topic once and in order."""
    server = start_server(*SETTINGS)
    for topic in ("first", "second", "third"):
        create(server.bootstrap, topic, PARTITIONS)
    rng = Random(41)
    java = JavaMover(server.bootstrap, "first", "second", "java-mover", tmp_path / "mover.err")
    mover = Mover(server.bootstrap, "second", "third", "librdkafka-mover")
    thread = Repeated(mover.run)
    writer = Writer(server.bootstrap, "first", PARTITIONS, {"enable.idempotence": True, **QUICK}, rate=400)
    try:
        for _ in range(ROUNDS):
            before = mover.commits
            wait_until(lambda before=before: mover.commits >= before + 3, java.output)  # type: ignore[misc]
            kill_and_restart(server, rng)
        wait_until(lambda before=mover.commits: mover.commits >= before + 3, java.output)  # type: ignore[misc]
        writer.stop()
        assert not writer.failed
        for partition in range(PARTITIONS):
            expected = list(range(writer.sent[partition]))
            for topic in ("second", "third"):
                wait_until(
                    lambda topic=topic, partition=partition, expected=expected: (  # type: ignore[misc]
                        len(committed_numbers(server, topic, partition)) >= len(expected)
                    ),
                    lambda topic=topic: f"tokens are missing in {topic}\n{java.output()}",  # type: ignore[misc]
                )
        thread.stop()
        commits, aborts, _ = java.stop()
        for partition in range(PARTITIONS):
            for topic in ("second", "third"):
                assert committed_numbers(server, topic, partition) == list(range(writer.sent[partition])), topic
        assert min(commits, aborts, mover.commits, mover.aborts) > 0
    finally:
        writer.stop()
        thread.stop()
        java.kill()
