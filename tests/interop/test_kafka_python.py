"""kafka-python 3: producer, assigned consumer and admin client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.interop.contents import eventually
from tests.interop.servers import Server

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
pytest.importorskip("kafka.codec")

pytestmark = pytest.mark.filterwarnings("ignore")  # the client's own deprecations and unclosed sockets


@pytest.fixture
def admin(broker: Server) -> Iterator[Any]:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as client:
        yield client


def create(admin: Any, topic: str, partitions: int = 1) -> None:
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})


def read(broker: Server, topic: str, count: int, **settings: Any) -> list[Any]:
    with closing(
        kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", **settings)
    ) as consumer:
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        records: list[Any] = []
        end = time.monotonic() + 120
        while len(records) < count and time.monotonic() < end:
            for batch in consumer.poll(timeout_ms=200, max_records=5000).values():
                records += batch
        return records


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_in_order_with_every_codec(broker: Server, admin: Any, topic: str, codec: str | None) -> None:
    if codec and not getattr(kafka.codec, f"has_{codec}")():
        pytest.skip(f"kafka-python: its library for {codec} is not installed")
    create(admin, topic)
    values = [b"value %d" % number for number in range(2000)]
    with closing(
        kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec, acks="all", linger_ms=5)
    ) as producer:
        futures = [
            producer.send(topic, value, key=b"k", partition=0, headers=[("h", b"1")], timestamp_ms=1_700_000_000_000)
            for value in values
        ]
        producer.flush(120)
        assert [future.get(120).offset for future in futures] == list(range(2000))
    records = read(broker, topic, 2000)
    assert [record.value for record in records] == values
    assert {(record.key, tuple(record.headers), record.timestamp) for record in records} == {
        (b"k", (("h", b"1"),), 1_700_000_000_000)
    }


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_delivers(broker: Server, admin: Any, topic: str, acks: Any) -> None:
    create(admin, topic)
    with closing(
        kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, acks=acks, enable_idempotence=False)
    ) as producer:
        for number in range(500):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush(120)
    assert [record.value for record in read(broker, topic, 500)] == [b"%d" % number for number in range(500)]


def test_offsets_by_time_and_at_both_ends(broker: Server, admin: Any, topic: str) -> None:
    create(admin, topic)
    start = int(time.time() * 1000) - 1_000_000
    with closing(kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number in range(100):
            producer.send(topic, b"x", partition=0, timestamp_ms=start + number * 10)
        producer.flush(120)
    partition = kafka.TopicPartition(topic, 0)
    with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)) as consumer:
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 100}
        assert consumer.offsets_for_times({partition: start + 495})[partition].offset == 50
        assert consumer.offsets_for_times({partition: start + 10_000})[partition] is None
        assert consumer.partitions_for_topic(topic) == {0}


def test_small_fetches_meet_every_record(broker: Server, admin: Any, topic: str) -> None:
    create(admin, topic)
    with closing(kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, batch_size=1000)) as producer:
        for number in range(1000):
            producer.send(topic, b"%d" % number * 20, partition=0)
        producer.flush(120)
    records = read(broker, topic, 1000, max_partition_fetch_bytes=1500, fetch_max_bytes=3000)
    assert [record.offset for record in records] == list(range(1000))


def test_topics_and_the_cluster_are_administered(admin: Any, topic: str) -> None:
    create(admin, topic, partitions=2)
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    assert [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]] == [1]
    admin.create_partitions({topic: 3})
    eventually(lambda: [len(each["partitions"]) for each in admin.describe_topics([topic])] == [3])
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics())
