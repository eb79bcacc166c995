"""A group of librdkafka's consumers under load: what it was promised, and the verdict on what a broker kept of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")

TopicPartition = confluent_kafka.TopicPartition
PATIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "log_level": 0,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
KINDS: dict[str, dict[str, Any]] = {
    "eager": {"partition.assignment.strategy": "range", "session.timeout.ms": 8000, "heartbeat.interval.ms": 300},
    "cooperative": {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 8000,
        "heartbeat.interval.ms": 300,
    },
    "consumer": {"group.protocol": "consumer"},
}


class Promises:
    """What all members of a group have seen: acknowledged commits and the records that they read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: dict[int, int] = defaultdict(int)
        self.attempted: dict[int, int] = defaultdict(int)
        self.read: Counter[tuple[int, int]] = Counter()
        self.commits = 0

    def attempt(self, offsets: dict[int, int]) -> None:
        with self._lock:
            for partition, offset in offsets.items():
                self.attempted[partition] = max(self.attempted[partition], offset)

    def acknowledge(self, offsets: dict[int, int]) -> None:
        with self._lock:
            self.commits += 1
            for partition, offset in offsets.items():
                self.acknowledged[partition] = max(self.acknowledged[partition], offset)


class Member:
    """One consumer on a thread of its own that commits whatever it read, again and again."""

    def __init__(self, bootstrap: str, group: str, topic: str, promises: Promises, settings: dict[str, Any]) -> None:
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, **PATIENT, **settings}
        )
        self._topic = topic
        self._promises = promises
        self.owned: frozenset[int] = frozenset()
        self.fatal: list[str] = []
        self._stopping = threading.Event()
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(200, 0.05)
            self.owned = frozenset(each.partition for each in self._consumer.assignment())
            offsets: dict[int, int] = {}
            for message in messages:
                if message.error() is not None:
                    if message.error().fatal():
                        self.fatal.append(str(message.error()))
                    continue
                self._promises.read[message.partition(), message.offset()] += 1
                offsets[message.partition()] = message.offset() + 1
            if offsets:
                self._commit(offsets)

    def _commit(self, offsets: dict[int, int]) -> None:
        wish = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        self._promises.attempt(offsets)
        with contextlib.suppress(confluent_kafka.KafkaException):  # it promised nothing
            answer = self._consumer.commit(offsets=wish, asynchronous=False)
            self._promises.acknowledge({each.partition: each.offset for each in answer if each.error is None})

    def leave(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()
        self.owned = frozenset()


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """What the broker knows of a group's offsets (0 where it knows none)."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, **PATIENT})
    try:
        wish = [TopicPartition(topic, partition) for partition in range(partitions)]
        end = time.monotonic() + 120
        while True:
            try:
                found = consumer.committed(wish, timeout=10)
                break
            except confluent_kafka.KafkaException:
                if time.monotonic() > end:
                    raise
        return {each.partition: max(0, each.offset) for each in found}
    finally:
        consumer.close()


def wait_for_shares(members: list[Member], partition_count: int, timeout_seconds: float = 200) -> None:
    """Wait until every partition has exactly one owner and no member owns two partitions more than another member."""
    end = time.monotonic() + timeout_seconds
    while True:
        owned = [member.owned for member in members]
        sizes = sorted(map(len, owned))
        if sum(sizes) == len(frozenset().union(*owned)) == partition_count and sizes[-1] - sizes[0] <= 1:
            return
        assert time.monotonic() < end, f"the group does not recover: {[sorted(each) for each in owned]}"
        time.sleep(0.05)
