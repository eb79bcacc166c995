"""Dead letters of share groups, and what is sent back of them."""

from __future__ import annotations

import pytest

from ottla.client.core.fetching import ConsumerRecord
from ottla.client.share_letters import RawRecord, ShareLetter, is_without_copy, redriven_headers, retry_topic

HEADERS = (
    ("__dlq.errors.topic", b"jobs"),
    ("__dlq.errors.partition", b"1"),
    ("__dlq.errors.offset", b"7"),
    ("__dlq.errors.group", b"workers"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
)
LETTER = ShareLetter("jobs", 1, 7, "workers", 5, "Offset rejected by client.")


def record(*headers: tuple[str, bytes | None], value: bytes | None = None) -> RawRecord:
    return ConsumerRecord("dlq.jobs", 0, 3, 0, None, value, headers)


def test_a_letter_tells_which_record_and_why() -> None:
    letter = ShareLetter.of(record(("trace", b"x"), *HEADERS, value=b"v"))
    assert letter == LETTER
    assert letter.identity == ("workers", "jobs", 1, 7)


@pytest.mark.parametrize("without", range(4))
def test_what_does_not_say_where_it_was_is_no_letter(without: int) -> None:
    assert ShareLetter.of(record(*HEADERS[:without], *HEADERS[without + 1 :])) is None
    assert ShareLetter.of(record(*HEADERS[:1], ("__dlq.errors.partition", b"-1"), *HEADERS[2:])) is None


def test_a_letter_without_a_copy_has_its_headers_only() -> None:
    assert is_without_copy(record(*HEADERS))
    assert not is_without_copy(record(*HEADERS, value=b""))
    assert not is_without_copy(record(*HEADERS, ("trace", None)))


def test_a_retry_topic_is_of_one_group_and_its_own() -> None:
    assert retry_topic("jobs", "workers") == "jobs.retry.workers"
    assert retry_topic("jobs.retry.workers", "workers") == "jobs.retry.workers"
    assert retry_topic("jobs.retry.workers", "others") == "jobs.retry.workers.retry.others"


def test_what_is_sent_back_knows_where_it_was_first_and_how_often() -> None:
    once = redriven_headers(LETTER, (("trace", b"x"), *HEADERS))
    assert once == (
        ("trace", b"x"),
        ("ottla.redrive.topic", b"jobs"),
        ("ottla.redrive.partition", b"1"),
        ("ottla.redrive.offset", b"7"),
        ("ottla.redrive.count", b"1"),
    )
    again = ShareLetter("jobs.retry.workers", 0, 2, "workers", 5, "")
    assert redriven_headers(again, (*once, *HEADERS)) == (*once[:-1], ("ottla.redrive.count", b"2"))
