"""Retries that keep the order of each key: while a record waits for its retry, the later ones of its key wait behind
it, and all other keys go on.

For changes that build on each other (the events of one order, of one account) when a failure passes by itself. Two
programs and three topics with the same number of partitions:

- `run` reads TOPIC. A record that fails, and every later record of a key that waits, goes to TOPIC.retry.
- `retry` reads TOPIC.retry and tries each record until it succeeds, with growing pauses; what fails too often becomes a
  dead letter.
- TOPIC.waiting (compacted) says which records wait: `run` writes a note of each, `retry` a tombstone when it is
  through. When the last of a key is through, `run` handles that key directly again. After a restart, or when
  partitions move, `run` reads there what waits.

Sending a record to wait is one transaction (the record, the note, the offset), and so is its end: no crash can make a
record wait twice, or be forgotten. Handling is at least once, in the order of each key.

    python -m examples.ordered_retry create|run|retry [BOOTSTRAP_SERVERS TOPIC]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from ottla.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    DeadLetter,
    DeadLetters,
    NewTopic,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from ottla.client.dead_letters import headers_with_error

Record = ConsumerRecord[bytes | None, bytes | None]
Handle = Callable[[Record], Awaitable[None]]


class BehindAnother(Exception):
    """Why a record that was not even tried goes to wait: one of its key waits already."""


class Waiting(RebalanceListener):
    """Which records wait for their retry, as the notes in TOPIC.waiting tell."""

    def __init__(self, topic: str, bootstrap_servers: str) -> None:
        self.topic = f"{topic}.waiting"
        self._bootstrap_servers = bootstrap_servers
        self._offsets: dict[tuple[int, bytes], set[int]] = {}
        """By partition and key."""

    async def __aenter__(self) -> Waiting:
        self._notes = Consumer(
            bootstrap_servers=self._bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._notes.close()

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Read what waits in the partitions that are ours from now on, before we handle any of their records."""
        ours = [TopicPartition(self.topic, one.partition) for one in partitions]
        self._notes.assign(self._notes.assignment().union(ours))
        self._notes.seek_to_beginning(ours)
        await self._catch_up(ours)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Others handle these now, and will note what waits."""
        lost = {one.partition for one in partitions}
        self._notes.assign([one for one in self._notes.assignment() if one.partition not in lost])
        self._offsets = {place: offsets for place, offsets in self._offsets.items() if place[0] not in lost}

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self.on_partitions_revoked(partitions)

    async def has_one_before(self, record: Record) -> bool:
        """Whether a record of this key waits, as of now: what looks like waiting may be through."""
        if record.key is None or not self._offsets.get((record.partition, record.key)):
            return False
        await self._catch_up([TopicPartition(self.topic, record.partition)])
        return bool(self._offsets[record.partition, record.key])

    async def _catch_up(self, partitions: Sequence[TopicPartition]) -> None:
        for partition, end_offset in (await self._notes.end_offsets(partitions)).items():
            while await self._notes.position(partition) < end_offset:
                for note in await self._notes.poll():
                    offset, _, key = (note.key or b"").partition(b":")
                    offsets = self._offsets.setdefault((note.partition, key), set())
                    if note.value is None:
                        offsets.discard(int(offset))
                    else:
                        offsets.add(int(offset))

    def add(self, record: Record) -> None:
        """Known at once; the note comes back to us later."""
        self._offsets.setdefault((record.partition, record.key or b""), set()).add(record.offset)


def note_key(offset: int, key: bytes | None) -> bytes:
    return b"%d:%s" % (offset, key or b"")


async def run(bootstrap_servers: str, topic: str, handle: Handle, *, instance: str = "1") -> None:
    settings = {"group.id": "ordered-retry", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with (
        Waiting(topic, bootstrap_servers) as waiting,
        Consumer(settings, bootstrap_servers=bootstrap_servers) as consumer,
        Producer(bootstrap_servers=bootstrap_servers, transactional_id=f"{topic}-run-{instance}") as producer,
    ):
        await producer.init_transactions()  # ends what a former life left open
        consumer.subscribe([topic], listener=waiting)
        async for record in consumer:
            waits = await waiting.has_one_before(record)
            failure = BehindAnother() if waits else await last_failure(record, handle)
            if failure is None:
                await consumer.commit(record)
                continue
            async with producer.transaction():
                headers, place = headers_with_error(record, failure), record.partition
                producer.send(f"{topic}.retry", record.value, record.key, headers, place)
                producer.send(waiting.topic, b"waits", note_key(record.offset, record.key), partition=place)
                await producer.send_offsets(offset_after(record), consumer.group_metadata())
            waiting.add(record)


async def retry(
    bootstrap_servers: str,
    topic: str,
    handle: Handle,
    *,
    instance: str = "1",
    pauses_s: Sequence[float] = (0.1, 1.0, 10.0),
) -> None:
    settings = {"group.id": "ordered-retry-later", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    async with (
        Consumer(settings, bootstrap_servers=bootstrap_servers, isolation_level="read_committed") as consumer,
        Producer(bootstrap_servers=bootstrap_servers, transactional_id=f"{topic}-retry-{instance}") as producer,
    ):
        dead_letters = DeadLetters(producer, f"{topic}.dead-letters")
        await producer.init_transactions()
        consumer.subscribe([f"{topic}.retry"])
        async for record in consumer:
            failure = await last_failure(record, handle, pauses_s)
            origin = DeadLetter.of(record)
            assert origin is not None, "the writer of the retry topic says where the record comes from"
            async with producer.transaction():
                if failure is not None:
                    dead_letters.send(record, failure)
                note = note_key(origin.offset, record.key)
                producer.send(f"{topic}.waiting", None, note, partition=record.partition)
                await producer.send_offsets(offset_after(record), consumer.group_metadata())


async def last_failure(record: Record, handle: Handle, pauses_s: Sequence[float] = (0,)) -> Exception | None:
    """Why a record could not be handled, tried once after each pause; None when it was handled."""
    failure: Exception | None = None
    for pause_s in pauses_s:
        await asyncio.sleep(pause_s)
        try:
            await handle(record)
        except Exception as error:
            failure = error
        else:
            return None
    return failure


def offset_after(record: Record) -> dict[TopicPartition, int]:
    return {TopicPartition(record.topic, record.partition): record.offset + 1}


async def create(bootstrap_servers: str, topic: str, partition_count: int = 6) -> None:
    async with Admin(bootstrap_servers=bootstrap_servers) as admin:
        await admin.create_topics(
            [
                NewTopic(topic, partition_count),
                NewTopic(f"{topic}.retry", partition_count),
                NewTopic(f"{topic}.waiting", partition_count, config={"cleanup.policy": "compact"}),
                NewTopic(f"{topic}.dead-letters", partition_count),
            ]
        )


async def book(record: Record) -> None:
    print(f"{record.key!r}: {int(record.value or b'')} euros")


if __name__ == "__main__":
    command, bootstrap, name = sys.argv[1:] if len(sys.argv) == 4 else [*sys.argv[1:2], "127.0.0.1:9092", "accounts"]
    match command:
        case "create":
            asyncio.run(create(bootstrap, name))
        case "run":
            asyncio.run(run(bootstrap, name, book))
        case "retry":
            asyncio.run(retry(bootstrap, name, book))
        case _:
            sys.exit(f"create, run or retry, not {command!r}")
