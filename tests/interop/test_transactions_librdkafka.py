"""librdkafka's transactional producer through confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.interop.servers import Server

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

TopicPartition = confluent_kafka.TopicPartition
KafkaError = confluent_kafka.KafkaError


def create(broker: Server, topic: str, partitions: int = 1) -> str:
    admin = confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([confluent_admin.NewTopic(topic, partitions, 1)])[topic].result(120)
    return topic


def producer(broker: Server, name: str, **settings: Any) -> Any:
    fixed = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0, "linger.ms": 1}
    made = confluent_kafka.Producer(fixed | {key.replace("_", "."): value for key, value in settings.items()})
    made.init_transactions(120)
    return made


def send(client: Any, topic: str, values: Iterable[str], partition: int = 0) -> None:
    for value in values:
        client.produce(topic, value.encode(), partition=partition)


def consumer(broker: Server, group: str, *, committed: bool = True, **settings: Any) -> Any:
    fixed = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "log_level": 0,
    }
    return confluent_kafka.Consumer(fixed | {key.replace("_", "."): value for key, value in settings.items()})


def read(broker: Server, topic: str, partition: int = 0, *, committed: bool = True) -> list[str]:
    """All values up to the end that this isolation sees."""
    client = consumer(broker, "reader", committed=committed, enable_partition_eof=True)
    try:
        client.assign([TopicPartition(topic, partition, 0)])
        values: list[str] = []
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for message in client.consume(500, 0.2):
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    return values
                values.append(message.value().decode())
        pytest.fail(f"no end after {values}")
    finally:
        client.close()


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def test_commits_and_aborts_are_told_apart_by_readers(transaction_broker: Server, topic: str) -> None:
    create(transaction_broker, topic, 2)
    client = producer(transaction_broker, topic)
    for number in range(6):
        client.begin_transaction()
        for partition in range(2):
            send(client, topic, numbered(f"{number}", 50), partition)
        if number % 2:
            client.flush(120)
            client.abort_transaction(120)
        else:
            client.commit_transaction(120)
    kept = [value for number in (0, 2, 4) for value in numbered(f"{number}", 50)]
    written = [value for number in range(6) for value in numbered(f"{number}", 50)]
    for partition in range(2):
        assert read(transaction_broker, topic, partition) == kept
        assert read(transaction_broker, topic, partition, committed=False) == written


def test_an_open_transaction_is_not_read_yet(transaction_broker: Server, topic: str) -> None:
    create(transaction_broker, topic)
    client = producer(transaction_broker, topic)
    client.begin_transaction()
    send(client, topic, ["open"])
    client.flush(120)
    assert read(transaction_broker, topic) == []
    assert read(transaction_broker, topic, committed=False) == ["open"]
    reader = consumer(transaction_broker, "unused")
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), 120) == (0, 0)
    reader.close()
    client.commit_transaction(120)
    assert read(transaction_broker, topic) == ["open"]


def test_a_zombie_is_fenced(transaction_broker: Server, topic: str) -> None:
    create(transaction_broker, topic)
    old = producer(transaction_broker, topic)
    old.begin_transaction()
    send(old, topic, ["of the old one"])
    old.flush(120)
    new = producer(transaction_broker, topic)
    send(old, topic, ["too late"])
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        old.commit_transaction(120)
    assert refused.value.args[0].fatal()
    assert refused.value.args[0].code() in (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )
    new.begin_transaction()
    send(new, topic, ["of the new one"])
    new.commit_transaction(120)
    assert read(transaction_broker, topic) == ["of the new one"]


def test_a_transaction_that_takes_too_long_is_aborted(transaction_broker: Server, topic: str) -> None:
    for timeout_ms in (1000, 30_000):  # on a slow machine the shorter one is over before the record is there
        topic = create(transaction_broker, f"{topic}-{timeout_ms}")
        client = producer(transaction_broker, topic, transaction_timeout_ms=timeout_ms, message_timeout_ms=timeout_ms)
        client.begin_transaction()
        send(client, topic, ["slow"])
        client.flush(120)
        if read(transaction_broker, topic, committed=False) == ["slow"]:
            break
    end = time.monotonic() + 120
    while len(read(transaction_broker, topic, committed=False)) != 1 or not _is_aborted(transaction_broker, topic):
        assert time.monotonic() < end
        time.sleep(0.1)
    with pytest.raises(confluent_kafka.KafkaException):
        client.commit_transaction(120)
    assert read(transaction_broker, topic) == []


def _is_aborted(broker: Server, topic: str) -> bool:
    reader = consumer(broker, "unused")
    try:
        return bool(reader.get_watermark_offsets(TopicPartition(topic, 0), 120) == (0, 2))
    finally:
        reader.close()


def test_offsets_are_committed_with_the_records(transaction_broker: Server, topic: str) -> None:
    """Consume, transform, produce: some rounds are aborted, and are done again from the committed offsets."""
    source, sink = create(transaction_broker, f"{topic}-in", 2), create(transaction_broker, f"{topic}-out")
    filler = producer(transaction_broker, f"{topic}-filler")
    for commits in (True, False):
        filler.begin_transaction()
        for partition in range(2):
            send(filler, source, numbered(f"{partition}" if commits else "never", 60), partition)
        if commits:
            filler.commit_transaction(120)
        else:
            filler.flush(120)
            filler.abort_transaction(120)
    client, reader = producer(transaction_broker, topic), consumer(transaction_broker, f"{topic}-group")
    reader.subscribe([source])
    copied, round_number, end = 0, 0, time.monotonic() + 120
    while copied < 120:
        assert time.monotonic() < end, copied
        messages = reader.consume(25, 1.0)
        if not messages:
            continue
        round_number += 1
        client.begin_transaction()
        for message in messages:
            assert message.error() is None
            client.produce(sink, message.value(), partition=0)
        client.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata(), 120)
        if round_number % 3 == 2:
            client.abort_transaction(120)
            for place in reader.committed(reader.assignment(), 120):
                place.offset = max(place.offset, 0)
                reader.seek(place)
        else:
            client.commit_transaction(120)
            copied += len(messages)
    assert round_number > copied // 25
    for place in reader.committed([TopicPartition(source, index) for index in range(2)], 120):
        assert 60 <= place.offset <= 122  # with or without the aborted records behind
    reader.close()
    assert sorted(read(transaction_broker, sink)) == sorted(numbered("0", 60) + numbered("1", 60))


def test_a_group_that_went_on_refuses_old_offsets(transaction_broker: Server, topic: str) -> None:
    source = create(transaction_broker, topic)
    client, reader = producer(transaction_broker, topic), consumer(transaction_broker, topic)
    reader.subscribe([source])
    end = time.monotonic() + 120
    while not reader.assignment():
        assert time.monotonic() < end
        reader.poll(0.1)
    old = reader.consumer_group_metadata()
    reader.close()
    client.begin_transaction()
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        client.send_offsets_to_transaction([TopicPartition(source, 0, 5)], old, 120)
    assert refused.value.args[0].txn_requires_abort()
    client.abort_transaction(120)
    client.begin_transaction()
    send(client, source, ["goes on"])
    client.commit_transaction(120)
    assert read(transaction_broker, source) == ["goes on"]


def test_empty_transactions_and_a_long_row_of_small_ones(transaction_broker: Server, topic: str) -> None:
    create(transaction_broker, topic)
    client = producer(transaction_broker, topic)
    client.begin_transaction()
    client.commit_transaction(120)
    client.begin_transaction()
    client.abort_transaction(120)
    for number in range(100):
        client.begin_transaction()
        send(client, topic, [str(number)])
        client.commit_transaction(120)
    assert read(transaction_broker, topic) == [str(number) for number in range(100)]


def test_a_timeout_beyond_the_servers_limit_is_refused(transaction_broker: Server, topic: str) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        producer(transaction_broker, topic, transaction_timeout_ms=900_001)
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT
