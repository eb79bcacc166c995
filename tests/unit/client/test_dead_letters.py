"""Dead letters and retry topics: what is written where, and when what waits is handed out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.client.core.fetching import ConsumerRecord
from ottla.client.core.partitions import TopicPartition
from ottla.client.dead_letters import OFFSET, PARTITION, TOPIC, DeadLetter, DeadLetters
from ottla.client.errors import ClientClosed
from ottla.client.retry_topics import RetryTopics

Record = ConsumerRecord[Any, Any]


def record(topic: str = "orders", offset: int = 7, *, timestamp: int = 1_000, headers: Any = ()) -> Record:
    return ConsumerRecord(topic, 3, offset, timestamp, b"alice", b"one apple", tuple(headers))


class Outbox:
    """A producer that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Record] = []

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> str:
        at = -1 if timestamp is None else timestamp
        self.sent.append(ConsumerRecord(topic, -1 if partition is None else partition, 0, at, key, value, headers))
        return "delivery"


def failure() -> Exception:
    try:
        raise KeyError("no such article")
    except KeyError as error:
        return error


def test_a_dead_letter_is_the_record_with_the_reason() -> None:
    outbox = Outbox()
    letters = DeadLetters(outbox, "orders.dead-letters")
    assert letters.send(record(headers=[("trace", b"42")]), failure()) == "delivery"
    (sent,) = outbox.sent
    assert (sent.topic, sent.key, sent.value, sent.timestamp) == ("orders.dead-letters", b"alice", b"one apple", 1_000)
    assert sent.headers[0] == ("trace", b"42")
    assert dict(sent.headers)["__connect.errors.topic"] == b"orders"
    letter = DeadLetter.of(sent)
    assert letter is not None
    assert (letter.topic, letter.partition, letter.offset) == ("orders", 3, 7)
    assert (letter.exception_class, letter.exception_message) == ("builtins.KeyError", "'no such article'")
    assert 'raise KeyError("no such article")' in letter.exception_stacktrace


def test_a_dead_letter_goes_back_as_it_was_to_where_it_came_from() -> None:
    outbox = Outbox()
    letters = DeadLetters(outbox, "orders.dead-letters")
    letters.send(record(headers=[("trace", b"42")]), failure())
    letters.return_to_sender(outbox.sent[0])
    back = outbox.sent[1]
    assert (back.topic, back.partition, back.key, back.value) == ("orders", 3, b"alice", b"one apple")
    assert back.headers == (("trace", b"42"),)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((TOPIC, b"orders"), (PARTITION, b"x"), (OFFSET, b"1")),
        ((TOPIC, b"orders"), (PARTITION, b"-1"), (OFFSET, None)),
    ],
)
def test_other_records_are_no_dead_letters(headers: Any) -> None:
    strange = record(headers=headers)
    assert DeadLetter.of(strange) is None
    with pytest.raises(ValueError, match=r"orders-3 at offset 7 is no dead letter"):
        DeadLetters(Outbox(), "letters").return_to_sender(strange)


def test_a_record_goes_from_retry_topic_to_retry_topic_and_then_to_the_dead_letters() -> None:
    outbox = Outbox()
    retries = RetryTopics(outbox, "orders", (1_000, 10_000))
    assert retries.topics == ("orders", "orders.retry-1", "orders.retry-2")
    tried = record()
    for expected in ("orders.retry-1", "orders.retry-2", "orders.dead-letters"):
        retries.failed(tried, failure())
        tried = outbox.sent[-1]
        assert tried.topic == expected
        letter = DeadLetter.of(tried)
        assert letter is not None and (letter.topic, letter.partition, letter.offset) == ("orders", 3, 7)
    with pytest.raises(ValueError, match=r"orders\.dead-letters is none of orders, orders\.retry-1"):
        retries.failed(tried, failure())


def test_groups_can_have_retry_topics_of_their_own() -> None:
    retries = RetryTopics(Outbox(), "orders", (5,), name="orders.billing")
    assert retries.topics == ("orders", "orders.billing.retry-1")
    assert retries.dead_letters.topic == "orders.billing.dead-letters"


@pytest.mark.parametrize("delays_ms", [(), (100, -1)])
def test_delays_are_checked(delays_ms: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="delays_ms is at least one delay"):
        RetryTopics(Outbox(), "orders", delays_ms)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0.0

    def time(self) -> float:
        return self.now_ms / 1000


class Inbox:
    """A consumer of records that are all there; a poll without one lets the time pass that it was given."""

    def __init__(self, clock: Clock, *records: Record) -> None:
        self._clock = clock
        self._left = {(one.topic, one.offset): one for one in records}
        self._position: dict[TopicPartition, int] = {}
        self._partitions = {TopicPartition(one.topic, one.partition) for one in records}
        self._paused: set[TopicPartition] = set()

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._position[partition] = offset

    async def poll(self, timeout_ms: float, *, max_records: int) -> list[Record]:
        assert max_records == 1
        for one in self._left.values():
            partition = TopicPartition(one.topic, one.partition)
            if partition not in self._paused and one.offset >= self._position.get(partition, 0):
                self._position[partition] = one.offset + 1
                return [one]
        if not self._paused:
            raise ClientClosed
        self._clock.now_ms += timeout_ms
        return []


def test_records_are_handed_out_when_they_are_due_and_others_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("ottla.client.retry_topics.time", clock)
    retries = RetryTopics(Outbox(), "orders", (1_000, 10_000))
    inbox: Any = Inbox(
        clock,
        record("orders.retry-2", 0, timestamp=0),
        record("orders.retry-1", 0, timestamp=500),
        record("orders.retry-1", 1, timestamp=800),
        record("orders", 0, timestamp=0),
    )

    async def handed_out() -> list[tuple[float, str, int]]:
        return [(clock.now_ms, one.topic, one.offset) async for one in retries.due(inbox)]

    assert asyncio.run(handed_out()) == [
        (0, "orders", 0),
        (1_500, "orders.retry-1", 0),
        (1_800, "orders.retry-1", 1),
        (10_000, "orders.retry-2", 0),
    ]
