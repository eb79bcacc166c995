"""The few lines of HTTP that answer GET /metrics and GET /health."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.serving.http_guard import HttpAccess, read_token
from ottla.broker.serving.metrics_http import MetricsServer, encode_answer
from ottla.config import ConfigError


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


TOKEN = b"0123456789abcdef"
GUARDED = HttpAccess("10.0.0.5", TOKEN)


def guarded(request: bytes) -> int:
    server = MetricsServer(lambda: "secret figures\n", lambda: (True, "ok\n"), GUARDED)
    (status, _, text), _ = server.answer(request)
    assert (status == 200) == ("secret" in text or text == "ok\n")
    return status


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Authorization: \r\n",
        b"Authorization: Bearer \r\n",
        b"Authorization: Bearer 0123456789abcdeX\r\n",
        b"Authorization: Basic MDEyMzQ1Njc4OWFiY2RlZg==\r\n",
        b"Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer x\r\n",
        b"X-Authorization: Bearer 0123456789abcdef\r\n",
    ],
)
def test_cve_2025_61673_a_missing_or_wrong_authorization_header_is_401(header: bytes) -> None:
    for path in (b"/metrics", b"/health", b"/", b"/other"):
        assert guarded(b"GET " + path + b" HTTP/1.1\r\n" + header + b"\r\n") == 401


@pytest.mark.parametrize(
    "path",
    [
        b"/metrics/", b"//metrics", b"/./metrics", b"/health/../metrics", b"/metrics/extra", b"/metrics;x=1",
        b"/%6detrics", b"/metrics%2f", b"/health/..%2fmetrics", b"/METRICS", b"metrics", b"*", b"/public/metrics",
        b"http://127.0.0.1/metrics",
    ],
)  # fmt: skip
def test_cve_2026_105949_no_spelling_of_a_path_gets_around_the_token(path: bytes) -> None:
    for method in (b"GET", b"HEAD", b"POST", b"OPTIONS"):
        assert guarded(method + b" " + path + b" HTTP/1.1\r\n\r\n") == 401


def test_with_the_token_paths_are_answered_in_their_one_spelling() -> None:
    header = b"authorization:  bearer 0123456789abcdef\r\n"
    for path, status in (
        (b"/metrics", 200), (b"//metrics", 200), (b"/./metrics/", 200), (b"/%6detrics", 200), (b"/health", 200),
        (b"/metrics/extra", 404), (b"/METRICS", 404), (b"metrics", 404), (b"/\\metrics", 404),
    ):  # fmt: skip
        assert (path, guarded(b"GET " + path + b" HTTP/1.1\r\n" + header + b"\r\n")) == (path, status)


def test_a_refusal_says_which_kind_of_login_is_asked_for() -> None:
    server = MetricsServer(lambda: "", lambda: (True, ""), GUARDED)
    answer, is_head = server.answer(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert b"\r\nWWW-Authenticate: Bearer\r\n" in encode_answer(answer, is_head=is_head)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.5", "node.example.org"])
def test_beyond_this_machine_the_port_needs_a_token_or_certificates(host: str) -> None:
    with pytest.raises(ConfigError, match="--metrics-token-file"):
        HttpAccess(host).check()
    HttpAccess(host, TOKEN).check()
    HttpAccess(host, has_tls=True).check()
    assert HttpAccess(host, has_tls=True).needs_certificate
    HttpAccess().check()


def test_a_token_is_never_shown_and_has_to_be_long(tmp_path: Path) -> None:
    assert TOKEN.decode() not in repr(GUARDED)
    file = tmp_path / "token"
    for text in ("", "short", "0123456789 abcdef", "ä" * 20):
        file.write_text(text)
        with pytest.raises(ConfigError) as refused:
            read_token(str(file))
        assert not text or text not in str(refused.value)
    file.write_bytes(TOKEN + b"\nmore\n")
    assert read_token(str(file)) == TOKEN
