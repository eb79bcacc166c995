"""Retry topics: a record that could not be handled is tried again later, while those behind it go on.

    retries = RetryTopics(producer, "orders", delays_ms=(1_000, 10_000, 60_000))
    consumer.subscribe(retries.topics)
    async for record in retries.due(consumer):
        try:
            await handle(record)
        except Exception as error:
            await retries.failed(record, error)
        await consumer.commit(record)

Every delay has a topic of its own (`orders.retry-1`, `orders.retry-2`, ...), so the first record of a partition is
always the first that is due. What failed once more than there are delays goes to `orders.dead-letters`. A record that
waits is overtaken by the later ones of its key: where that matters, see examples/ordered_retry.py.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from math import ceil
from typing import Generic, TypeVar

from ottla.client.consumer import Consumer
from ottla.client.core.fetching import ConsumerRecord
from ottla.client.core.partitions import TopicPartition
from ottla.client.dead_letters import AnyRecord, D, DeadLetters, Sends, headers_with_error
from ottla.client.errors import ClientClosed
from ottla.client.times import check_ms

K = TypeVar("K")
V = TypeVar("V")

LONGEST_WAIT_MS = 60_000.0


class RetryTopics(Generic[D]):
    """The retry topics of `topic`. `name` is what their names begin with, by default `topic`: groups that read the
    same topic for different ends need different ones."""

    def __init__(
        self, producer: Sends[D], topic: str, delays_ms: Sequence[int] = (1_000, 10_000, 60_000), *, name: str = ""
    ) -> None:
        for delay_ms in delays_ms:
            check_ms(delay_ms, "delays_ms")
        if not delays_ms or min(delays_ms) < 0:
            raise ValueError(f"delays_ms is at least one delay of 0 ms or more, not {delays_ms!r}")
        name = name or topic
        self._producer = producer
        self._delays_ms = {f"{name}.retry-{attempt}": delay_ms for attempt, delay_ms in enumerate(delays_ms, 1)}
        self.topics = (topic, *self._delays_ms)
        """The topics to subscribe to: the topic itself, and the topics for its retries."""
        self.dead_letters = DeadLetters(producer, f"{name}.dead-letters")

    def failed(self, record: AnyRecord, error: BaseException) -> D:
        """Have a record come back later, or give it up. The producer's `Delivery` is returned: await it before the
        record is committed."""
        attempt = self._attempt(record) + 1
        if attempt == len(self.topics):
            return self.dead_letters.send(record, error)
        # The record's timestamp is when it was written, from which its due time follows.
        return self._producer.send(self.topics[attempt], record.value, record.key, headers_with_error(record, error))

    def _attempt(self, record: AnyRecord) -> int:
        """How often a record has been tried before."""
        try:
            return self.topics.index(record.topic)
        except ValueError:
            raise ValueError(f"{record.topic} is none of {', '.join(self.topics)}") from None

    async def due(self, consumer: Consumer[K, V]) -> AsyncIterator[ConsumerRecord[K, V]]:
        """A consumer's records, those of retry topics when they are due and not before. Partitions that wait are
        paused, so that the consumer stays in its group and reads the others."""
        waiting: dict[TopicPartition, float] = {}
        while True:
            now = time.time() * 1000
            over = [partition for partition, due_at in waiting.items() if due_at <= now]
            for partition in over:
                del waiting[partition]
            # The partition may have been revoked meanwhile; its new owner waits for the record itself.
            consumer.resume(consumer.assignment().intersection(over))
            wait_ms = min((due_at - now for due_at in waiting.values()), default=LONGEST_WAIT_MS)
            try:
                # One at a time: a commit at any moment then covers exactly the records that were handed out.
                records = await consumer.poll(ceil(min(wait_ms, LONGEST_WAIT_MS)), max_records=1)
            except ClientClosed:
                return
            for record in records:
                due_at = record.timestamp + self._delays_ms.get(record.topic, 0)
                if due_at > time.time() * 1000:
                    partition = TopicPartition(record.topic, record.partition)
                    consumer.pause([partition])
                    consumer.seek(partition, record.offset)
                    waiting[partition] = due_at
                else:
                    yield record
