"""At most once: commit first, then handle.

No record is ever handled twice. Those that were read but not yet handled when the program died are lost. They are not
read again. For what does harm when it is done twice and none when it is not done at all, or what is worth nothing a
moment later: the bell that says "new message", a measurement among thousands.

    python -m examples.at_most_once [BOOTSTRAP_SERVERS TOPIC]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from ottla.client import Consumer, ConsumerRecord

Record = ConsumerRecord[bytes | None, bytes | None]


async def run(bootstrap_servers: str, topic: str, handle: Callable[[Record], Awaitable[None]]) -> None:
    settings = {"group.id": "at-most-once", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with Consumer(settings, bootstrap_servers=bootstrap_servers) as consumer:
        consumer.subscribe([topic])
        async for records in consumer.batches():
            await consumer.commit()  # from here on they are ours alone
            for record in records:
                await handle(record)


async def ring(record: Record) -> None:
    print(f"new message: {record.value!r}")


if __name__ == "__main__":
    bootstrap, name = sys.argv[1:] or ["127.0.0.1:9092", "messages"]
    asyncio.run(run(bootstrap, name, ring))
