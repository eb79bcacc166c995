"""Dead letters: records that cannot be handled, put aside in a topic of their own together with the reason.

    dead_letters = DeadLetters(producer, "orders.dead-letters")
    async for record in consumer:
        try:
            await handle(record)
        except ValueError as error:
            await dead_letters.send(record, error)
        await consumer.commit(record)

A letter is the record as it was (key, value, headers, timestamp) with the headers of Kafka Connect's dead letter queue,
so that tools which know those know these. Read a topic of dead letters like any other; `DeadLetter.of(record)` tells
where a letter came from and why, and `dead_letters.return_to_sender(record)` writes it back there.

For bytes that cannot even be deserialized, read bytes and deserialize where records are handled.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ottla.client.core.fetching import ConsumerRecord

D = TypeVar("D", covariant=True)

PREFIX = "__connect.errors."
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
EXCEPTION_CLASS = PREFIX + "exception.class.name"
EXCEPTION_MESSAGE = PREFIX + "exception.message"
EXCEPTION_STACKTRACE = PREFIX + "exception.stacktrace"

Headers = tuple[tuple[str, bytes | None], ...]
AnyRecord = ConsumerRecord[Any, Any]


class Sends(Protocol[D]):
    """A producer, of `ottla.client` or of `ottla.client.blocking`."""

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> D: ...


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a record was read first, and why it could not be handled there (the last time, if that was tried often)."""

    topic: str
    partition: int
    offset: int
    exception_class: str
    exception_message: str
    exception_stacktrace: str

    @classmethod
    def of(cls, record: AnyRecord) -> DeadLetter | None:
        """The letter in a record's headers; None for a record that is no dead letter."""
        found = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
        topic, partition, offset = found.get(TOPIC), found.get(PARTITION, ""), found.get(OFFSET, "")
        if topic is None or not partition.isdecimal() or not offset.isdecimal():
            return None
        texts = (found.get(name, "") for name in (EXCEPTION_CLASS, EXCEPTION_MESSAGE, EXCEPTION_STACKTRACE))
        return cls(topic, int(partition), int(offset), *texts)


class DeadLetters(Generic[D]):
    """A topic of dead letters. `producer` may be transactional: then letters count when the transaction does."""

    def __init__(self, producer: Sends[D], topic: str) -> None:
        self._producer = producer
        self.topic = topic

    def send(self, record: AnyRecord, error: BaseException) -> D:
        """Put a record aside. The producer's `Delivery` is returned: await it before the record is committed."""
        headers = headers_with_error(record, error)
        return self._producer.send(self.topic, record.value, record.key, headers, timestamp=record.timestamp)

    def return_to_sender(self, record: AnyRecord) -> D:
        """Write a dead letter back to the partition it came from, as it was."""
        letter = DeadLetter.of(record)
        if letter is None:
            raise ValueError(
                f"{record.topic}-{record.partition} at offset {record.offset} is no dead letter: "
                f"the headers {TOPIC}, {PARTITION} and {OFFSET} are missing"
            )
        return self._producer.send(letter.topic, record.value, record.key, own_headers(record), letter.partition)


def own_headers(record: AnyRecord) -> Headers:
    """A record's headers without those of a dead letter."""
    return tuple((name, value) for name, value in record.headers if not name.startswith(PREFIX))


def headers_with_error(record: AnyRecord, error: BaseException) -> Headers:
    """A record's headers and a dead letter's. What was read from a retry topic still comes from where it was first."""
    origin = DeadLetter.of(record)
    topic, partition, offset = (origin or record).topic, (origin or record).partition, (origin or record).offset
    kind = type(error)
    stacktrace = "".join(traceback.format_exception(error))
    return (
        *own_headers(record),
        (TOPIC, topic.encode()),
        (PARTITION, str(partition).encode()),
        (OFFSET, str(offset).encode()),
        (EXCEPTION_CLASS, f"{kind.__module__}.{kind.__qualname__}".encode()),
        (EXCEPTION_MESSAGE, str(error).encode()),
        (EXCEPTION_STACKTRACE, stacktrace.encode()),
    )
