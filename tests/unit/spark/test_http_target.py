"""HTTP targets: what pipeline.yml says of them, and what a task does with each kind of answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from ottla.spark.pipelines import http_target
from ottla.spark.pipelines.definition import Flow, PipelineError
from ottla.spark.pipelines.http_request import HttpRequest, is_refused, signature
from ottla.spark.pipelines.http_target import Caller, HttpUnavailable
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.redaction import Redaction

LINES = {"topic": "lines", "format": "string"}


def flow(**request: Any) -> Flow:
    to = {"from": "lines", "http": "https://hooks.example:8443/in?x=1", "request": request}
    return parse_pipeline(Path("some"), {"sources": {"lines": LINES}, "flows": {"calls": to}}, {}).flows[0]


def test_a_request_has_defaults_and_what_is_given() -> None:
    assert flow().request == HttpRequest()
    made = flow(
        method="PUT", per="batch", max_rows=50, timeout="2 minutes", tries=3, sign={"secret": "s", "header": "S"}
    )
    assert made.request == HttpRequest("PUT", "batch", 50, 120.0, 3, secret="s", signature_header="S")
    assert made.target == "http https://hooks.example:8443/in"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"per": "day"}, "flows.calls.request.per: 'day' is none of row, batch"),
        ({"tries": 0}, "a whole number from 1 to 1000"),
        ({"timeout": "soon"}, "a time such as '10 seconds'"),
        ({"headers": {"a b": "c"}}, "'a b' is no header of HTTP"),
        ({"headers": {"a": "c\r\nd: e"}}, "'a' is no header of HTTP"),
        ({"sign": {"header": "S"}}, "it needs a secret"),
        ({"per": "batch", "idempotency_key": "id"}, "'per: batch' sends many together"),
        ({"retries": 3}, "'retries' is not known"),
    ],
)
def test_a_wrong_request_is_said(request_: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(said)):
        flow(**request_)


@pytest.mark.parametrize("url", ["ftp://x/y", "x", "https://", "http://a b/", "http://x:port/"])
def test_a_wrong_address_is_said(url: str) -> None:
    to = {"from": "lines", "http": url}
    with pytest.raises(PipelineError, match="an address such as https"):
        parse_pipeline(Path("some"), {"sources": {"lines": LINES}, "flows": {"calls": to}}, {})


def test_secrets_of_a_request_are_redacted() -> None:
    to = {"from": "lines", "http": "https://me:geheim1@x/", "request": {"headers": {"X-Api": "geheim2"}}}
    made = parse_pipeline(Path("some"), {"sources": {"lines": LINES}, "flows": {"calls": to}}, {})
    assert "geheim" not in Redaction.of(made, None)("https://me:geheim1@x/ said geheim2")
    assert "geheim" not in repr(made)


def test_signatures_are_those_of_github() -> None:
    # the example of GitHub's documentation on validating deliveries
    expected = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature("It's a Secret to Everybody", b"Hello, World!") == expected


def test_pauses_grow_and_follow_the_server() -> None:
    request = HttpRequest()
    assert [request.pause_s(attempt, None, 1.0) for attempt in (0, 1, 2, 20)] == [0.5, 1.0, 2.0, 30.0]
    assert request.pause_s(3, None, 0.0) == 2.0
    assert (request.pause_s(0, "7", 1.0), request.pause_s(0, "3600", 1.0)) == (7.0, 30.0)
    assert [status for status in (400, 404, 408, 409, 425, 429, 500, 503) if is_refused(status)] == [400, 404, 409]


class Server:
    """Answers calls from a list, instead of a connection."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[bytes, dict[str, str]]] = []

    def call(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, str | None, str]:
        self.calls.append((body, headers))
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, Exception):
            raise answer
        return answer, "2" if answer == 429 else None, "no such order"

    def close(self) -> None: ...


def letters(
    monkeypatch: pytest.MonkeyPatch, server: Server, bodies: list[str], pauses: list[float], **request: Any
) -> list[dict[str, Any]]:
    monkeypatch.setattr(http_target, "Connection", lambda url, timeout_s: server)
    caller = Caller("shop", "calls", "https://me:pw@x/y?token=1", replace(HttpRequest(), **request), 7, pauses.append)
    keys = pyarrow.nulls(len(bodies), pyarrow.string())
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array(bodies), keys], ["body", "key"])
    return [row for made in caller.letters(iter([batch]), 0) for row in made.to_pylist()]


def test_rows_that_are_refused_become_letters_and_others_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    server = Server(200, 404, 503, ConnectionResetError("gone"), 429, 201)
    found = letters(monkeypatch, server, ["1", "2", "3"], pauses)
    assert [one["value"] for one in found] == [b"2"]
    headers = {one["key"]: one["value"].decode() for one in found[0]["headers"]}
    assert headers["__connect.errors.exception.message"] == "https://x/y refused it: HTTP 404 no such order"
    assert (headers["ottla.flow"], headers["ottla.pipeline"], headers["ottla.rule"]) == ("calls", "shop", "http")
    assert [body for body, _ in server.calls] == [b"1", b"2", b"3", b"3", b"3", b"3"]
    assert len(pauses) == 3 and pauses[-1] == 2.0
    assert len({headers["Idempotency-Key"] for body, headers in server.calls if body == b"3"}) == 1


def test_an_address_that_stays_away_fails_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HttpUnavailable, match="https://x/y did not take a call in 2 tries: HTTP 500"):
        letters(monkeypatch, Server(500, 500), ["1"], [], tries=2)


def test_a_batch_is_an_array_of_rows_and_refused_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(200, 400)
    found = letters(monkeypatch, server, ["1", "2", "3"], [], per="batch", max_rows=2)
    assert [body for body, _ in server.calls] == [b"[1,2]", b"[3]"]
    assert [one["value"] for one in found] == [b"3"]


def test_the_same_rows_of_a_batch_have_the_same_keys_again_and_equal_rows_have_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = Server(), Server()
    letters(monkeypatch, first, ["1", "1", "2"], [])
    letters(monkeypatch, second, ["2", "1", "1"], [])
    keys, again = ([headers["Idempotency-Key"] for _, headers in one.calls] for one in (first, second))
    assert len(set(keys)) == 3 and set(keys) == set(again)
