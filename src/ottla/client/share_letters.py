"""Dead letters that brokers write for share groups (KIP-1191), and where they go to be tried again.

    for record in await consumer.poll(1_000):            # of the group's queue, dlq.jobs
        letter = ShareLetter.of(record)
        if letter is not None:
            print(letter.group, letter.topic, letter.partition, letter.offset, letter.message)

A letter is sent back to the group that gave its record up through a retry topic, which this group reads beside the
topic itself and no other group reads: `retry_topic("jobs", "workers")` is jobs.retry.workers. `ottla records redrive`
does it, and creates the topic.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.core.fetching import ConsumerRecord
from ottla.wire.dead_letter_headers import (
    DELIVERY_COUNT,
    GROUP,
    LETTER_HEADERS,
    MESSAGE,
    OFFSET,
    PARTITION,
    TOPIC,
)

REDRIVE_PREFIX = "ottla.redrive."
REDRIVE_TOPIC, REDRIVE_PARTITION = REDRIVE_PREFIX + "topic", REDRIVE_PREFIX + "partition"
REDRIVE_OFFSET, REDRIVE_COUNT = REDRIVE_PREFIX + "offset", REDRIVE_PREFIX + "count"

Headers = tuple[tuple[str, bytes | None], ...]
RawRecord = ConsumerRecord[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class ShareLetter:
    """Which record a share group gave up, and why. Two letters of the same record have the same `identity`."""

    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int | None
    message: str

    @property
    def identity(self) -> tuple[str, str, int, int]:
        return self.group, self.topic, self.partition, self.offset

    @classmethod
    def of(cls, record: RawRecord) -> ShareLetter | None:
        """The letter in a record's headers; None for a record that is no dead letter of a share group."""
        found = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
        topic, group = found.get(TOPIC), found.get(GROUP)
        partition, offset = found.get(PARTITION, ""), found.get(OFFSET, "")
        if topic is None or group is None or not partition.isdecimal() or not offset.isdecimal():
            return None
        count = found.get(DELIVERY_COUNT, "")
        return cls(
            topic, int(partition), int(offset), group, int(count) if count.isdecimal() else None, found.get(MESSAGE, "")
        )


def retry_topic(topic: str, group: str) -> str:
    """The topic for records of `topic` that this group, and no other, tries again. A retry topic is its own."""
    suffix = f".retry.{group}"
    return topic if topic.endswith(suffix) else topic + suffix


def is_without_copy(record: RawRecord) -> bool:
    """Whether a letter has no part of the record itself: `errors.deadletterqueue.copy.record.enable` was off."""
    return record.key is None and record.value is None and all(name in LETTER_HEADERS for name, _ in record.headers)


def redriven_headers(letter: ShareLetter, headers: Headers) -> Headers:
    """The headers with which a record is tried again: its own, where it was first, and how often it was sent back."""
    kept = tuple(one for one in headers if one[0] not in LETTER_HEADERS and not one[0].startswith(REDRIVE_PREFIX))
    before = {name: value for name, value in headers if name.startswith(REDRIVE_PREFIX)}
    count = (before.get(REDRIVE_COUNT) or b"").decode(errors="replace")
    return (
        *kept,
        (REDRIVE_TOPIC, before.get(REDRIVE_TOPIC, letter.topic.encode())),
        (REDRIVE_PARTITION, before.get(REDRIVE_PARTITION, b"%d" % letter.partition)),
        (REDRIVE_OFFSET, before.get(REDRIVE_OFFSET, b"%d" % letter.offset)),
        (REDRIVE_COUNT, b"%d" % (int(count) + 1 if count.isdecimal() else 1)),
    )
