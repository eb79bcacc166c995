"""The few lines of HTTP that answer GET /metrics and GET /health."""

from __future__ import annotations

import pytest

from ottla.broker.serving.metrics_http import MetricsServer, encode_answer


@pytest.mark.parametrize(
    ("head", "status", "is_head"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200, False),
        (b"GET /metrics?name=x HTTP/1.0\r\n\r\n", 200, False),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200, True),
        (b"GET /health HTTP/1.1\r\n\r\n", 200, False),
        (b"GET /other HTTP/1.1\r\n\r\n", 404, False),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405, False),
        (b"nonsense\r\n\r\n", 400, False),
        (b"GET /metrics SPDY/3\r\n\r\n", 400, False),
        (b"\x00\x00\x00\x10\x00\x12\r\n\r\n", 400, False),
    ],
)
def test_requests_get_their_answer(head: bytes, status: int, is_head: bool) -> None:
    server = MetricsServer(lambda: "text\n", lambda: (True, "ok\n"))
    answer, only_head = server.answer(head)
    assert (answer[0], only_head) == (status, is_head)


def test_a_node_that_is_not_well_says_so() -> None:
    server = MetricsServer(lambda: "", lambda: (False, "not registered\n"))
    answer, _ = server.answer(b"GET /health HTTP/1.1\r\n\r\n")
    assert encode_answer(answer, is_head=False) == (
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: 15\r\nConnection: close\r\n\r\nnot registered\n"
    )
    assert encode_answer(answer, is_head=True).endswith(b"\r\n\r\n")
