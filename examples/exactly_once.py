"""Exactly once: read, transform, write, and commit what was read, all in one transaction.

Whatever dies and whenever, every record of the source has its result in the target once, as far as those can see who
read the target with isolation.level=read_committed. It holds from topic to topic: an email that `transform` sends is
sent again with the batch. Every running instance needs a transactional id of its own, and the same one after a restart:
`init_transactions` ends at once what the former life left open, which no consumer can read past until then.

    python -m examples.exactly_once [BOOTSTRAP_SERVERS SOURCE TARGET TRANSACTIONAL_ID]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

from ottla.client import Consumer, ConsumerRecord, Producer, TopicPartition
from ottla.client.errors import CommitFailed, TransactionAborted

Record = ConsumerRecord[bytes | None, bytes | None]


async def run(
    bootstrap_servers: str, source: str, target: str, transactional_id: str, transform: Callable[[Record], bytes]
) -> None:
    settings = {"group.id": f"{source}-to-{target}", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with (
        Consumer(settings, bootstrap_servers=bootstrap_servers, isolation_level="read_committed") as consumer,
        Producer(bootstrap_servers=bootstrap_servers, transactional_id=transactional_id) as producer,
    ):
        await producer.init_transactions()
        consumer.subscribe([source])
        async for records in consumer.batches():
            try:
                async with producer.transaction():
                    for record in records:
                        producer.send(target, transform(record), key=record.key)
                    await producer.send_offsets(next_offsets(records), consumer.group_metadata())
            except (TransactionAborted, CommitFailed):
                # None of it counts: the broker gave it up, or the group went on without us. Read it again, if it is
                # still ours to read.
                rewind(consumer, records)


def next_offsets(records: Sequence[Record]) -> dict[TopicPartition, int]:
    return {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}


def rewind(consumer: Consumer[bytes | None, bytes | None], records: Sequence[Record]) -> None:
    for record in reversed(records):
        partition = TopicPartition(record.topic, record.partition)
        if partition in consumer.assignment():
            consumer.seek(partition, record.offset)


def shout(record: Record) -> bytes:
    return (record.value or b"").upper()


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["127.0.0.1:9092", "said", "shouted", "shout-1"]
    bootstrap, source_topic, target_topic, own_id = arguments
    asyncio.run(run(bootstrap, source_topic, target_topic, own_id, shout))
