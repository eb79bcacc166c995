"""Brokers that come back changed while Ottla's client goes on: a log that was cut, another port, a topic made anew."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.errors import LogTruncated
from tests.interop.conftest import ON_KAFKA, StartServer
from tests.interop.servers import Server, free_port

TOPIC = "cut"
QUICK: dict[str, Any] = {
    "metadata_max_age_ms": 300,
    "retry_backoff_ms": 50,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 100,
}


async def write(server: Server, values: list[bytes], topic: str = TOPIC) -> None:
    async with Producer(bootstrap_servers=server.bootstrap, **QUICK) as producer:
        for value in values:
            await producer.send(topic, value)


async def read(consumer: Consumer[bytes | None, bytes | None], count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with asyncio.timeout(120):
        while len(found) < count:
            found += [record.value for record in await consumer.poll(500)]
    return found


def numbered(first: int, last: int, name: bytes = b"old") -> list[bytes]:
    return [b"%s %d" % (name, number) for number in range(first, last)]


def cut_off(server: Server) -> None:
    """While the server is down, its log loses everything."""
    for file in (server.data / f"{TOPIC}-0").iterdir():
        if file.suffix in (".log", ".index", ".timeindex", ".snapshot") or file.name == "leader-epoch-checkpoint":
            file.unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (server.data / name).unlink(missing_ok=True)


async def cut_and_written_anew(server: Server) -> None:
    """The next leader epoch begins with an empty log, and soon has more records than the one before had."""
    server.stop()
    cut_off(server)
    server.start()
    await write(server, numbered(0, 20, b"new"))


def test_a_consumer_notices_that_the_log_was_cut_and_written_anew(start_server: StartServer) -> None:
    server = start_server()

    async def work() -> None:
        async with Admin(bootstrap_servers=server.bootstrap) as admin:
            await admin.create_topic(TOPIC, 1)
        await write(server, numbered(0, 10))
        settings = {"bootstrap_servers": server.bootstrap, **QUICK}
        async with (
            Consumer(auto_offset_reset="earliest", **settings) as lenient,
            Consumer(auto_offset_reset="none", **settings) as strict,
            Consumer(auto_offset_reset="none", **settings) as later,
        ):
            for consumer in (lenient, strict):
                consumer.assign([(TOPIC, 0)])
                consumer.seek((TOPIC, 0), 0)
                assert await read(consumer, 10) == numbered(0, 10)
            await cut_and_written_anew(server)
            # Offset 10 exists again: by offsets alone both would go on there, and never see the new records before it.
            assert await read(lenient, 20) == numbered(0, 20, b"new")
            with pytest.raises(LogTruncated) as truncated:
                await read(strict, 1)
            assert (truncated.value.offset, truncated.value.divergent_offset or 0) == (10, 0)
            strict.seek((TOPIC, 0), 15)
            assert await read(strict, 5) == numbered(15, 20, b"new")
            # A committed offset carries its epoch, too.
            later.assign([(TOPIC, 0)])
            later.seek((TOPIC, 0), 10, leader_epoch=0)
            with pytest.raises(LogTruncated):
                await read(later, 1)

    asyncio.run(work())


def test_clients_go_on_when_the_broker_comes_back(start_server: StartServer, tmp_path: Path) -> None:
    """Nothing was cut: every leader epoch is a new one, and each time what was read is found to be there."""
    data, ports = tmp_path / "data", [free_port(), free_port()]
    server = start_server(data=data, on_kafka=ON_KAFKA, port=ports[0])
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)

    async def work(server: Server) -> None:
        async with Admin(bootstrap_servers=server.bootstrap) as admin:
            await admin.create_topic(TOPIC, 1)
        async with (
            Producer(bootstrap_servers=bootstrap, **QUICK) as producer,
            Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none", **QUICK) as consumer,
        ):
            consumer.assign([(TOPIC, 0)])
            consumer.seek((TOPIC, 0), 0)
            for turn in range(4):
                values = numbered(10 * turn, 10 * turn + 10)
                for value in values:
                    await producer.send(TOPIC, value)
                assert await read(consumer, 10) == values
                if turn == 0:
                    server.kill()
                    server.start()
                elif turn == 1:
                    server.stop()
                    server.start()
                elif turn == 2:
                    server.stop()
                    server = start_server(data=data, on_kafka=ON_KAFKA, port=ports[1])

    asyncio.run(work(server))


def test_a_topic_that_is_made_anew_is_read_and_written_from_its_start(start_server: StartServer) -> None:
    server = start_server("auto.create.topics.enable=false")  # or the clients make it anew, while they look for it

    async def work() -> None:
        async with (
            Admin(bootstrap_servers=server.bootstrap) as admin,
            Producer(bootstrap_servers=server.bootstrap, **QUICK) as producer,
            Consumer(bootstrap_servers=server.bootstrap, auto_offset_reset="earliest", **QUICK) as consumer,
        ):
            await admin.create_topic(TOPIC, 1)
            consumer.assign([(TOPIC, 0)])
            for value in numbered(0, 10):
                await producer.send(TOPIC, value)
            assert await read(consumer, 10) == numbered(0, 10)
            await admin.delete_topics([TOPIC])
            await admin.create_topic(TOPIC, 2)
            written = [await producer.send(TOPIC, value, partition=0) for value in numbered(0, 5, b"new")]
            assert [one.offset for one in written] == [0, 1, 2, 3, 4]
            assert await read(consumer, 5) == numbered(0, 5, b"new")
            assert await consumer.position(TopicPartition(TOPIC, 0)) == 5

    asyncio.run(work())
