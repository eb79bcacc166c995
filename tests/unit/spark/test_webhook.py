"""Webhooks: what pipeline.yml says, and which requests become records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.definition import PipelineError
from ottla.spark.pipelines.http_request import signature
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.webhook import BadRequest, Webhook, body_length, parse_head

FLOWS = {"copy": {"from": "orders", "topic": "out"}}


def hook(**given: Any) -> Webhook:
    source = {"topic": "orders", "format": "string", "webhook": {"port": 0, **given}}
    found = parse_pipeline(Path("some"), {"sources": {"orders": source}, "flows": FLOWS}, {}).sources[0].webhook
    assert found is not None
    return found


def test_a_webhook_is_on_loopback_and_takes_a_mebibyte() -> None:
    assert hook() == Webhook(0, "127.0.0.1", "/", max_body=1024 * 1024)
    made = hook(host="0.0.0.0", path="/in", token="t", sign={"secret": "s", "header": "X-Sig"}, key_header="Id")
    assert made == Webhook(0, "0.0.0.0", "/in", "t", "s", "x-sig", key_header="id")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "0.0.0.0"}, "needs a 'token' or 'sign: {secret: ...}'"),
        ({"path": "in"}, "it begins with '/'"),
        ({"port": "http"}, "sources.orders.webhook.port: a whole number up to 65535"),
        ({"max_body": 10**9}, "a whole number up to 16777216"),
        ({"sign": {}}, "it needs a secret"),
        ({"tokn": "x"}, "did you mean 'token'?"),
    ],
)
def test_a_wrong_webhook_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(said)):
        hook(**given)


def test_a_webhook_needs_a_topic_and_its_secrets_are_redacted() -> None:
    source = {
        "topic": "orders",
        "format": "string",
        "webhook": {"port": 1, "token": "geheim1", "sign": {"secret": "geheim2"}},
    }
    made = parse_pipeline(Path("some"), {"sources": {"orders": source}, "flows": FLOWS}, {})
    assert "geheim" not in repr(made) + Redaction.of(made, None)("geheim1 geheim2")
    files = {"files": "x", "schema": "a int", "webhook": {"port": 1}}
    with pytest.raises(PipelineError, match="it needs 'topic: NAME'"):
        parse_pipeline(Path("some"), {"sources": {"orders": files}, "flows": FLOWS}, {})


def test_tokens_and_signatures_are_checked() -> None:
    made, body = hook(token="t", sign={"secret": "s"}), b"{}"
    right = {"authorization": "Bearer t", "x-hub-signature-256": f"sha256={signature('s', body)}"}
    assert made.refusal(right, body) is None
    assert "signature" in (made.refusal(right, b"{} ") or "")
    assert "token" in (made.refusal({**right, "authorization": "Bearer x"}, body) or "")
    assert made.refusal({}, body) and made.refusal({"authorization": "Bearer é"}, body)


def test_a_request_is_a_record() -> None:
    made = hook(key_header="X-Id", headers=["X-Event"])
    assert made.record({"x-id": "7", "x-event": "push", "x-other": "y"}, b"v") == (b"v", b"7", [("x-event", b"push")])
    assert made.record({}, b"v") == (b"v", None, [])


def test_a_head_is_parsed() -> None:
    head = parse_head(b"POST /in?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length:  5 \r\nConnection: Close")
    assert (head.method, head.path, head.headers["content-length"], head.keeps_open) == ("POST", "/in", "5", False)
    assert body_length(head, 5) == 5


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 400),
        (b"POST /\r\nHost: a", 400),
        (b"POST / HTTP/1.1\r\nHost : a", 400),
        (b"POST / HTTP/1.1\r\nA: b\r\n c", 400),
        (b"POST / HTTP/1.1\r\nA: b\nX: c", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6", 400),
        (b"POST / HTTP/1.1" + b"\r\nA: b" * 101, 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", 411),
        (b"POST / HTTP/1.1", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: +5", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: \xb2", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 101", 413),
    ],
)
def test_a_request_that_is_not_clear_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as raised:
        body_length(parse_head(data), 100)
    assert raised.value.status == status
