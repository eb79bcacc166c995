"""Retention and compaction seen from outside: what goes, what stays, and that offsets are never used again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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


def eventually(claim: Callable[[], bool], what: str, timeout_seconds: float = 30) -> None:
    end = time.monotonic() + timeout_seconds
    while not claim():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def watermarks(clients: Clients, topic: str) -> tuple[int, int]:
    low, high = clients.consumer().get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=10)
    return low, high


def test_old_segments_go_by_time_and_offsets_go_on(server: Server, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic, retention_ms="60000", segment_bytes="1048576")
    producer = clients.producer()
    past = int(time.time() * 1000) - 3_600_000
    for _ in range(300):
        producer.produce(topic, b"x" * 10_000, partition=0, timestamp=past)
    assert producer.flush(20) == 0
    eventually(lambda: watermarks(clients, topic) == (300, 300), "everything is past its time")
    assert produce(producer, topic, [b"new"]) == [300]
    time.sleep(1)
    assert watermarks(clients, topic) == (300, 301)
    folder = server.data / f"{topic}-0"
    eventually(lambda: sum(file.stat().st_size for file in folder.glob("*.log")) < 1000, "the files are gone, too")


def test_the_oldest_segments_go_by_size(server: Server, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic, retention_bytes="2000000", segment_bytes="1048576")
    produce(clients.producer(), topic, [b"%06d" % number * 1700 for number in range(1000)])
    folder = server.data / f"{topic}-0"
    eventually(lambda: len(list(folder.glob("*.log"))) <= 3, "two segments and the active one are enough")
    low, high = watermarks(clients, topic)
    assert low > 500
    assert high == 1000
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
        assert producer.flush(20) == 0

    write(0, 10_000)
    time.sleep(2.1)
    write(10_000, 10_100)  # rolls the active segment, which is never compacted

    def left() -> list[Any]:
        consumer = clients.consumer(enable_partition_eof=True)
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        messages: list[Any] = []
        while True:
            message = consumer.poll(10)
            if message is None or message.error() is not None:
                return messages
            messages.append(message)

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
        printed = tools("dump-log", "--files", str(segment), "--deep-iteration")
        assert "isvalid: false" not in printed.out
    (offset,) = produce(clients.producer(compression_type=codec), topic + "-next", [b"a"])
    assert offset == 0
    producer.produce(topic, b"after", b"key 1", partition=0)
    assert producer.flush(10) == 0
    assert watermarks(clients, topic)[1] == 10_101
