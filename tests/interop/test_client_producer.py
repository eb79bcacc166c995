"""Ottla's own producer, read back by librdkafka: on Ottla, and with OTTLA_TEST_KAFKA=1 on Apache Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.client.errors import (
    BufferExhausted,
    ClientClosed,
    ConfigError,
    KafkaError,
    ProducerFenced,
    RecordTooLarge,
    RequestTimedOut,
    TransactionAborted,
)
from ottla.client.metadata import TopicPartition
from ottla.client.producer import Delivery, Producer
from tests.interop.conftest import StartServer
from tests.interop.servers import Server, free_port

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")


def run(work: Coroutine[Any, Any, None], seconds: float = 280) -> None:
    asyncio.run(asyncio.wait_for(work, seconds))


def create(server: Server, topic: str, partitions: int = 1, **config: str) -> None:
    admin = confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = confluent_admin.NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
    for future in admin.create_topics([new]).values():
        future.result(120)


def read(server: Server, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Any]:
    """Every record of a topic, by partition and offset."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
    records: list[Any] = []
    at_end: set[int] = set()
    end = time.monotonic() + 120
    while len(at_end) < partitions and time.monotonic() < end:
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                records.append(message)
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                at_end.add(message.partition())
            else:
                raise AssertionError(message.error())
    consumer.close()
    assert len(at_end) == partitions
    return sorted(records, key=lambda record: (record.partition(), record.offset()))


def values(server: Server, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[bytes]:
    return [record.value() for record in read(server, topic, partitions, isolation)]


def test_a_record_arrives_with_everything_it_had(broker: Server, topic: str) -> None:
    create(broker, topic, 3)

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, client_id="me") as producer:
            sent = await producer.send(
                topic,
                "v\u00e4lue",
                key=b"key",
                headers=[("a", b"1"), ("a", None), ("b", b"")],
                partition=1,
                timestamp=12345,
            )
            assert sent == (topic, 1, 0, 12345)
            assert (await producer.send(topic, None, key="k", partition=1)).offset == 1

    run(work())
    first, second = read(broker, topic, 3)
    assert (first.value(), first.key(), first.partition()) == ("v\u00e4lue".encode(), b"key", 1)
    assert first.headers() == [("a", b"1"), ("a", None), ("b", b"")]
    assert first.timestamp()[1] == 12345
    assert (second.value(), second.key()) == (None, b"k")


def test_keys_go_where_librdkafka_puts_them(broker: Server, topic: str) -> None:
    create(broker, topic, 7)
    keys = [b"", b"a", *(b"key-%d" % number for number in range(200)), bytes(range(256))]
    other = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for key in keys[1:]:
        other.produce(topic, b"theirs", key)
    other.flush(120)

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            await asyncio.gather(*(producer.send(topic, b"ours", key=key) for key in keys))

    run(work())
    records = read(broker, topic, 7)
    ours = {record.key(): record.partition() for record in records if record.value() == b"ours"}
    theirs = {record.key(): record.partition() for record in records if record.value() == b"theirs"}
    assert {key: ours[key] for key in theirs} == theirs
    assert len(ours) == len(keys)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_can_be_read(broker: Server, topic: str, compression: str) -> None:
    create(broker, topic)
    sent = [b"record %d " % number * 20 for number in range(500)]

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, compression_type=compression) as producer:
            for value in sent:
                producer.send(topic, value)

    run(work())
    assert values(broker, topic) == sent


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_many_records_keep_their_order_per_partition(broker: Server, topic: str, acks: str) -> None:
    create(broker, topic, 4)
    count = 20_000

    async def work() -> None:
        # small batches: the sticky partitioner chooses at random, and every partition must get some
        settings = {"bootstrap.servers": broker.bootstrap, "acks": acks, "batch.size": 1024}
        async with Producer(settings) as producer:
            for number in range(count):
                producer.send(topic, b"%d" % number)
                if not number % 1000:
                    await producer.room()
            await producer.flush()
            delivery = producer.send(topic, b"%d" % count)
            await delivery
            assert (delivery.result().offset >= 0) == (acks != "0")

    run(work())
    records = read(broker, topic, 4)
    assert sorted(int(record.value()) for record in records) == list(range(count + 1))
    for partition in range(4):
        numbers = [int(record.value()) for record in records if record.partition() == partition]
        assert numbers == sorted(numbers)
        assert len(numbers) > 500


def test_round_robin_and_a_function_choose_partitions(broker: Server, topic: str) -> None:
    create(broker, topic, 3)

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, partitioner="round_robin") as producer:
            sent = await asyncio.gather(*(producer.send(topic, b"x", key=b"same") for _ in range(9)))
            assert Counter(one.partition for one in sent) == {0: 3, 1: 3, 2: 3}
        last = Producer(bootstrap_servers=broker.bootstrap, partitioner=lambda topic, key, count: count - 1)
        async with last as producer:
            assert (await producer.send(topic, b"x", key=b"same")).partition == 2

    run(work())


def test_a_topic_is_created_by_the_first_record(broker: Server, topic: str) -> None:
    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            deliveries = [producer.send(topic, b"%d" % number) for number in range(3)]
            assert [one.done() for one in deliveries] == [False] * 3
            assert [(await one).offset for one in deliveries] == [0, 1, 2]

    run(work())


def test_new_partitions_are_used_when_metadata_shows_them(broker: Server, topic: str) -> None:
    create(broker, topic, 1)

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, metadata_max_age_ms=200) as producer:
            await producer.send(topic, b"x")
            with pytest.raises(KafkaError, match="has no partition 2, only partition 0"):
                producer.send(topic, b"x", partition=2)
            admin = confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
            for future in admin.create_partitions([confluent_admin.NewPartitions(topic, 3)]).values():
                await asyncio.to_thread(future.result, 120)
            while len(await producer.partitions(topic)) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert (await producer.send(topic, b"x", partition=2)).offset == 0

    run(work())


def test_what_cannot_be_sent_is_refused_at_once(broker: Server, topic: str) -> None:
    create(broker, topic)

    async def work() -> None:
        producer = Producer(bootstrap_servers=broker.bootstrap, max_request_size=1000)
        with pytest.raises(RecordTooLarge):
            producer.send(topic, bytes(1000))
        with pytest.raises(TypeError, match="a value is bytes or str"):
            producer.send(topic, 5)
        with pytest.raises(TypeError, match="a header is"):
            producer.send(topic, b"x", headers={"a": 1})  # type: ignore[arg-type]
        for is_known in (False, True):
            with pytest.raises(TypeError, match="a timestamp is a whole number of milliseconds since 1970"):
                producer.send(topic, b"x", timestamp=time.time())  # type: ignore[arg-type]  # which is what is tested
            if not is_known:
                await producer.send(topic, b"x")
        await producer.close()
        with pytest.raises(ClientClosed):
            producer.send(topic, b"x")

    run(work())
    with pytest.raises(ConfigError, match="did you mean linger_ms"):
        Producer(bootstrap_servers=broker.bootstrap, lingerms=3)  # type: ignore[call-arg]  # which is what is tested


def test_a_record_the_broker_refuses_fails_alone(broker: Server, topic: str) -> None:
    create(broker, topic, max_message_bytes="1000")

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, batch_size=100_000, linger_ms=50) as producer:
            small = [producer.send(topic, b"%d" % number * 20) for number in range(100)]
            large = producer.send(topic, bytes(2000))
            after = producer.send(topic, b"after")
            assert [(await one).offset for one in small] == list(range(100))
            with pytest.raises(RecordTooLarge, match=f"the limit is max.message.bytes of topic {topic}.*Raise it"):
                await large
            assert (await after).offset == 100
            assert (await producer.send(topic, b"later")).offset == 101

    run(work())
    assert len(values(broker, topic)) == 102


def test_a_compacted_topic_names_the_record_without_a_key(broker: Server, topic: str) -> None:
    create(broker, topic, cleanup_policy="compact")

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=20) as producer:
            good = producer.send(topic, b"x", key=b"k", partition=0)
            bad = producer.send(topic, b"x", partition=0)
            for delivery in (good, bad):
                with pytest.raises(KafkaError, match="INVALID_RECORD"):
                    await delivery
            assert (await producer.send(topic, b"x", key=b"k")).offset == 0  # the sequence goes on under a new epoch

    run(work())


def test_serializers_make_bytes(broker: Server, topic: str) -> None:
    create(broker, topic)

    async def work() -> None:
        async with Producer(
            bootstrap_servers=broker.bootstrap, value_serializer=lambda value: repr(value).encode()
        ) as producer:
            await producer.send(topic, {"a": 1})
            await producer.send(topic, b"b")

    run(work())
    assert values(broker, topic) == [b"{'a': 1}", b"b'b'"]


def test_an_unreachable_broker_is_reported_within_max_block_ms(tmp_path: Path) -> None:
    async def work() -> None:
        async with Producer(bootstrap_servers=f"127.0.0.1:{free_port()}", max_block_ms=500) as producer:
            began = time.monotonic()
            with pytest.raises(RequestTimedOut, match="none of 127"):
                await producer.send("t", b"x")
            assert time.monotonic() - began < 100, "the delivery's two minutes are not waited for"

    run(work())


def test_a_full_buffer_makes_records_wait_and_then_fail(broker: Server, topic: str, start_server: StartServer) -> None:
    server = start_server()

    async def work() -> None:
        producer = Producer(
            bootstrap_servers=server.bootstrap,
            buffer_memory=20_000,
            max_block_ms=300,
            request_timeout_ms=1000,
            delivery_timeout_ms=3000,
            linger_ms=0,
        )
        while True:
            with contextlib.suppress(RequestTimedOut):  # 300 ms may be too short for the first connection
                await producer.send(topic, b"x")
                break
        server.kill()
        deliveries = [producer.send(topic, bytes(1000)) for _ in range(30)]
        with pytest.raises(BufferExhausted, match="await"):
            for _ in range(30):
                producer.send(topic, bytes(1000))
        outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
        assert all(isinstance(one, RequestTimedOut) for one in outcomes)
        assert sum(isinstance(one, BufferExhausted) for one in outcomes) >= 10
        await producer.close(1000)

    run(work())


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_nothing_is_lost_or_doubled_when_the_broker_restarts(start_server: StartServer, topic: str, how: str) -> None:
    server = start_server()
    create(server, topic, 3)
    deliveries: list[tuple[int, Delivery]] = []

    async def work() -> None:
        async with Producer(bootstrap_servers=server.bootstrap, batch_size=500, request_timeout_ms=20_000) as producer:
            stop = False

            async def write() -> None:
                number = 0
                while not stop:
                    deliveries.append((number, producer.send(topic, b"%d" % number, key=b"%d" % (number % 50))))
                    number += 1
                    if not number % 20:
                        await asyncio.sleep(0.005)

            writing = asyncio.create_task(write())
            for _ in range(3):
                await asyncio.sleep(0.7)
                await asyncio.to_thread(server.kill if how == "kill" else server.stop)
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.start)
            await asyncio.sleep(0.5)
            while len(deliveries) <= 200 and not writing.done():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            stop = True
            await writing
            await producer.flush()
            for _, delivery in deliveries:
                delivery.result()

    run(work())
    records = read(server, topic, 3)
    written = Counter(int(record.value()) for record in records)
    assert len(deliveries) > 200
    assert written == Counter(number for number, _ in deliveries)
    for partition in range(3):
        numbers = [int(record.value()) for record in records if record.partition() == partition]
        assert numbers == sorted(numbers)
    places = {int(record.value()): (record.partition(), record.offset()) for record in records}
    for number, delivery in deliveries:
        told = delivery.result()
        assert told.offset == -1 or places[number] == (told.partition, told.offset)


def test_a_topic_that_is_deleted_and_made_anew_is_written_to_again(broker: Server, topic: str) -> None:
    create(broker, topic)

    async def work() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send(topic, b"old")
            admin = confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
            for future in admin.delete_topics([topic]).values():
                await asyncio.to_thread(future.result, 120)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(create, broker, topic)
            assert (await producer.send(topic, b"new")).offset == 0

    run(work())
    assert values(broker, topic) == [b"new"]


def test_a_transaction_appears_whole_or_not_at_all(transaction_broker: Server, topic: str) -> None:
    create(transaction_broker, topic, 2)

    async def work() -> None:
        async with Producer(bootstrap_servers=transaction_broker.bootstrap, transactional_id=topic) as producer:
            with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
                producer.send(topic, b"outside")
            async with producer.transaction():
                producer.send(topic, b"1", partition=0)
                producer.send(topic, b"2", partition=1)
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(topic, b"never", partition=0)
                    unsent = producer.send(topic, b"never", partition=1)
                    raise ZeroDivisionError
            with pytest.raises(TransactionAborted):
                await unsent
            async with producer.transaction():
                pass
            async with producer.transaction():
                producer.send(topic, b"3", partition=0)
            await producer.begin_transaction()
            await producer.send(topic, b"open", partition=0)
            # close aborts it

    run(work())
    assert values(transaction_broker, topic, 2) == [b"1", b"3", b"2"]
    assert b"open" in values(transaction_broker, topic, 2, "read_uncommitted")


def test_offsets_count_with_the_records_of_their_transaction(transaction_broker: Server, topic: str) -> None:
    create(transaction_broker, topic)
    group = f"group-{topic}"
    place = TopicPartition(topic, 0)

    def committed() -> int:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": transaction_broker.bootstrap, "group.id": group})
        (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=120)
        consumer.close()
        return int(found.offset)

    async def work() -> None:
        async with Producer(bootstrap_servers=transaction_broker.bootstrap, transactional_id=topic) as producer:
            async with producer.transaction():
                producer.send(topic, b"x")
                await producer.send_offsets({place: 7}, group)
            assert await asyncio.to_thread(committed) == 7
            await producer.begin_transaction()
            await producer.send_offsets({place: 9}, group)
            await producer.abort_transaction()
            assert await asyncio.to_thread(committed) == 7

    run(work())


def test_a_second_producer_fences_the_first(transaction_broker: Server, topic: str) -> None:
    create(transaction_broker, topic)

    async def work() -> None:
        settings = {"bootstrap.servers": transaction_broker.bootstrap, "transactional.id": topic}
        async with Producer(settings) as first, Producer(settings) as second:
            await first.begin_transaction()
            await first.send(topic, b"first")
            await second.init_transactions()
            with pytest.raises((ProducerFenced, TransactionAborted)):
                async with second.transaction():
                    second.send(topic, b"second")
                producer_error = first.send(topic, b"late")
                await producer_error
            with pytest.raises(KafkaError):
                await first.commit_transaction()
            with pytest.raises(ProducerFenced):
                await first.abort_transaction()
            assert first.is_fenced

    run(work())
    assert values(transaction_broker, topic) == [b"second"]


def test_a_failed_batch_makes_the_transaction_abort_and_the_next_one_goes_on(
    transaction_broker: Server, topic: str
) -> None:
    create(transaction_broker, topic, max_message_bytes="1000")

    async def work() -> None:
        async with Producer(bootstrap_servers=transaction_broker.bootstrap, transactional_id=topic) as producer:
            with pytest.raises(TransactionAborted, match="MESSAGE_TOO_LARGE"):
                async with producer.transaction():
                    producer.send(topic, b"fine")
                    producer.send(topic, bytes(5000))
            async with producer.transaction():
                await producer.send(topic, b"next")

    run(work())
    assert values(transaction_broker, topic) == [b"next"]


def test_transactions_survive_kills_of_the_broker(start_server: StartServer, topic: str) -> None:
    server = start_server("transaction.state.log.num.partitions=2", "offsets.topic.num.partitions=2")
    create(server, topic, 2)
    committed: list[bytes] = []

    async def work() -> None:
        async with Producer(
            bootstrap_servers=server.bootstrap,
            transactional_id="t",
            request_timeout_ms=20_000,
        ) as producer:
            stop = False

            async def write() -> None:
                number = 0
                while not stop:
                    number += 1
                    pair = [b"%d-0" % number, b"%d-1" % number]
                    await producer.begin_transaction()
                    for partition, value in enumerate(pair):
                        producer.send(topic, value, partition=partition)
                    if number % 5 == 0:
                        await producer.abort_transaction()
                        continue
                    await producer.commit_transaction()
                    committed.extend(pair)

            async def some_committed() -> None:
                target = len(committed) + 10
                while len(committed) < target and not writing.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

            writing = asyncio.create_task(write())
            for _ in range(2):
                await some_committed()
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(0.2)
                await asyncio.to_thread(server.start)
            await some_committed()
            stop = True
            await writing

    run(work())
    assert len(committed) >= 30
    assert sorted(values(server, topic, 2)) == sorted(committed)
