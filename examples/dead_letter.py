"""A dead-letter topic: what cannot be handled is put aside with the reason, and the rest goes on.

For records that do not depend on each other, when some are simply wrong: no number of tries will make them right, but
a person should see them. `handle_dead_letters` shows what was put aside; what has been put right goes back to where it
came from.

    python -m examples.dead_letter [BOOTSTRAP_SERVERS TOPIC]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from ottla.client import Consumer, ConsumerRecord, DeadLetter, DeadLetters, Producer

Record = ConsumerRecord[bytes | None, bytes | None]


def consumer_of(group: str, bootstrap_servers: str) -> Consumer[bytes | None, bytes | None]:
    settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer(settings, bootstrap_servers=bootstrap_servers)


async def run(bootstrap_servers: str, topic: str, handle: Callable[[Record], Awaitable[None]]) -> None:
    async with (
        consumer_of("dead-letter", bootstrap_servers) as consumer,
        Producer(bootstrap_servers=bootstrap_servers) as producer,
    ):
        dead_letters = DeadLetters(producer, f"{topic}.dead-letters")
        consumer.subscribe([topic])
        async for record in consumer:
            try:
                await handle(record)
            except Exception as error:
                await dead_letters.send(record, error)  # written before the record is committed: it cannot get lost
            await consumer.commit(record)


async def handle_dead_letters(
    bootstrap_servers: str, topic: str, is_put_right: Callable[[Record, DeadLetter], bool]
) -> None:
    """Look at each dead letter once; what `is_put_right` says goes back to its topic."""
    async with (
        consumer_of("dead-letter-clerk", bootstrap_servers) as consumer,
        Producer(bootstrap_servers=bootstrap_servers) as producer,
    ):
        dead_letters = DeadLetters(producer, f"{topic}.dead-letters")
        consumer.subscribe([dead_letters.topic])
        async for record in consumer:
            letter = DeadLetter.of(record)
            if letter is not None and is_put_right(record, letter):
                await dead_letters.return_to_sender(record)
            await consumer.commit(record)


async def weigh(record: Record) -> None:
    print(f"{float(record.value or b'')} kg")


if __name__ == "__main__":
    bootstrap, name = sys.argv[1:] or ["127.0.0.1:9092", "weights"]
    asyncio.run(run(bootstrap, name, weigh))
