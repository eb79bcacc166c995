"""Retry topics with backoff: what fails now is tried again in 1, 10 and 60 seconds, and given up after that.

For records that fail because of something that passes (a service that is down, a lock), when the others should not wait
for them. Records of the same key may overtake each other: if that matters, see ordered_retry.py.

    python -m examples.retry_topics [BOOTSTRAP_SERVERS TOPIC]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from ottla.client import Consumer, ConsumerRecord, Producer, RetryTopics

Record = ConsumerRecord[bytes | None, bytes | None]


async def run(
    bootstrap_servers: str,
    topic: str,
    handle: Callable[[Record], Awaitable[None]],
    delays_ms: Sequence[int] = (1_000, 10_000, 60_000),
) -> None:
    settings = {"group.id": "retry-topics", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with (
        Consumer(settings, bootstrap_servers=bootstrap_servers) as consumer,
        Producer(bootstrap_servers=bootstrap_servers) as producer,
    ):
        retries = RetryTopics(producer, topic, delays_ms)
        consumer.subscribe(retries.topics)
        async for record in retries.due(consumer):
            try:
                await handle(record)
            except Exception as error:
                await retries.failed(record, error)
            await consumer.commit(record)


async def ship(record: Record) -> None:
    print(f"shipped {record.value!r}")


if __name__ == "__main__":
    bootstrap, name = sys.argv[1:] or ["127.0.0.1:9092", "parcels"]
    asyncio.run(run(bootstrap, name, ship))
