"""At least once: handle first, then commit. What most programs want.

No record is lost. Those that were handled but not yet committed when the program died are handled again by the next
reader, so handling must bear that: write by a key ("order 17 is paid"), not by a difference ("one more order").
Committing after each batch instead of after each record is faster, and repeats a batch at most.

    python -m examples.at_least_once [BOOTSTRAP_SERVERS TOPIC]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from ottla.client import Consumer, ConsumerRecord

Record = ConsumerRecord[bytes | None, bytes | None]


async def run(bootstrap_servers: str, topic: str, handle: Callable[[Record], Awaitable[None]]) -> None:
    settings = {"group.id": "at-least-once", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with Consumer(settings, bootstrap_servers=bootstrap_servers) as consumer:
        consumer.subscribe([topic])
        async for records in consumer.batches():
            for record in records:
                await handle(record)
            await consumer.commit()


async def pay(record: Record) -> None:
    print(f"order {record.key!r} is paid: {record.value!r}")


if __name__ == "__main__":
    bootstrap, name = sys.argv[1:] or ["127.0.0.1:9092", "orders"]
    asyncio.run(run(bootstrap, name, pay))
