"""What a dead letter says, and when a batch of them is tried again."""

from __future__ import annotations

import pytest

from ottla.groups.share.dead_letters import (
    DELIVERED_TOO_OFTEN,
    MAX_ATTEMPTS,
    REJECTED,
    LetterDelivery,
    LetterSource,
    LetterTarget,
    Verdict,
    letter,
    letters,
    size_bound,
    target_partition,
    why_not_a_queue,
)
from ottla.groups.share.partition import LetterRange
from ottla.records import HEADER_SIZE, Record, build
from ottla.wire.errors import ErrorCode

SOURCE = LetterSource("workers", "jobs", 3)
HERE = LetterTarget("dlq.jobs", b"d" * 16, 1)
ONE = LetterRange(7, 7, 2, True)


def test_a_letter_has_kafkas_six_headers() -> None:
    assert letter(SOURCE, 7, ONE, None, 99) == Record(
        timestamp=99,
        headers=(
            ("__dlq.errors.topic", b"jobs"),
            ("__dlq.errors.partition", b"3"),
            ("__dlq.errors.offset", b"7"),
            ("__dlq.errors.group", b"workers"),
            ("__dlq.errors.delivery.count", b"2"),
            ("__dlq.errors.message", REJECTED),
        ),
    )
    assert letter(SOURCE, 7, ONE._replace(is_rejected=False), None, 99).headers[-1][1] == DELIVERED_TOO_OFTEN


def test_a_copy_has_key_value_and_headers_and_a_letter_of_a_letter_says_where_it_comes_from() -> None:
    original = Record(7, 5, b"k", b"v", (("trace", b"1"), ("__dlq.errors.topic", b"older"), ("trace", None)))
    made = letter(SOURCE, 7, ONE, original, 99)
    assert (made.key, made.value, made.timestamp) == (b"k", b"v", 99)
    assert made.headers[:3] == (("trace", b"1"), ("trace", None), ("__dlq.errors.topic", b"jobs"))


def test_letters_fill_a_batch_and_no_more() -> None:
    originals = {offset: Record(offset, 0, b"key", bytes(300)) for offset in range(20)}
    ranges = [LetterRange(0, 4, 1, True), LetterRange(6, 9, 5, False)]
    written, covered = letters(SOURCE, ranges, originals, 0, 4_000)
    assert len(build(written)) <= 4_000 < len(build(written)) + 2 * size_bound(written[0])
    assert covered == [LetterRange(0, 4, 1, True), LetterRange(6, 6, 5, False)] and len(written) == 6
    again, same = letters(SOURCE, covered, originals, 0, 100, is_cut=False)
    assert (len(again), same) == (6, covered)
    assert letters(SOURCE, ranges, {}, 0, 100_000)[1] == ranges


def test_a_copy_that_fits_into_no_batch_is_left_out() -> None:
    written, covered = letters(SOURCE, [LetterRange(7, 8, 1, True)], {7: Record(7, 0, b"k", bytes(9_000))}, 0, 4_000)
    assert [(one.key, one.value) for one in written] == [(None, None)] * 2 and covered == [LetterRange(7, 8, 1, True)]


@pytest.mark.parametrize("headers", [(), (("ä" * 40, bytes(200)), ("b", None))])
def test_the_bound_of_a_letters_size_is_one(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    made = letter(SOURCE, 2**62, ONE, Record(7, 0, bytes(5), bytes(70), headers), 1_700_000_000_000)
    assert len(build([made])) <= HEADER_SIZE + size_bound(made)


def test_where_letters_may_go() -> None:
    assert why_not_a_queue("dlq.jobs", "jobs", "dlq.") is None
    assert why_not_a_queue("jobs.dead", "jobs", "") is None
    assert "begin with __" in (why_not_a_queue("__consumer_offsets", "jobs", "") or "")
    assert "does not begin with dlq." in (why_not_a_queue("orders", "jobs", "dlq.") or "")
    assert "read again" in (why_not_a_queue("dlq.jobs", "dlq.jobs", "dlq.") or "")
    assert [target_partition(index, 3) for index in range(5)] == [0, 1, 2, 0, 1]


def begun() -> LetterDelivery:
    delivery = LetterDelivery()
    delivery.aim(HERE)
    assert delivery.producer_id is None
    delivery.use(5)
    return delivery


def test_batches_count_on_and_one_whose_answer_is_lost_is_sent_as_it_was() -> None:
    delivery = begun()
    delivery.sent([LetterRange(0, 9, 1, True)])
    assert delivery.answered(ErrorCode.NETWORK_EXCEPTION, is_required=False) is Verdict.AGAIN
    assert (delivery.planned, delivery.producer_id, delivery.sequence) == ((LetterRange(0, 9, 1, True),), 5, 0)
    assert delivery.pause_ms == 1000
    delivery.aim(HERE)
    assert delivery.answered(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, is_required=False) is Verdict.WRITTEN
    assert (delivery.planned, delivery.sequence, delivery.attempt_count) == ((), 10, 0)
    delivery.sent([ONE])
    assert delivery.answered(ErrorCode.NONE, is_required=False) is Verdict.WRITTEN
    assert delivery.sequence == 11
    delivery.aim(HERE._replace(partition=0))
    assert delivery.producer_id is None, "another partition: another producer"


def test_letters_are_lost_after_five_attempts_unless_they_are_required() -> None:
    delivery = begun()
    delivery.sent([ONE])
    pauses = []
    for _ in range(MAX_ATTEMPTS - 1):
        assert delivery.answered(ErrorCode.NOT_LEADER_OR_FOLLOWER, is_required=False) is Verdict.AGAIN
        pauses.append(delivery.pause_ms)
    assert pauses == [1000, 2000, 4000, 8000]
    assert delivery.answered(ErrorCode.NOT_LEADER_OR_FOLLOWER, is_required=False) is Verdict.LOST
    assert (delivery.planned, delivery.producer_id) == ((), None), "what became of the batch is not known"
    delivery.use(6)
    delivery.sent([ONE])
    for _ in range(50):
        assert delivery.answered(ErrorCode.NOT_ENOUGH_REPLICAS, is_required=True) is Verdict.AGAIN
    assert delivery.pause_ms == 30_000


def test_an_error_that_does_not_pass_loses_the_letters_at_once_unless_they_are_required() -> None:
    delivery = begun()
    delivery.sent([ONE])
    assert delivery.answered(ErrorCode.INVALID_CONFIG, is_required=False) is Verdict.LOST
    delivery.use(6)
    delivery.sent([ONE])
    assert delivery.answered(ErrorCode.MESSAGE_TOO_LARGE, is_required=True) is Verdict.AGAIN
    assert delivery.planned == (), "planned anew: the queue may allow less by now"


def test_a_queue_that_forgot_the_producer_gets_the_letters_from_another() -> None:
    delivery = begun()
    delivery.sent([ONE])
    assert delivery.answered(ErrorCode.UNKNOWN_PRODUCER_ID, is_required=False) is Verdict.AGAIN
    assert (delivery.producer_id, delivery.planned) == (None, (ONE,))
