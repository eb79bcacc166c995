"""Retention and compaction seen from outside: what goes, what stays, and that offsets are never used again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import new_server
from tests.interop.servers import Server
from tests.interop.test_librdkafka import Clients, create, produce
from tests.interop.toolbox import Toolbox

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

QUICK = [
    "log.retention.check.interval.ms=300",
    "log.cleaner.backoff.ms=200",
    "log.initial.task.delay.ms=300",
    "log.segment.delete.delay.ms=100",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that cleans up all the time."""
    started = new_server(tmp_path_factory.mktemp("cleanup") / "data", QUICK)
    started.start()
    yield started
    started.kill()


@pytest.fixture
def clients(server: Server) -> Iterator[Clients]:
    opened = Clients(server.bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def admin(server: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap})


def eventually(claim: Callable[[], bool], what: str, timeout_seconds: float = 120) -> None:
    end = time.monotonic() + timeout_seconds
    while not claim():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def watermarks(clients: Clients, topic: str) -> tuple[int, int]:
    consumer = clients.consumer()
    try:
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=120)
        return low, high
    finally:
        consumer.close()


def segment_sizes(folder: Path) -> list[int]:
    """The bytes of each segment, oldest first, without those that go while they are looked at."""
    sizes = []
    for file in sorted(folder.glob("*.log")):
        with contextlib.suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return sizes


def test_old_segments_go_by_time_and_offsets_go_on(server: Server, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic, retention_ms="1800000", segment_bytes="1048576")
    producer = clients.producer()
    past = int(time.time() * 1000) - 3_600_000
    for _ in range(300):
        producer.produce(topic, b"x" * 10_000, partition=0, timestamp=past)
    assert producer.flush(120) == 0
    eventually(lambda: watermarks(clients, topic) == (300, 300), "everything is past its time")
    assert produce(producer, topic, [b"new"]) == [300]
    folder = server.data / f"{topic}-0"
    eventually(lambda: sum(segment_sizes(folder)) < 1000, "the files are gone, too")
    time.sleep(1)  # a few more looks at what may go
    assert watermarks(clients, topic) == (300, 301)


def test_the_oldest_segments_go_by_size(server: Server, admin: Any, clients: Clients, topic: str) -> None:
    """How many segments stay depends on their sizes, and these on the client's batches; what is sure is that the oldest
    one is still needed to reach the limit."""
    limit = 2_000_000
    create(admin, topic, retention_bytes=str(limit), segment_bytes="1048576")
    produce(clients.producer(), topic, [b"%06d" % number * 1700 for number in range(1000)])
    folder = server.data / f"{topic}-0"
    eventually(lambda: sum(segment_sizes(folder)[1:]) < limit, "what is beyond the limit goes")
    assert sum(segment_sizes(folder)) >= limit
    low, high = watermarks(clients, topic)
    assert 500 < low < high == 1000
    read = clients.read(topic, high - low, offset=low)
    assert [message.value()[:6] for message in read] == [b"%06d" % number for number in range(low, high)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_compaction_keeps_the_last_value_of_each_key_at_its_offset(
    server: Server, admin: Any, clients: Clients, topic: str, codec: str, tools: Toolbox
) -> None:
    create(
        admin,
        topic,
        cleanup_policy="compact",
        segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="0",
        max_compaction_lag_ms="1000",
        segment_ms="2000",
    )
    producer = clients.producer(compression_type=codec, linger_ms=2)
    last: dict[bytes, tuple[int, bytes | None]] = {}

    def write(start: int, stop: int) -> None:
        for number in range(start, stop):
            key = b"key %d" % (number % 50)
            value = None if number % 50 == 7 and number > 5000 else b"%d " % number * 20
            producer.produce(topic, value, key, partition=0)
            last[key] = (number, value)
        assert producer.flush(120) == 0

    write(0, 10_000)
    time.sleep(2.1)
    write(10_000, 10_100)  # rolls the active segment, which is never compacted

    def left() -> list[Any]:
        consumer = clients.consumer(enable_partition_eof=True)
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        messages: list[Any] = []
        while (message := consumer.poll(120)).error() is None:
            messages.append(message)
        assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
        consumer.close()
        return messages

    eventually(lambda: len(left()) <= 250, "compaction leaves about one record per key and segment")
    messages = left()
    offsets = [message.offset() for message in messages]
    assert offsets == sorted(offsets)
    found = {message.key(): (message.offset(), message.value()) for message in messages}
    for key, (offset, value) in last.items():
        if value is not None:
            assert found[key] == (offset, value)
        elif key in found:
            assert found[key] == (offset, None)
    for segment in sorted((server.data / f"{topic}-0").glob("*.log")):
        printed = tools.run("dump-log", "--files", str(segment), "--deep-iteration")
        assert printed.code == 0 or not segment.exists(), printed
        assert "isvalid: false" not in printed.out
    (offset,) = produce(clients.producer(compression_type=codec), topic + "-next", [b"a"])
    assert offset == 0
    producer.produce(topic, b"after", b"key 1", partition=0)
    assert producer.flush(120) == 0
    assert watermarks(clients, topic)[1] == 10_101
