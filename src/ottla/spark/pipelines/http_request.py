"""The requests of a flow with `http: URL`, from `request` in pipeline.yml. Pure: the calls are in http_target.py.

A call is made at least once: if Spark does a batch again, after a crash or a failure, its calls are made again. Each
call has an `Idempotency-Key` that is the same both times, so a server can recognise it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.spark.pipelines import values
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import NUMBER, SIGN_KEYS, SQL, TEXTS, TIME, FileKey, one_of

ROW, BATCH = PER = ("row", "batch")
METHODS = ("POST", "PUT", "PATCH")
REQUEST_KEYS: Final = {
    "method": FileKey(one_of(*METHODS), "the method of the call", "POST"),
    "per": FileKey(
        one_of(*PER),
        "`row`: a call for each row, its body the row as JSON. `batch`: arrays of up to `max_rows` rows",
        ROW,
    ),
    "max_rows": FileKey(NUMBER, "with `per: batch`: the most rows in a call, at most 10,000", "500"),
    "timeout": FileKey(TIME, "how long an answer may take, in seconds or minutes", "30 seconds"),
    "tries": FileKey(NUMBER, "how often a call is made before the batch fails, at most 1,000", "8"),
    "headers": FileKey(TEXTS, 'headers of every call: `{Authorization: "Bearer ${HOOK_TOKEN}"}`'),
    "idempotency_key": FileKey(
        SQL, "the value of the header `Idempotency-Key`, with `per: row`. Without it made from flow, batch and row"
    ),
    "sign": FileKey("keys below", 'a signature of the body: `{secret: "${file:hook-secret}"}`'),
}
IDEMPOTENCY_HEADER = "Idempotency-Key"
RETRIED = (408, 425, 429)
"""Answers of the 4xx kind that say 'later', not 'never'."""
MAX_ROWS = 10_000
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_DURATION = re.compile(r"(\d+) (second|minute)s?")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str = "POST"
    per: str = ROW
    max_rows: int = 500
    """With `per: batch`: the most rows in a call."""
    timeout_s: float = 30.0
    tries: int = 8
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    idempotency_key: str | None = None
    """An SQL expression; without it the key is made of the flow, the batch and the row."""
    secret: str | None = field(default=None, repr=False)
    signature_header: str = "X-Hub-Signature-256"

    def sent_headers(self, body: bytes, key: str) -> dict[str, str]:
        sent = {"Content-Type": "application/json", "User-Agent": "ottla", IDEMPOTENCY_HEADER: key, **self.headers}
        if self.secret is not None:
            sent[self.signature_header] = f"sha256={signature(self.secret, body)}"
        return sent

    def pause_s(self, attempt: int, retry_after: str | None, chance: float) -> float:
        """How long to wait after a try that failed: as the server says, else twice as long each time, at most
        MAX_PAUSE_S; `chance` from 0 to 1 keeps tasks apart."""
        if retry_after is not None and retry_after.strip().isdecimal():
            return min(float(retry_after), MAX_PAUSE_S)
        return float(min(FIRST_PAUSE_S * 2**attempt, MAX_PAUSE_S) * (0.5 + chance / 2))


def signature(secret: str, body: bytes) -> str:
    """HMAC-SHA256 as GitHub, Shopify and others sign webhooks."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def is_refused(status: int) -> bool:
    """Whether an answer means that this body will never be accepted."""
    return 400 <= status < 500 and status not in RETRIED


def http_request(given: Mapping[str, Any], where: str) -> HttpRequest:
    """The request of a flow with `http`."""
    _check_url(values.text(given, "http", where) or "", f"{where}.http")
    where = f"{where}.request"
    parts = values.section(given.get("request", {}), where, REQUEST_KEYS)
    headers = values.texts(parts, "headers", where)
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or "\n" in value or "\r" in value:
            raise PipelineError(f"{where}.headers: {name!r} is no header of HTTP")
    sign = values.section(parts.get("sign", {}), f"{where}.sign", SIGN_KEYS)
    secret = values.text(sign, "secret", f"{where}.sign")
    if "sign" in parts and secret is None:
        raise PipelineError(f"{where}.sign: it needs a secret, e.g. '{{secret: ${{WEBHOOK_SECRET}}}}'")
    per = values.choice(parts, "per", where, PER) or ROW
    key = values.text(parts, "idempotency_key", where)
    if key is not None and per == BATCH:
        raise PipelineError(f"{where}.idempotency_key: it is of a row, and 'per: batch' sends many together")
    return HttpRequest(
        method=values.choice(parts, "method", where, METHODS) or "POST",
        per=per,
        max_rows=_number(parts, "max_rows", where, 500, MAX_ROWS),
        timeout_s=_timeout_s(parts, where),
        tries=_number(parts, "tries", where, 8, 1000),
        headers=headers,
        idempotency_key=key,
        secret=secret,
        signature_header=values.text(sign, "header", f"{where}.sign") or "X-Hub-Signature-256",
    )


def _check_url(url: str, where: str) -> None:
    if url.startswith("${"):  # a command that only shows the pipeline
        return
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_right = False
    if not is_right or any(letter.isspace() for letter in url):
        raise PipelineError(f"{where}: an address such as https://example.com/orders is expected")


def _number(parts: Mapping[str, Any], key: str, where: str, default: int, most: int) -> int:
    text = values.text(parts, key, where)
    if text is None:
        return default
    if not text.isdecimal() or not 0 < int(text) <= most:
        raise PipelineError(f"{where}.{key}: a whole number from 1 to {most} is expected, not {text!r}")
    return int(text)


def _timeout_s(parts: Mapping[str, Any], where: str) -> float:
    text = values.text(parts, "timeout", where)
    if text is None:
        return 30.0
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise PipelineError(f"{where}.timeout: a time such as '10 seconds' is expected, not {text!r}")
    return float(int(match[1]) * (60 if match[2] == "minute" else 1))
