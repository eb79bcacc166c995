"""Dead letters of share groups (KIP-1191): the content of a letter, its destination, and its retries.

A letter is a record of the group's dead-letter queue topic for a record that a member rejected, or that was delivered
too often. `LetterDelivery` is the delivery of one share partition's letters, one batch at a time:

    Idle      plan                                   -> Sent, with the next sequence number of its producer id
    Sent      NONE, DUPLICATE_SEQUENCE_NUMBER        -> Idle, the batch is written
              an error that passes                   -> Waiting, the same batch is sent again after a pause
              the queue forgot the producer          -> Waiting, the same letters with a new producer id
              any other error, or the last attempt   -> Idle, the batch is lost; if letters are required: Waiting

A batch that is sent again has the same producer id and sequence number, so one whose answer was lost is not written
twice. That holds while the same broker leads the share partition: the next leader sends the letters of records that
were not stored as archived once more, unless it looks for them first (`letter_search`). Topic, partition, offset and
group in a letter's headers tell such letters apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ottla.groups.share.partition import LetterRange
from ottla.records import Record
from ottla.wire.dead_letter_headers import (
    DELIVERY_COUNT,
    GROUP,
    LETTER_HEADERS,
    MESSAGE,
    OFFSET,
    PARTITION,
    TOPIC,
)
from ottla.wire.errors import ErrorCode

REJECTED: Final = b"Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = b"Offset delivery count exceeded the threshold."

MAX_ATTEMPTS: Final = 5
FIRST_PAUSE_MS: Final = 1000
MAX_PAUSE_MS: Final = 30_000
MAX_SEQUENCE: Final = 2**31 - 1
BATCH_OVERHEAD: Final = 61
RECORD_OVERHEAD: Final = 40
"""No less than what the lengths, the offset and the timestamp of one record take."""
HEADER_OVERHEAD: Final = 10

_PASSING: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    )
)
_FORGOTTEN: Final = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    )
)
"""The queue's leader does not know the producer id any more, or has another state of it."""

Headers = tuple[tuple[str, bytes | None], ...]


class LetterSource(NamedTuple):
    """The partition whose records become letters."""

    group_id: str
    topic: str
    partition: int


class LetterTarget(NamedTuple):
    """A partition of a dead-letter queue topic."""

    topic: str
    topic_id: bytes
    partition: int


def why_not_a_queue(topic: str, source_topic: str, prefix: str) -> str | None:
    """Why a topic of this name must not be the dead-letter queue of a group; None if it may."""
    if topic.startswith("__"):
        return f"the dead-letter queue topic {topic} must not begin with __"
    if not topic.startswith(prefix):
        setting = "errors.deadletterqueue.topic.name.prefix"
        return f"the name of the dead-letter queue topic {topic} does not begin with {prefix}, as {setting} wants"
    if topic == source_topic:
        return f"{topic} cannot be the dead-letter queue of a group that reads it: every letter would be read again"
    return None


def target_partition(source_partition: int, partition_count: int) -> int:
    return source_partition % partition_count


def letter(source: LetterSource, offset: int, of: LetterRange, original: Record | None, timestamp: int) -> Record:
    """A letter, with the key, value and headers of the record if it is to be copied. As in Kafka the original headers
    come first, and none of them has the name of a letter's own."""
    headers: list[tuple[str, bytes | None]] = []
    if original is not None:
        headers = [(name, value) for name, value in original.headers if name not in LETTER_HEADERS]
    headers += [
        (TOPIC, source.topic.encode()),
        (PARTITION, b"%d" % source.partition),
        (OFFSET, b"%d" % offset),
        (GROUP, source.group_id.encode()),
        (DELIVERY_COUNT, b"%d" % of.delivery_count),
        (MESSAGE, REJECTED if of.is_rejected else DELIVERED_TOO_OFTEN),
    ]
    key, value = (original.key, original.value) if original is not None else (None, None)
    return Record(key=key, value=value, headers=tuple(headers), timestamp=timestamp)


def size_bound(record: Record) -> int:
    """No less than the bytes of a record in a batch."""
    headers = sum(
        len(name.encode(errors="surrogateescape")) + len(value or b"") + HEADER_OVERHEAD
        for name, value in record.headers
    )
    return RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"") + headers


def letters(
    source: LetterSource,
    ranges: Iterable[LetterRange],
    originals: Mapping[int, Record],
    timestamp: int,
    max_bytes: int,
    *,
    is_cut: bool = True,
) -> tuple[list[Record], list[LetterRange]]:
    """Letters that fit into a batch of `max_bytes`, at least one, and the ranges that they cover; all ranges if they
    fit. A record too large for a batch of its own is not copied: its letter has only headers.
    """
    written: list[Record] = []
    covered: list[LetterRange] = []
    left = max_bytes - BATCH_OVERHEAD
    for one in ranges:
        for offset in range(one.first_offset, one.last_offset + 1):
            made = letter(source, offset, one, originals.get(offset), timestamp)
            size = size_bound(made)
            if size > max_bytes - BATCH_OVERHEAD:
                made = letter(source, offset, one, None, timestamp)
                size = size_bound(made)
            if is_cut and written and size > left:
                if offset > one.first_offset:
                    covered.append(one._replace(last_offset=offset - 1))
                return written, covered
            written.append(made)
            left -= size
        covered.append(one)
    return written, covered


class Verdict(Enum):
    WRITTEN = "written"
    AGAIN = "again"
    LOST = "lost"


@dataclass(slots=True)
class LetterDelivery:
    producer_id: int | None = None
    """None: a new one is needed before the next batch is sent."""
    attempt_count: int = 0
    """Failed attempts to send the present batch."""
    planned: tuple[LetterRange, ...] = ()
    """The letters of the batch under way."""
    producer_epoch: int = 0
    _target: LetterTarget | None = None
    _sequence: int = 0

    def aim(self, target: LetterTarget) -> None:
        """Set the partition of the next batch. A producer id counts its batches in one partition only."""
        if target != self._target:
            self._target, self.producer_id = target, None

    def use(self, producer_id: int, producer_epoch: int = 0) -> None:
        self.producer_id, self.producer_epoch, self._sequence = producer_id, producer_epoch, 0

    def forget(self) -> None:
        """The batch under way is planned anew: which of its letters are in the queue is known by now."""
        self.planned = ()

    @property
    def sequence(self) -> int:
        return self._sequence

    def sent(self, ranges: Sequence[LetterRange]) -> None:
        """A batch of these letters is being sent."""
        assert not self.planned or self.planned == tuple(ranges), "a batch is sent again as it was"
        self.planned = tuple(ranges)

    def answered(self, code: ErrorCode, *, is_required: bool) -> Verdict:
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            count = sum(one.record_count for one in self.planned)
            self._sequence = (self._sequence + count) % (MAX_SEQUENCE + 1)
            self.planned, self.attempt_count = (), 0
            return Verdict.WRITTEN
        self.attempt_count += 1
        if code in _FORGOTTEN:
            self.producer_id = None
        elif code not in _PASSING:
            self.producer_id = None  # the batch is not there: the next one is planned anew
            self.planned = ()
            if not is_required:
                return self._lost()
        if not is_required and self.attempt_count >= MAX_ATTEMPTS:
            return self._lost()
        return Verdict.AGAIN

    def _lost(self) -> Verdict:
        self.planned, self.attempt_count, self.producer_id = (), 0, None
        return Verdict.LOST

    @property
    def pause_ms(self) -> int:
        """How long to wait before the batch is sent again."""
        return min(FIRST_PAUSE_MS << min(max(self.attempt_count - 1, 0), 10), MAX_PAUSE_MS)
