"""Our consumer without a group of several: reading, seeking, pausing, transactions, commits, a broker that dies."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from ottla.client.consumer import Consumer
from ottla.client.core.offsets import OffsetAndMetadata
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import DeserializationFailed, ErrorCode, KafkaError
from tests.interop.conftest import StartServer
from tests.interop.servers import Server
from tests.interop.test_librdkafka import CODECS, Clients, create, done, produce

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 200))


@pytest.fixture
def admin(broker: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def clients(broker: Server) -> Clients:
    return Clients(broker.bootstrap)


def consumer(broker: Server, **settings: Any) -> Consumer[bytes | None, bytes | None]:
    return Consumer(**{"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest", **settings})


async def take(reader: Consumer[Any, Any], count: int, timeout_ms: float = 120_000) -> list[Any]:
    """So many records, or what came in time."""
    found: list[Any] = []
    end = time.monotonic() + timeout_ms / 1000
    while len(found) < count and (left := end - time.monotonic()) > 0:
        found += await reader.poll(int(left * 1000))
    return found


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.05)


def values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_in_order_with_all_they_have(
    broker: Server, admin: Any, clients: Clients, topic: str, codec: str
) -> None:
    create(admin, topic, partitions=2)
    producer = clients.producer(compression_type=codec, linger_ms=20)
    for number in range(2_000):
        headers = [("number", b"%d" % number), ("null", None)] if number % 100 == 0 else None
        producer.produce(topic, b"value %d" % number, key=b"%d" % number, partition=number % 2, headers=headers)
    producer.produce(topic, None, key=b"tombstone", partition=0, timestamp=1_234)
    assert producer.flush(120) == 0

    async def read() -> None:
        async with consumer(broker) as reader:
            reader.assign([(topic, 0), (topic, 1)])
            found = await take(reader, 2_001)
            for partition in (0, 1):
                own = [record for record in found if record.partition == partition]
                assert [record.offset for record in own] == list(range(len(own)))
                assert values(own)[:1_000] == [b"value %d" % (2 * number + partition) for number in range(1_000)]
            first = next(record for record in found if record.value == b"value 0")
            assert first.headers == (("number", b"0"), ("null", None)) and first.key == b"0" and first.topic == topic
            last = [record for record in found if record.partition == 0][-1]
            assert (last.key, last.value, last.timestamp) == (b"tombstone", None, 1_234)

    run(read())


def test_more_than_one_fetch_can_carry_comes_without_gaps(
    broker: Server, admin: Any, clients: Clients, topic: str
) -> None:
    create(admin, topic)
    produce(clients.producer(linger_ms=5), topic, [b"%06d" % number + b"x" * 1_000 for number in range(5_000)])

    async def read() -> None:
        async with consumer(broker, max_partition_fetch_bytes=100_000, max_poll_records=77) as reader:
            reader.assign([(topic, 0)])
            found: list[Any] = []
            while len(found) < 5_000:
                records = await reader.poll(120_000)
                assert 0 < len(records) <= 77
                found += records
            assert [record.value[:6] for record in found] == [b"%06d" % number for number in range(5_000)]
            assert await reader.poll(50) == []
            assert await reader.position((topic, 0)) == 5_000 and reader.lag((topic, 0)) == 0

    run(read())


def test_where_to_begin_without_a_committed_offset(broker: Server, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    producer = clients.producer()
    producer.produce(topic, b"old", timestamp=int(time.time() * 1000) - 7_200_000)
    producer.produce(topic, b"new")
    producer.flush(120)

    async def read() -> None:
        async with consumer(broker, auto_offset_reset="earliest") as reader:
            reader.assign([(topic, 0)])
            assert values(await take(reader, 2)) == [b"old", b"new"]
        async with consumer(broker, auto_offset_reset="by_duration:PT1H") as reader:
            reader.assign([(topic, 0)])
            assert values(await take(reader, 1)) == [b"new"]
        async with consumer(broker, auto_offset_reset="latest") as reader:
            reader.assign([(topic, 0)])
            assert await reader.position((topic, 0)) == 2
            assert await reader.poll(100) == []
            produce(producer, topic, [b"newest"])
            assert values(await take(reader, 1)) == [b"newest"]
        async with consumer(broker, auto_offset_reset="none") as reader:
            reader.assign([(topic, 0)])
            with pytest.raises(KafkaError, match=re.escape("auto.offset.reset is none")):
                await reader.poll(120_000)
            reader.seek((topic, 0), 1)
            assert values(await take(reader, 2)) == [b"new", b"newest"]

    run(read())


def test_seeks_by_offset_to_the_ends_and_by_time(broker: Server, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic, partitions=2)
    producer = clients.producer()
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_000 * number + 1)
    producer.flush(120)

    async def read() -> None:
        async with consumer(broker) as reader:
            reader.assign([(topic, 0), (topic, 1)])
            assert len(await take(reader, 10)) == 10
            reader.seek((topic, 0), 7)
            assert await reader.position((topic, 0)) == 7
            assert values(await take(reader, 3)) == [b"7", b"8", b"9"]
            reader.seek_to_beginning([(topic, 0)])
            assert values(await take(reader, 10))[:2] == [b"0", b"1"]
            await reader.seek_to_time(4_500, [(topic, 0)])
            assert await reader.position((topic, 0)) == 5
            assert values(await take(reader, 5)) == [b"5", b"6", b"7", b"8", b"9"]
            reader.seek_to_end()
            assert await reader.position((topic, 0)) == 10
            found = await reader.offsets_for_times({(topic, 0): 3_000, (topic, 1): 0})
            at = found[TopicPartition(topic, 0)]
            assert at is not None and (at.offset, at.timestamp) == (3, 3_001)
            assert found[TopicPartition(topic, 1)] is None
            assert await reader.beginning_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 0}
            assert await reader.end_offsets([(topic, 0), (topic, 1)]) == {
                TopicPartition(topic, 0): 10,
                TopicPartition(topic, 1): 0,
            }

    run(read())


def test_paused_partitions_wait(broker: Server, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic, partitions=2)
    for partition in (0, 1):
        produce(clients.producer(), topic, [b"%d" % partition] * 5, partition)

    async def read() -> None:
        async with consumer(broker) as reader:
            reader.assign([(topic, 0), (topic, 1)])
            reader.pause([(topic, 0)])
            assert values(await take(reader, 5)) == [b"1"] * 5
            assert await reader.poll(500) == []
            assert reader.paused() == {TopicPartition(topic, 0)}
            reader.resume()
            assert values(await take(reader, 5)) == [b"0"] * 5

    run(read())


def test_an_offset_that_is_gone_resets_or_is_an_error(broker: Server, admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    produce(clients.producer(), topic, [b"%d" % number for number in range(10)])
    done(admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 6)]))

    async def read() -> None:
        async with consumer(broker) as reader:
            reader.assign([(topic, 0)])
            reader.seek((topic, 0), 2)
            assert values(await take(reader, 4)) == [b"6", b"7", b"8", b"9"]
            reader.seek((topic, 0), 99)
            assert values(await take(reader, 4)) == [b"6", b"7", b"8", b"9"]
        async with consumer(broker, auto_offset_reset="none") as reader:
            reader.assign([(topic, 0)])
            reader.seek((topic, 0), 2)
            with pytest.raises(KafkaError) as refused:
                await reader.poll(120_000)
            assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    run(read())


def test_read_committed_sees_neither_aborted_nor_open_transactions(
    broker: Server, admin: Any, clients: Clients, topic: str
) -> None:
    create(admin, topic)
    producer = clients.producer(transactional_id=f"id-{topic}")
    producer.init_transactions(120)
    for outcome in ("commit", "abort", "commit", "abort"):
        producer.begin_transaction()
        for number in range(30):
            producer.produce(topic, f"{outcome} {number}".encode())
        producer.flush(120)
        producer.commit_transaction(120) if outcome == "commit" else producer.abort_transaction(120)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(120)

    async def read() -> None:
        async with consumer(broker, isolation_level="read_committed") as reader:
            reader.assign([(topic, 0)])
            found = values(await take(reader, 60))
            assert found == [b"commit %d" % number for number in range(30)] * 2
            assert await reader.poll(500) == []
            end = (await reader.end_offsets([(topic, 0)]))[TopicPartition(topic, 0)]
            assert await reader.position((topic, 0)) == end == 124
        async with consumer(broker) as reader:
            reader.assign([(topic, 0)])
            assert len(await take(reader, 121)) == 121
            assert (await reader.end_offsets([(topic, 0)]))[TopicPartition(topic, 0)] == 125

    run(read())
    producer.abort_transaction(120)


def test_deserializers_make_keys_and_values_and_a_record_they_cannot_make_stays(
    broker: Server, admin: Any, clients: Clients, topic: str
) -> None:
    create(admin, topic)
    produce(clients.producer(), topic, [b"1", b"2", b"three", b"4"])

    async def read() -> None:
        async with Consumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", value_deserializer=int
        ) as reader:
            reader.assign([(topic, 0)])
            assert [record.value for record in await take(reader, 2)] == [1, 2]
            for _ in range(2):
                with pytest.raises(DeserializationFailed) as failed:
                    await reader.poll(120_000)
                assert failed.value.offset == 2
            reader.seek((topic, 0), 3)
            assert [record.value for record in await take(reader, 1)] == [4]

    run(read())


def test_a_commit_in_the_middle_of_an_iteration_covers_what_was_handed_out(
    broker: Server, admin: Any, clients: Clients, topic: str
) -> None:
    create(admin, topic)
    produce(clients.producer(), topic, [b"%d" % number for number in range(20)])
    group = {"group_id": f"group-{topic}", "enable_auto_commit": False}

    async def read() -> None:
        partition = TopicPartition(topic, 0)
        async with consumer(broker, **group) as reader:
            reader.subscribe(topic)
            async for record in reader:
                if record.offset == 4:
                    break
            assert await reader.position(partition) == 5
            await reader.commit()
            committed = await reader.committed([partition, (topic, 9)])
            kept = committed[partition]
            assert kept is not None and kept.offset == 5 and committed[TopicPartition(topic, 9)] is None
            assert (await anext(reader)).offset == 5
            await reader.commit({partition: OffsetAndMetadata(7, "a note")})
            assert (await reader.committed([partition]))[partition] == OffsetAndMetadata(7, "a note", -1)
        async with consumer(broker, **group) as reader:
            reader.subscribe(topic)
            record = await anext(reader)
            assert record.offset == 7
            await reader.commit(record)
        async with consumer(broker, **group) as reader:
            reader.assign([partition])
            assert (await anext(reader)).offset == 8

    run(read())


def test_automatic_commits_come_with_later_polls_and_with_the_end(
    broker: Server, admin: Any, clients: Clients, topic: str
) -> None:
    create(admin, topic)
    produce(clients.producer(), topic, [b"%d" % number for number in range(20)])
    partition = TopicPartition(topic, 0)

    async def read() -> None:
        group = f"group-{topic}"
        async with consumer(broker, group_id=group, auto_commit_interval_ms=50, max_poll_records=5) as reader:
            reader.subscribe([topic])
            assert len(await take(reader, 5)) == 5
            found = (await reader.committed([partition]))[partition]
            assert found is None or found.offset == 0  # not what has just been handed out

            async def is_committed() -> bool:
                await reader.poll(0, max_records=1)
                found = (await reader.committed([partition]))[partition]
                return found is not None and found.offset >= 5

            await until(is_committed)
        async with consumer(broker, group_id=group) as reader:
            reader.subscribe([topic])
            rest = await take(reader, 1)
            assert rest[0].offset >= 5
            last = rest[-1].offset
        async with consumer(broker, group_id=group) as reader:
            found = (await reader.committed([partition]))[partition]
            assert found is not None and found.offset == last + 1

    run(read())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("kind", ["compiled", "text"])
def test_a_pattern_finds_topics_that_come_later(
    broker: Server, admin: Any, clients: Clients, topic: str, protocol: str, kind: str
) -> None:
    create(admin, f"{topic}-a")
    pattern = re.escape(topic) + "-[ab]"

    async def read() -> None:
        settings = {"group_id": f"group-{topic}", "group_protocol": protocol, "metadata_max_age_ms": 300}
        async with consumer(broker, **settings) as reader:
            reader.subscribe(pattern=re.compile(pattern) if kind == "compiled" else pattern)
            produce(clients.producer(), f"{topic}-a", [b"first"])
            assert values(await take(reader, 1)) == [b"first"]
            create(admin, f"{topic}-b")
            create(admin, f"{topic}-c")
            for letter in "bc":
                produce(clients.producer(), f"{topic}-{letter}", [letter.encode()])
            assert values(await take(reader, 1)) == [b"b"]
            assert reader.assignment() == {TopicPartition(f"{topic}-{letter}", 0) for letter in "ab"}

    run(read())


def test_a_broker_that_dies_and_comes_back_is_read_on(start_server: StartServer) -> None:
    server = start_server()
    admin = confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap})
    create(admin, "topic")
    clients = Clients(server.bootstrap)
    produce(clients.producer(), "topic", [b"%d" % number for number in range(100)])

    async def read() -> None:
        async with consumer(server, group_id="group", session_timeout_ms=60_000, heartbeat_interval_ms=500) as reader:
            reader.subscribe(["topic"])
            assert len(await take(reader, 100)) == 100
            await reader.commit()
            server.kill()
            assert await reader.poll(500) == []
            await asyncio.to_thread(server.start)
            await asyncio.to_thread(produce, Clients(server.bootstrap).producer(), "topic", [b"back"])
            assert values(await take(reader, 1)) == [b"back"]
            await reader.commit()

    run(read())


def test_a_consumer_that_reads_nothing_says_so(broker: Server) -> None:
    async def read() -> None:
        async with consumer(broker) as reader:
            with pytest.raises(KafkaError, match="subscribe to topics or assign"):
                await reader.poll(0)
            with pytest.raises(KafkaError, match=re.escape("set group.id")):
                reader.subscribe(["topic"])
            with pytest.raises(KafkaError, match="not assigned"):
                reader.seek(("topic", 0), 1)

    run(read())
