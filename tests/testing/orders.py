"""A topic of orders, written and read with a client that is not ours."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer

from ottla.testing import Broker, Cluster


def write(broker: Broker | Cluster, *values: str) -> None:
    # What a leader that is replaced has not answered is sent again: only an idempotent producer writes it once.
    settings = {"enable.idempotence": True, "request.timeout.ms": 10_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for value in values:
        producer.produce("orders", value=value)
    assert producer.flush(240) == 0


def try_to_write(broker: Broker | Cluster, value: str, timeout_ms: int = 1500) -> str | None:
    """The name of the error that a record without retries ended with, None if it was written."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": timeout_ms, "retries": 0, "log_level": 0}
    )
    errors: list[str | None] = []
    producer.produce(
        "orders", value=value, on_delivery=lambda error, _: errors.append(str(error.name()) if error else None)
    )
    producer.flush(timeout_ms / 1000 + 120)
    return errors[0]


def read(broker: Broker | Cluster, count: int, group: str = "readers") -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    found: list[str] = []
    end = time.monotonic() + 120
    while len(found) < count and time.monotonic() < end:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
    consumer.close()
    return found
