"""A full disk: writes are refused with an error, reads and metadata go on, and room makes it work again by itself."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.conftest import NewServer, small_file_system
from tests.chaos.load import confluent_kafka, create
from tests.interop.conftest import ON_KAFKA

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka ends when its only log dir fails")

MIB = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from small_file_system(tmp_path, "48m")


def free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def produce_one(bootstrap: str, topic: str, value: bytes, timeout_ms: int = 60_000) -> tuple[str | None, int]:
    """(error name, offset) of one record."""
    outcome: list[tuple[str | None, int]] = []
    settings = {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "acks": "all", "log_level": 0}
    producer = confluent_kafka.Producer({**settings, "retries": 0})
    producer.produce(
        topic,
        value,
        partition=0,
        on_delivery=lambda error, message: outcome.append((error.name() if error else None, message.offset())),
    )
    producer.flush(timeout_ms / 1000 + 60)
    return outcome[0]


def read_values(bootstrap: str, topic: str) -> list[bytes]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True, "log_level": 0}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while True:
            message = consumer.poll(120)
            assert message is not None, "no answer to a fetch"
            if message.error() is not None:
                return values
            values.append(message.value())
    finally:
        consumer.close()


@pytest.mark.timeout(900)
def test_a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself(
    start_server: NewServer, small_disk: Path
) -> None:
    server = start_server(data=small_disk / "data")
    create(server.bootstrap, "full", 1)
    filler = small_disk / "filler"
    filler.write_bytes(b"\x01" * max(0, free(small_disk) - 4 * MIB))
    acknowledged: dict[int, bytes] = {}
    error: str | None = None
    for number in range(200):
        value = b"%06d" % number * 16_000
        error, offset = produce_one(server.bootstrap, "full", value)
        if error is not None:
            break
        acknowledged[offset] = value
    assert error is not None, "the disk never filled"
    assert len(acknowledged) > 10
    assert server.is_running()
    assert server.answers()
    assert read_values(server.bootstrap, "full") == list(acknowledged.values())
    assert produce_one(server.bootstrap, "full", b"x" * 100_000)[0] is not None
    assert server.answers()

    filler.unlink()
    end = time.monotonic() + 120
    while time.monotonic() < end:
        error, offset = produce_one(server.bootstrap, "full", b"there is room again")
        if error is None:
            break
        time.sleep(0.3)
    assert error is None, f"still {error} although there is room"
    assert offset == len(acknowledged)
    acknowledged[offset] = b"there is room again"
    assert read_values(server.bootstrap, "full") == list(acknowledged.values())
    create(server.bootstrap, "new", 1)
    server.kill()
    server.start()
    assert read_values(server.bootstrap, "full") == list(acknowledged.values())


@pytest.mark.timeout(900)
def test_a_node_that_starts_on_a_full_disk_serves_what_it_has(start_server: NewServer, small_disk: Path) -> None:
    server = start_server(data=small_disk / "data")
    create(server.bootstrap, "full", 1)
    assert produce_one(server.bootstrap, "full", b"kept")[0] is None
    server.stop()
    filler = small_disk / "filler"
    filler.write_bytes(b"\x01" * max(0, free(small_disk) - 64 * 1024))
    with filler.open("ab", buffering=0) as stream:
        for size in (4096, 512, 1):
            with contextlib.suppress(OSError):
                while True:
                    stream.write(b"\x01" * size)
    try:
        server.start()
    except Exception:
        filler.unlink()
        raise
    assert read_values(server.bootstrap, "full") == [b"kept"]
    filler.unlink()
    end = time.monotonic() + 120
    while time.monotonic() < end and produce_one(server.bootstrap, "full", b"more")[0] is not None:
        time.sleep(0.3)
    assert read_values(server.bootstrap, "full")[:2] == [b"kept", b"more"]
