"""Stop on error: what cannot be handled ends the program, and nothing behind it is touched.

For records that must all be handled, in order: a ledger, the changes of a database. The record is met again at the next
start, so an operator (or a supervisor, if the trouble passes by itself) must correct the record or the program.

    python -m examples.stop_on_error [BOOTSTRAP_SERVERS TOPIC]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from ottla.client import Consumer, ConsumerRecord

Record = ConsumerRecord[bytes | None, bytes | None]


class Stopped(Exception):
    """A record that could not be handled; where it is, and why."""


async def run(bootstrap_servers: str, topic: str, handle: Callable[[Record], Awaitable[None]]) -> None:
    settings = {"group.id": "stop-on-error", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with Consumer(settings, bootstrap_servers=bootstrap_servers) as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            try:
                await handle(record)
            except Exception as error:
                place = f"{record.topic}-{record.partition} at offset {record.offset}"
                raise Stopped(f"{place} cannot be handled: {error!r}") from error
            await consumer.commit(record)


async def book(record: Record) -> None:
    print(f"booked {int(record.value or b'')} euros")


if __name__ == "__main__":
    bootstrap, name = sys.argv[1:] or ["127.0.0.1:9092", "ledger"]
    try:
        asyncio.run(run(bootstrap, name, book))
    except Stopped as stopped:
        sys.exit(str(stopped))
