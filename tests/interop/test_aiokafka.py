"""aiokafka: producer, assigned consumer and admin client on asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.interop.servers import Server

aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")
aiokafka_admin = pytest.importorskip("aiokafka.admin", reason="aiokafka is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # the client's own deprecations


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 200))


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if hasattr(client, "close") else client.stop())


def admin(broker: Server) -> Any:
    return started(aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap))


def producer(broker: Server, **settings: Any) -> Any:
    return started(aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **settings))


def consumer(broker: Server, **settings: Any) -> Any:
    return started(aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, **settings))


async def create(broker: Server, topic: str, partitions: int = 1) -> None:
    async with admin(broker) as client:
        await client.create_topics([aiokafka_admin.NewTopic(topic, partitions, 1)])


async def read(broker: Server, topic: str, count: int, **settings: Any) -> list[Any]:
    async with consumer(broker, auto_offset_reset="earliest", **settings) as client:
        client.assign([aiokafka.TopicPartition(topic, 0)])
        records: list[Any] = []
        end = time.monotonic() + 120
        while len(records) < count and time.monotonic() < end:
            for batch in (await client.getmany(timeout_ms=200)).values():
                records += batch
        return records


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_in_order_with_every_codec(broker: Server, topic: str, codec: str | None) -> None:
    async def work() -> None:
        await create(broker, topic)
        values = [b"value %d" % number for number in range(2000)]
        async with producer(broker, compression_type=codec, acks="all", linger_ms=5) as client:
            futures = [await client.send(topic, value, b"k", 0, 1_700_000_000_000, [("h", b"1")]) for value in values]
            assert [(await future).offset for future in futures] == list(range(2000))
        records = await read(broker, topic, 2000)
        assert [record.value for record in records] == values
        assert {(record.key, record.headers, record.timestamp) for record in records} == {
            (b"k", (("h", b"1"),), 1_700_000_000_000)
        }

    run(work())


def test_an_idempotent_producer_keeps_order(broker: Server, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        async with producer(broker, enable_idempotence=True, max_batch_size=500) as client:
            futures = [await client.send(topic, b"%d" % number, partition=0) for number in range(3000)]
            assert [(await future).offset for future in futures] == list(range(3000))
        records = await read(broker, topic, 3000)
        assert [record.value for record in records] == [b"%d" % number for number in range(3000)]

    run(work())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_delivers(broker: Server, topic: str, acks: Any) -> None:
    async def work() -> None:
        await create(broker, topic)
        async with producer(broker, acks=acks) as client:
            for number in range(500):
                await client.send(topic, b"%d" % number, partition=0)
            await client.flush()
        assert len(await read(broker, topic, 500)) == 500

    run(work())


def test_offsets_seeks_and_small_fetches(broker: Server, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        start = int(time.time() * 1000) - 1_000_000
        async with producer(broker, max_batch_size=1000) as client:
            for number in range(500):
                await client.send(topic, b"%d" % number * 9, partition=0, timestamp_ms=start + number * 10)
            await client.flush()
        partition = aiokafka.TopicPartition(topic, 0)
        async with consumer(broker) as client:
            assert await client.beginning_offsets([partition]) == {partition: 0}
            assert await client.end_offsets([partition]) == {partition: 500}
            assert (await client.offsets_for_times({partition: start + 495}))[partition].offset == 50
            client.assign([partition])
            client.seek(partition, 321)
            assert (await client.getone()).offset == 321
        records = await read(broker, topic, 500, max_partition_fetch_bytes=1500, fetch_max_bytes=3000)
        assert [record.offset for record in records] == list(range(500))

    run(work())


def test_topics_configs_and_records_are_administered(broker: Server, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic, partitions=2)
        async with admin(broker) as client:
            assert topic in await client.list_topics()
            (described,) = await client.describe_topics([topic])
            assert len(described["partitions"]) == 2
            assert [node["node_id"] for node in (await client.describe_cluster())["brokers"]] == [1]
            resource = aiokafka_admin.config_resource.ConfigResource(
                aiokafka_admin.config_resource.ConfigResourceType.TOPIC, topic
            )
            (answer,) = await client.describe_configs([resource])
            names = {entry[0] for entry in answer.resources[0][4]}
            assert {"retention.ms", "cleanup.policy"} <= names
            await client.create_partitions({topic: aiokafka_admin.NewPartitions(3)})
            async with producer(broker) as sender:
                for _ in range(10):
                    await sender.send_and_wait(topic, b"x", partition=0)
            deleted = await client.delete_records(
                {aiokafka.TopicPartition(topic, 0): aiokafka_admin.RecordsToDelete(before_offset=4)}
            )
            assert deleted == {aiokafka.TopicPartition(topic, 0): 4}
            await client.delete_topics([topic])

    run(work())
