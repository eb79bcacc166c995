"""Answers that are kept under the bytes of their requests."""

from __future__ import annotations

import pytest

from ottla.registry import repeated_requests
from ottla.registry.repeated_requests import MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, RepeatedRequests, is_one_request

ASKED = b"GET /schemas/ids/1 HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: x\r\n\r\n{}"


def test_an_answer_comes_again_with_the_date_of_the_moment() -> None:
    repeated = RepeatedRequests()
    assert repeated.answer(ASKED, 7, 0) is None
    repeated.keep(ASKED, ANSWER, 7)
    assert repeated.answer(ASKED, 7, 0) == ANSWER
    assert repeated.answer(ASKED, 7, 86_399) == ANSWER.replace(b"00:00:00", b"23:59:59")
    assert repeated.answer(ASKED + b" ", 7, 0) is None


def test_a_change_of_the_state_forgets_all() -> None:
    repeated = RepeatedRequests()
    repeated.keep(ASKED, ANSWER, 7)
    assert repeated.answer(ASKED, 8, 0) is None
    repeated.keep(ASKED, ANSWER, 7)
    assert repeated.answer(ASKED, 8, 0) is None, "it was read before the change"
    repeated.keep(ASKED, ANSWER, 9)
    assert repeated.answer(ASKED, 9, 0) == ANSWER


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    repeated = RepeatedRequests()
    long_answer, long_request = ANSWER + b" " * MAX_ANSWER_BYTES, ASKED + b" " * MAX_REQUEST_BYTES
    repeated.keep(ASKED, long_answer, 1)
    repeated.keep(long_request, ANSWER, 1)
    assert repeated.answer(ASKED, 1, 0) is None and repeated.answer(long_request, 1, 0) is None
    monkeypatch.setattr(repeated_requests, "MAX_BYTES", 10_000)
    asked = [ASKED.replace(b"/1 ", b"/%d " % number) for number in range(1_000)]
    for one in asked:
        repeated.keep(one, ANSWER, 1)
    found = [one for one in asked if repeated.answer(one, 1, 0)]
    assert found and found == asked[-len(found) :] and len(found) * len(ASKED + ANSWER) < 10_000


def test_an_answer_without_a_date_in_its_head_is_not_kept() -> None:
    repeated = RepeatedRequests()
    repeated.keep(
        ASKED, b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + repeated_requests.DATE + b"in its body\r", 1
    )
    assert repeated.answer(ASKED, 1, 0) is None


@pytest.mark.parametrize(
    ("received", "content_length", "is_one"),
    [
        (ASKED, 0, True),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n{}\r\n\r\n{}", 8, True),
        (ASKED + ASKED, 0, False),
        (ASKED[:-1], 0, False),
        (ASKED + b"G", 0, False),
        (ASKED, 1, False),
        (b"\r\n" + ASKED, 0, False),
        (b"GET / HTTP/1.1\nHost: x\n\n" + ASKED, 0, False),
        (b"GET / HTTP/1.1\r\nHost: x\n\r\n" + ASKED, 0, False),
    ],
)
def test_one_request_to_its_last_byte(received: bytes, content_length: int, is_one: bool) -> None:
    assert is_one_request(received, content_length) is is_one
