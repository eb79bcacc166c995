"""Answers that are kept and sent again: to requests with the same bytes, until the state changes.

Clients ask for the same schemas with the same bytes, and without logins the answer to a read depends only on these
bytes and on the state. The answer is kept under the bytes of the request and sent again with the date of the moment.
Nothing is parsed: a request that differs in one byte is a new request.
"""

from __future__ import annotations

from email.utils import formatdate

MAX_REQUEST_BYTES = 8 * 1024
MAX_ANSWER_BYTES = 256 * 1024
MAX_BYTES = 16 * 1024 * 1024
"""Of all that is kept; when there is more, all of it is forgotten."""
ENTRY_BYTES = 400
"""What an entry takes beside its bytes."""
DATE = b"\r\nDate: "
_END_OF_HEAD = b"\r\n\r\n"


class RepeatedRequests:
    """Answers by requests, all from one state."""

    def __init__(self) -> None:
        self._answers: dict[bytes, tuple[bytes, bytes]] = {}
        """Each answer in two parts: before and behind its date."""
        self._state = -1
        self._size = 0
        self._second = -1
        self._date = b""

    def answer(self, request: bytes, state: int, now_s: int) -> bytes | None:
        """The answer to a request that was kept under this number of the state."""
        if state != self._state:
            self._forget(state)
        found = self._answers.get(request)
        if found is None:
            return None
        if now_s != self._second:
            self._second, self._date = now_s, formatdate(now_s, usegmt=True).encode()
        return found[0] + self._date + found[1]

    def keep(self, request: bytes, answer: bytes, state: int) -> None:
        """Keep an answer that was computed from this state. It is dropped if the state has changed since."""
        if state > self._state:
            self._forget(state)
        if state < self._state or len(request) > MAX_REQUEST_BYTES or len(answer) > MAX_ANSWER_BYTES:
            return
        before, is_dated, behind = answer.partition(DATE)
        size = len(request) + len(answer) + ENTRY_BYTES
        if not is_dated or _END_OF_HEAD in before or request in self._answers:
            return
        if self._size + size > MAX_BYTES:
            self._forget(state)
        self._answers[request] = before + DATE, behind[behind.index(b"\r") :]
        self._size += size

    def _forget(self, state: int) -> None:
        self._answers.clear()
        self._state, self._size = state, 0


def is_one_request(received: bytes, content_length: int) -> bool:
    """Whether these bytes are one request to their last byte, its body as long as it says. A line that ends without a
    carriage return may end a head, too, so bytes with such an end count as more than one request."""
    head, end, body = received.partition(_END_OF_HEAD)
    return bool(end) and len(body) == content_length and head.count(b"\n") == head.count(b"\r\n") and head[:1] != b"\r"
