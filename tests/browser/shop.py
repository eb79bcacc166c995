"""A small shop's cluster: topics with orders, groups that lag, dead letters, schemas. Tests and pictures look at it."""

from __future__ import annotations

import json
import random
import time
import urllib.request
from pathlib import Path
from typing import Any

from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.core.fetching import ConsumerRecord
from ottla.client.dead_letters import DeadLetters
from ottla.spark.pipelines.progress import FlowProgress, SourceCounts
from ottla.spark.pipelines.state import FOLDER, PipelineState

TOPICS = {
    "shop.orders": 6,
    "shop.payments": 3,
    "shop.shipments": 3,
    "shop.customers": 3,
    "shop.clicks": 12,
    "shop.orders.dead-letters": 1,
    "warehouse.stock": 3,
    "warehouse.returns": 1,
    "billing.invoices": 3,
    "search.index-updates": 3,
}
SETTINGS = {
    "shop.customers": {"cleanup.policy": "compact"},
    "shop.clicks": {"retention.ms": "86400000", "compression.type": "zstd"},
    "warehouse.stock": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
}
GROUPS = {
    "billing": ("shop.orders", 0.95),
    "fraud-detection": ("shop.payments", 0.6),
    "search-indexer": ("search.index-updates", 1.0),
    "warehouse-sync": ("shop.orders", 0.4),
    "recommendations": ("shop.clicks", 0.85),
}
"""Group -> its topic, and how much of it is read."""
REASONS = (
    (ValueError("amount is negative: -12.50"), 9),
    (KeyError("customer 'c-77' is not known"), 5),
    (json.JSONDecodeError("Expecting value", "{", 1), 3),
)
PRODUCTS = (
    "oak desk",
    "reading lamp",
    "ink, blue",
    "notebook A5",
    "fountain pen",
    "letter paper",
    "wax seal",
    "bookend",
)
CITIES = ("Praha", "Brno", "Wien", "Berlin", "Zürau", "Kraków")
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
    ],
}


def order(chance: random.Random, number: int) -> dict[str, object]:
    return {
        "id": f"o-{number:06}",
        "customer": {"id": f"c-{chance.randrange(400)}", "city": chance.choice(CITIES)},
        "items": [
            {
                "product": chance.choice(PRODUCTS),
                "count": chance.randrange(1, 5),
                "price": chance.randrange(199, 39900) / 100,
            }
            for _ in range(chance.randrange(1, 4))
        ],
        "amount": chance.randrange(500, 90000) / 100,
        "currency": "EUR",
        "express": chance.random() < 0.2,
    }


def _send(producer: Producer, topic: str, value: dict[str, object], key: str, number: int, timestamp: int) -> None:
    headers = {"trace-id": f"{number * 2654435761 % 2**32:08x}".encode(), "source": b"web"}
    producer.send(topic, json.dumps(value, ensure_ascii=False).encode(), key.encode(), headers, timestamp=timestamp)


def fill(bootstrap_servers: str, record_count: int = 4_000, seed: int = 7, replication_factor: int = 1) -> None:
    """Topics and their records: the same for the same seed, but for their times, which end now."""
    chance = random.Random(seed)
    now = int(time.time() * 1000)
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        for topic, partition_count in TOPICS.items():
            admin.create_topic(
                topic,
                partition_count=partition_count,
                replication_factor=replication_factor,
                config=SETTINGS.get(topic, {}),
            )
    with Producer(bootstrap_servers=bootstrap_servers, compression_type="zstd", linger_ms=20) as producer:
        for number in range(record_count):
            at = now - (record_count - number) * 900
            one = order(chance, number)
            _send(producer, "shop.orders", one, str(one["id"]), number, at)
            if number % 2 == 0:
                paid = {
                    "order": one["id"],
                    "amount": one["amount"],
                    "method": chance.choice(("card", "transfer", "cash")),
                }
                _send(producer, "shop.payments", paid, str(one["id"]), number, at + 300)
            if number % 5 == 0:
                sent = {"order": one["id"], "carrier": chance.choice(("post", "courier")), "parcels": 1 + number % 3}
                _send(producer, "shop.shipments", sent, str(one["id"]), number, at + 900)
                _send(producer, "shop.customers", dict(one["customer"]), f"c-{number % 400}", number, at)  # type: ignore[call-overload]
            if number % 8 == 0:
                stock = {"product": chance.choice(PRODUCTS), "left": chance.randrange(90)}
                _send(producer, "warehouse.stock", stock, str(stock["product"]), number, at)
                _send(producer, "search.index-updates", stock, str(stock["product"]), number, at)
                _send(producer, "billing.invoices", {"invoice": number, "order": one["id"]}, str(one["id"]), number, at)
            click = {
                "path": f"/p/{chance.randrange(200)}",
                "ms": chance.randrange(20, 900),
                "session": f"s-{number % 97}",
            }
            _send(producer, "shop.clicks", click, str(click["session"]), number, at)
        producer.flush()


def read(bootstrap_servers: str) -> None:
    """Groups that have read a share of their topic."""
    for group, (topic, share) in GROUPS.items():
        with Consumer(bootstrap_servers=bootstrap_servers, group_id=group, enable_auto_commit=False) as consumer:
            consumer.subscribe([topic])
            end = time.monotonic() + 60
            wanted = None
            while time.monotonic() < end:
                consumer.poll(500)
                parts = consumer.assignment()
                if parts and wanted is None:
                    wanted = {part: int(offset * share) for part, offset in consumer.end_offsets(parts).items()}
                if wanted:
                    break
            assert wanted, f"{group} was assigned nothing"
            consumer.commit(wanted)


def set_aside(bootstrap_servers: str) -> None:
    """Dead letters, as a consumer of orders writes them."""
    with (
        Consumer(
            bootstrap_servers=bootstrap_servers, group_id="orders-checker", auto_offset_reset="earliest"
        ) as consumer,
        Producer(bootstrap_servers=bootstrap_servers) as producer,
    ):
        consumer.subscribe(["shop.orders"])
        letters = DeadLetters(producer, "shop.orders.dead-letters")
        records: list[ConsumerRecord[Any, Any]] = []
        while len(records) < 20:
            records += consumer.poll(1_000)
        at = 0
        for error, count in REASONS:
            for record in records[at : at + count]:
                letters.send(record, error)
            at += count
        producer.flush()
        consumer.commit()


def run_pipeline(folder: Path) -> None:
    """A folder of pipelines with one that has run: its status and its log, as a run leaves them."""
    pipeline = folder / "shop-orders"
    (pipeline / FOLDER).mkdir(parents=True)
    (pipeline / "pipeline.yml").touch()
    flow = FlowProgress("accepted", "topic shop.orders.accepted", "stopped", rows_in=4_000, rows_out=3_650, lag=12)
    source = SourceCounts("web", ["has an id", "is worth sending"], 4_000, 3_650, 350, [0, 350])
    source.unexpected["note"] = 77
    status = {"flows": [flow.to_json()], "sources": [source.to_json()]}
    PipelineState(pipeline / FOLDER).write_status({"state": "stopped", "cause": None, "updated_at": 1.0, **status})
    lines = [f"batch {number} of {flow.flow}" for number in range(300)]
    (pipeline / FOLDER / "spark.log").write_text("\n".join(lines))


def register(registry_url: str) -> None:
    """A subject with two versions, and one of JSON Schema."""
    second = {**ORDER, "fields": [*ORDER["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
    person = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "city": {"type": "string"}},
        "required": ["id"],
    }
    for subject, kind, schema in (
        ("shop.orders-value", "AVRO", ORDER),
        ("shop.orders-value", "AVRO", second),
        ("shop.customers-value", "JSON", person),
    ):
        request = urllib.request.Request(
            f"{registry_url}/subjects/{subject}/versions",
            json.dumps({"schemaType": kind, "schema": json.dumps(schema)}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        urllib.request.urlopen(request, timeout=30).close()
