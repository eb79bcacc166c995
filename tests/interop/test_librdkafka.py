"""librdkafka through confluent-kafka: producer, assigned consumer and admin client."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from tests.interop.servers import Server

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

TopicPartition = confluent_kafka.TopicPartition
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def done(futures: dict[Any, Future[Any]]) -> dict[Any, Any]:
    return {key: future.result(120) for key, future in futures.items()}


@pytest.fixture
def admin(broker: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap})


class Clients:
    """Producers and consumers of one broker, closed when the test ends."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumers: list[Any] = []

    def producer(self, **settings: object) -> Any:
        return confluent_kafka.Producer({"bootstrap.servers": self._bootstrap, "log_level": 0, **dotted(settings)})

    def consumer(self, **settings: object) -> Any:
        fixed = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = confluent_kafka.Consumer({**fixed, "auto.offset.reset": "earliest", **dotted(settings)})
        self._consumers.append(consumer)
        return consumer

    def read(self, topic: str, count: int, partition: int = 0, offset: int = 0, **settings: object) -> list[Any]:
        consumer = self.consumer(**settings)
        consumer.assign([TopicPartition(topic, partition, offset)])
        return consume(consumer, count)

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


def dotted(settings: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def consume(consumer: Any, count: int, timeout_seconds: float = 120) -> list[Any]:
    messages: list[Any] = []
    end = time.monotonic() + timeout_seconds
    while len(messages) < count and time.monotonic() < end:
        for message in consumer.consume(min(count - len(messages), 10_000), 0.2):
            if message.error() is not None:
                raise confluent_kafka.KafkaException(message.error())
            messages.append(message)
    return messages


@pytest.fixture
def clients(broker: Server) -> Iterator[Clients]:
    opened = Clients(broker.bootstrap)
    yield opened
    opened.close()


def create(admin: Any, topic: str, partitions: int = 1, **config: str) -> None:
    done(admin.create_topics([confluent_admin.NewTopic(topic, partitions, 1, config=dotted(dict(config)))]))


def produce(producer: Any, topic: str, values: list[bytes], partition: int = 0) -> list[int]:
    """The offsets the broker acknowledged, in the order of the values."""
    offsets: list[int] = [-2] * len(values)

    def delivered(index: int, error: Any, message: Any) -> None:
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        offsets[index] = message.offset()

    for index, value in enumerate(values):
        while True:
            try:
                producer.produce(
                    topic, value, partition=partition, on_delivery=lambda e, m, index=index: delivered(index, e, m)
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    return offsets


@pytest.mark.parametrize("codec", CODECS)
def test_ten_thousand_records_come_back_in_order(admin: Any, clients: Clients, topic: str, codec: str) -> None:
    create(admin, topic)
    values = [b"value %d " % number + b"x" * (number % 300) for number in range(10_000)]
    assert produce(clients.producer(compression_type=codec, linger_ms=5), topic, values) == list(range(10_000))
    messages = clients.read(topic, 10_000)
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(10_000))


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_acks_setting_delivers(admin: Any, clients: Clients, topic: str, acks: int) -> None:
    create(admin, topic)
    values = [b"%d" % number for number in range(1000)]
    produce(clients.producer(acks=acks), topic, values)
    assert [message.value() for message in clients.read(topic, 1000)] == values


def test_an_idempotent_producer_with_tiny_batches_keeps_order(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    values = [b"%d" % number for number in range(5000)]
    producer = clients.producer(enable_idempotence=True, linger_ms=0, batch_num_messages=7)
    assert produce(producer, topic, values) == list(range(5000))
    assert [message.value() for message in clients.read(topic, 5000)] == values


def test_keys_headers_timestamps_and_tombstones_are_kept(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    producer = clients.producer()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("none", None)]
    producer.produce(topic, None, b"key", partition=0, timestamp=1_600_000_000_123, headers=headers)
    producer.produce(topic, b"", b"", partition=0)
    assert producer.flush(120) == 0
    first, second = clients.read(topic, 2)
    assert (first.key(), first.value(), first.headers()) == (b"key", None, headers)
    assert first.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, 1_600_000_000_123)
    assert (second.key(), second.value(), second.leader_epoch()) == (b"", b"", 0)


def test_a_message_near_the_limit_passes_and_one_above_is_refused(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic, max_message_bytes="2000000")
    producer = clients.producer(message_max_bytes=5_000_000)
    big = os.urandom(1_990_000)
    assert produce(producer, topic, [big]) == [0]
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        produce(producer, topic, [os.urandom(2_100_000)])
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE
    (message,) = clients.read(
        topic, 1, fetch_message_max_bytes=1000, fetch_max_bytes=1_000_000, message_max_bytes=1_000_000
    )
    assert message.value() == big


def test_small_fetch_sizes_lose_nothing(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    values = [b"%d" % number * 30 for number in range(3000)]
    produce(clients.producer(batch_num_messages=50), topic, values)
    messages = clients.read(topic, 3000, fetch_message_max_bytes=700, fetch_queue_backoff_ms=10)
    assert [message.value() for message in messages] == values


def test_watermarks_and_offsets_for_times(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    producer = clients.producer()
    start = int(time.time() * 1000) - 10_000_000
    for number in range(200):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=start + number * 1000)
        if number % 50 == 49:
            producer.flush(120)
    consumer = clients.consumer()
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=120) == (0, 200)
    for number in (0, 1, 49, 50, 120, 199):
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, start + number * 1000 - 1)], timeout=120)
        assert found.offset == number
    (after,) = consumer.offsets_for_times([TopicPartition(topic, 0, start + 200 * 1000)], timeout=120)
    assert after.offset == confluent_kafka.OFFSET_END


def test_six_partitions_are_consumed_together(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic, partitions=6)
    producer = clients.producer()
    for number in range(6000):
        producer.produce(topic, b"%d" % number, key=b"%d" % (number % 100))
    assert producer.flush(120) == 0
    consumer = clients.consumer()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(6)])
    messages = consume(consumer, 6000)
    assert sorted(int(message.value()) for message in messages) == list(range(6000))
    for partition in range(6):
        of_partition = [message for message in messages if message.partition() == partition]
        assert [message.offset() for message in of_partition] == list(range(len(of_partition)))


def test_an_unknown_topic_is_told(admin: Any, clients: Clients, topic: str) -> None:
    """The consumer forbids automatic creation, so that it is a question and not an order."""
    listed = clients.consumer(allow_auto_create_topics=False).list_topics(topic, timeout=120).topics[topic]
    assert listed.error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in admin.list_topics(timeout=120).topics


def test_topics_are_administered(admin: Any, topic: str) -> None:
    create(admin, topic, partitions=2, retention_ms="5555")
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
    assert sorted(admin.list_topics(timeout=120).topics[topic].partitions) == [0, 1]
    done(admin.create_partitions([confluent_admin.NewPartitions(topic, 4)]))
    assert eventually_partitions(admin, topic, 4)
    names = confluent_kafka.TopicCollection([topic])
    (description,) = done(admin.describe_topics(names)).values()
    assert (description.name, len(description.partitions), description.is_internal) == (topic, 4, False)
    assert [node.id for node in description.partitions[3].isr] == [1]
    resource = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, topic)
    (config,) = done(admin.describe_configs([resource])).values()
    assert (config["retention.ms"].value, config["retention.ms"].is_default) == ("5555", False)
    change = confluent_admin.ConfigEntry(
        "retention.ms", "6666", incremental_operation=confluent_admin.AlterConfigOpType.SET
    )
    done(
        admin.incremental_alter_configs(
            [confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, topic, incremental_configs=[change])]
        )
    )
    (config,) = done(admin.describe_configs([resource])).values()
    assert config["retention.ms"].value == "6666"
    done(admin.delete_topics([topic]))
    for _ in range(1_200):
        if topic not in admin.list_topics(timeout=120).topics:
            return
        time.sleep(0.1)
    pytest.fail("the topic is still listed")


def eventually_partitions(admin: Any, topic: str, count: int) -> bool:
    for _ in range(1_200):
        if len(admin.list_topics(topic, timeout=120).topics[topic].partitions) == count:
            return True
        time.sleep(0.1)
    return False


def test_records_are_deleted_and_offsets_listed(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    produce(clients.producer(), topic, [b"%d" % number for number in range(100)])
    partition = TopicPartition(topic, 0)
    (deleted,) = done(admin.delete_records([TopicPartition(topic, 0, 30)])).values()
    assert deleted.low_watermark == 30
    for spec, offset in (
        (confluent_admin.OffsetSpec.earliest(), 30),
        (confluent_admin.OffsetSpec.latest(), 100),
        (confluent_admin.OffsetSpec.for_timestamp(0), 30),
    ):
        (listed,) = done(admin.list_offsets({partition: spec})).values()
        assert listed.offset == offset
    assert clients.read(topic, 70, offset=30)[0].value() == b"30"


def test_the_cluster_is_described(admin: Any, broker: Server) -> None:
    cluster = admin.describe_cluster(request_timeout=120).result(120)
    assert ([node.id for node in cluster.nodes], cluster.controller.id) == ([1], 1)
    assert cluster.cluster_id == admin.list_topics(timeout=120).cluster_id
    assert [(node.host, node.port) for node in cluster.nodes] == [("127.0.0.1", broker.port)]


def test_end_of_partition_is_reported_and_new_records_follow(admin: Any, clients: Clients, topic: str) -> None:
    create(admin, topic)
    producer = clients.producer()
    produce(producer, topic, [b"first"])
    consumer = clients.consumer(enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(120).value() == b"first"
    assert consumer.poll(120).error().code() == confluent_kafka.KafkaError._PARTITION_EOF
    produce(producer, topic, [b"second"])
    assert consumer.poll(120).value() == b"second"
