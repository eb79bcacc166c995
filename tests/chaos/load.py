"""Numbered records through librdkafka, and the verdict on what a log holds of them."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")


def create(bootstrap: str, topic: str, partitions: int, replication_factor: int = 1, **config: str) -> None:
    admin = confluent_admin.AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([confluent_admin.NewTopic(topic, partitions, replication_factor, config=settings)])[
        topic
    ].result(120)


class Writer:
    """A producer that never rests: it numbers the records of each partition and notes which were acknowledged where."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any], rate: int = 3000
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self.acknowledged: dict[int, dict[int, int]] = defaultdict(dict)  # partition: number: offset
        self.failed: list[str] = []
        self.sent = [0] * partitions
        quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
        fixed = {"bootstrap.servers": bootstrap, "linger.ms": 1, "message.timeout.ms": 300_000, "log_level": 0, **quick}
        self._producer = confluent_kafka.Producer({**fixed, **settings})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()][int(message.value()[:10])] = message.offset()

    def _run(self) -> None:
        total = 0
        started = time.monotonic()
        while not self._stopping.is_set():
            partition = total % self._partitions
            value = b"%010d" % self.sent[partition] + b"x" * (total % 400)
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
                continue
            self.sent[partition] += 1
            total += 1
            self._producer.poll(0)
            if total % 50 == 0:
                time.sleep(max(0.0, started + total / self._rate - time.monotonic()))

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def wait_for(self, count: int, timeout_seconds: float = 200) -> None:
        """Wait until this many more records are acknowledged."""
        goal = self.acknowledged_count + count
        end = time.monotonic() + timeout_seconds
        while self.acknowledged_count < goal:
            assert time.monotonic() < end, f"no progress: {self.acknowledged_count} of {goal}, {self.failed[:3]}"
            time.sleep(0.02)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(300)


def read_all(bootstrap: str, topic: str, partition: int, **settings: Any) -> list[tuple[int, int]]:
    """(offset, number) of every record of a partition."""
    fixed = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    consumer = confluent_kafka.Consumer({**fixed, "enable.partition.eof": True, **settings})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        records: list[tuple[int, int]] = []
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for message in consumer.consume(1000, 0.2):
                if message.error() is not None:
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                    return records
                records.append((message.offset(), int(message.value()[:10])))
        pytest.fail(f"{topic}-{partition}: no end after {len(records)} records")
    finally:
        consumer.close()
