"""The blocking face of Ottla's own client: no event loop in sight."""

from __future__ import annotations

import threading
import time

import pytest

from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.errors import ClientClosed, ConfigError, KafkaError, RecordTooLarge, RequestTimedOut
from tests.interop.servers import Server, free_port


def read(broker: Server, topic: str, count: int, **settings: object) -> list[bytes | None]:
    with Consumer(settings, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        values: list[bytes | None] = []
        end = time.monotonic() + 120
        while len(values) < count and time.monotonic() < end:
            values += [record.value for record in consumer.poll(200)]
        return values


def test_records_are_written_and_read_without_an_event_loop(broker: Server, topic: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(topic, 1)
        assert topic in admin.list_topics()
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(5000)]
        assert deliveries[-1].result().offset == 4999
        assert deliveries[0].done()
        told = threading.Event()
        producer.send(topic, b"last").add_done_callback(lambda delivery: told.set())
        assert told.wait(120)
        producer.flush()
    assert read(broker, topic, 5001) == [*(b"%d" % number for number in range(5000)), b"last"]


def test_many_records_are_written_in_one_call(broker: Server, topic: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(topic, 1)
    with Producer(bootstrap_servers=broker.bootstrap, buffer_memory=20_000, batch_size=5_000) as producer:
        values = [b"%d" % number for number in range(10_000)]
        deliveries = producer.send_many(topic, iter(values), keys=values)
        assert [delivery.result().offset for delivery in deliveries] == list(range(10_000))
        assert producer.send_many(topic, []) == []
        with pytest.raises(ValueError, match="zip"):
            producer.send_many(topic, [b"1", b"2"], keys=[b"1"])
        with pytest.raises(KafkaError, match="INVALID_TOPIC"):
            producer.send_many("no/topic", [b"1", b"2"])
    assert read(broker, topic, 10_001)[:10_000] == values


def test_several_threads_share_a_producer(broker: Server, topic: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(topic, 1)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:

        def write(name: int) -> None:
            for number in range(2000):
                producer.send(topic, b"%d %d" % (name, number))

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = read(broker, topic, 8000)
    for name in range(4):
        numbers = [int(value.split()[1]) for value in values if value is not None and value.startswith(b"%d " % name)]
        assert numbers == list(range(2000))


def test_errors_are_raised_by_the_result(broker: Server, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, max_request_size=1000) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send(topic, bytes(2000)).result()
        with pytest.raises(TypeError):
            producer.send(topic, 7).result()
    with pytest.raises(ClientClosed):
        producer.flush()
    with pytest.raises(ClientClosed):
        producer.send(topic, b"x")
    producer.close()
    with pytest.raises(ConfigError, match="did you mean"):
        Producer(bootstrap_servers=broker.bootstrap, linger=5)  # type: ignore[call-arg]  # which is what is tested


def test_a_result_is_not_waited_for_longer_than_asked(topic: str) -> None:
    with Producer(bootstrap_servers=f"127.0.0.1:{free_port()}", max_block_ms=5_000) as producer:
        delivery = producer.send(topic, b"x")
        with pytest.raises(RequestTimedOut, match="not written within 100 ms"):
            delivery.result(timeout_ms=100)
        with pytest.raises(RequestTimedOut, match="none of"):
            delivery.result()


def test_transactions_block_too(transaction_broker: Server, topic: str) -> None:
    with Admin(bootstrap_servers=transaction_broker.bootstrap) as admin:
        admin.create_topic(topic, 1)
    with Producer(bootstrap_servers=transaction_broker.bootstrap, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"kept")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(topic, b"dropped").result()
            raise ZeroDivisionError
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            producer.commit_transaction()
    assert read(transaction_broker, topic, 1, isolation_level="read_committed") == [b"kept"]


def test_a_group_is_joined_and_its_offsets_committed(group_broker: Server, topic: str) -> None:
    with Admin(bootstrap_servers=group_broker.bootstrap) as admin:
        admin.create_topic(topic, 2)
        with Producer(bootstrap_servers=group_broker.bootstrap) as producer:
            for number in range(10):
                producer.send(topic, b"%d" % number)
        with Consumer(
            bootstrap_servers=group_broker.bootstrap, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([topic])
            found = []
            for record in consumer:
                found.append(record.value)
                if len(found) == 10:
                    break
            consumer.commit()
            assert sorted(found) == [b"%d" % number for number in range(10)]
        assert sum(one.lag or 0 for one in admin.group_lag(topic).values()) == 0
