"""A shop that takes orders and a warehouse that ships them, with confluent-kafka and Kafka in between."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

ORDERS = "orders"


class OrderNotTaken(Exception):
    """The order is not on record: the customer has to be told."""


class Shop:
    """Takes orders. An order that was taken is in Kafka, whatever happens then."""

    def __init__(self, bootstrap_servers: str, *, patience_ms: int = 5_000) -> None:
        self._patience_ms = patience_ms
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": patience_ms,
                "request.timeout.ms": min(patience_ms, 1_000),
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def order(self, customer: str, article: str, count: int) -> int:
        """Put an order on record; its number."""
        if count < 1:
            raise ValueError(f"an order of {count} is not possible")
        outcome: list[int | KafkaError] = []

        def taken(error: KafkaError | None, message: Message) -> None:
            outcome.append(error if error is not None else message.offset() or 0)

        value = json.dumps({"article": article, "count": count})
        self._producer.produce(ORDERS, key=customer, value=value, on_delivery=taken)
        self._producer.flush(self._patience_ms / 1000 + 1)
        if not outcome or isinstance(outcome[0], KafkaError):
            raise OrderNotTaken(str(outcome[0]) if outcome else "no answer in time")
        return outcome[0]


class Warehouse:
    """Ships what was ordered, each order at least once, and knows by its offset what it has shipped already."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.shipped: Counter[str] = Counter()
        self._numbers: set[tuple[int, int]] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "warehouse",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([ORDERS])

    def work(self, until_shipped: int, patience_s: float = 60.0) -> None:
        """Ship orders until so many articles have left."""
        end = time.monotonic() + patience_s
        while self.shipped.total() < until_shipped and time.monotonic() < end:
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._ship(message)
                self._consumer.commit(message=message)
            elif not error.retriable() and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(error)  # the first order creates the topic; until then it is unknown

    def _ship(self, message: Message) -> None:
        number = message.partition() or 0, message.offset() or 0
        if number not in self._numbers:
            self._numbers.add(number)
            order: dict[str, Any] = json.loads(message.value() or b"{}")
            self.shipped[order["article"]] += order["count"]

    def close(self) -> None:
        self._consumer.close()
