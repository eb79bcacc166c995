"""Webhooks: what pipeline.yml says of them, and what an HTTP request has to be to become a record. Pure: the listener
is `cli/pipeline_webhook.py`.

A request is a record: its body the value. It is answered with 2xx only when the record is in the topic with acks=all:
a sender that tries again after any other answer loses nothing, but may write twice.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.config.open_listeners import is_loopback
from ottla.spark.pipelines import values
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import LIST, NUMBER, SIGN_KEYS, TEXT, FileKey
from ottla.spark.pipelines.http_request import signature

DEFAULT_MAX_BODY = 1024 * 1024
MOST_MAX_BODY = 16 * 1024 * 1024
WEBHOOK_KEYS: Final = {
    "port": FileKey(NUMBER, "the port; required"),
    "host": FileKey(TEXT, "the address to listen at. One that is not loopback needs `token` or `sign`", "127.0.0.1"),
    "path": FileKey(TEXT, "the path of the requests", "/"),
    "token": FileKey(TEXT, "requests need the header `Authorization: Bearer TOKEN`"),
    "sign": FileKey("keys below", 'requests need a signature of their body: `{secret: "${HOOK_SECRET}"}`'),
    "max_body": FileKey(NUMBER, "the largest body in bytes, at most 16 MiB", str(DEFAULT_MAX_BODY)),
    "key_header": FileKey(TEXT, "a header of the request that is the record's key"),
    "headers": FileKey(LIST, "headers of the request that the record keeps"),
}
MAX_HEAD_BYTES = 16 * 1024
MAX_HEADERS = 100
_REQUEST = re.compile(r"([A-Z]+) ([^ ]+) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where requests of a source arrive, and how they are known to be genuine."""

    port: int
    host: str = "127.0.0.1"
    path: str = "/"
    token: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    signature_header: str = "x-hub-signature-256"
    max_body: int = DEFAULT_MAX_BODY
    key_header: str | None = None
    headers: tuple[str, ...] = ()
    """Headers of the request that become headers of the record."""

    def refusal(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Why a request is not genuine; None if it is. What is compared takes the same time whether it is equal."""
        if self.token is not None:
            given = headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return "the token is missing or wrong: send 'Authorization: Bearer TOKEN'"
        if self.secret is not None:
            given = headers.get(self.signature_header, "").removeprefix("sha256=")
            if not hmac.compare_digest(given.encode(), signature(self.secret, body).encode()):
                return f"the signature in {self.signature_header} is missing or wrong"
        return None

    def record(self, headers: Mapping[str, str], body: bytes) -> tuple[bytes, bytes | None, list[tuple[str, bytes]]]:
        """Value, key and headers of the record."""
        key = None if self.key_header is None else headers.get(self.key_header)
        kept = [(name, headers[name].encode()) for name in self.headers if name in headers]
        return body, None if key is None else key.encode(), kept


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def keeps_open(self) -> bool:
        return "close" not in self.headers.get("connection", "").lower()


class BadRequest(Exception):
    """A request that is refused, with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def parse_head(data: bytes) -> Head:
    """The head of a request, without the empty line at its end. What could be read in two ways is refused."""
    lines = data.decode("latin-1").split("\r\n")
    request = _REQUEST.fullmatch(lines[0])
    if request is None:
        raise BadRequest(400, "this is no request of HTTP/1.1")
    if len(lines) - 1 > MAX_HEADERS:
        raise BadRequest(431, f"more than {MAX_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        match = _HEADER.fullmatch(line)
        if match is None or "\n" in line or "\r" in line or "\0" in line:
            raise BadRequest(400, "a header cannot be read")
        name = match[1].lower()
        if name in headers and name in ("content-length", "transfer-encoding", "host", "authorization"):
            raise BadRequest(400, f"the header {name} comes twice")
        headers[name] = match[2]
    return Head(request[1], request[2].split("?", 1)[0], headers)


def body_length(head: Head, most: int) -> int:
    if "transfer-encoding" in head.headers:
        raise BadRequest(411, "a Content-Length is needed: bodies in chunks are not read")
    text = head.headers.get("content-length", "")
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise BadRequest(411, "a Content-Length is needed")
    if int(text) > most:
        raise BadRequest(413, f"the body has {text} bytes, and at most {most} are taken")
    return int(text)


def webhook_of(given: Mapping[str, Any], where: str) -> Webhook | None:
    """`webhook: {port: 8090, path: /orders, token: ...}` of a source with a topic."""
    if "webhook" not in given:
        return None
    if "topic" not in given:
        raise PipelineError(f"{where}.webhook: it needs 'topic: NAME', where its requests are kept")
    where = f"{where}.webhook"
    parts = values.section(given["webhook"], where, WEBHOOK_KEYS)
    sign = values.section(parts.get("sign", {}), f"{where}.sign", SIGN_KEYS)
    secret = values.text(sign, "secret", f"{where}.sign")
    if "sign" in parts and secret is None:
        raise PipelineError(f"{where}.sign: it needs a secret, e.g. '{{secret: ${{WEBHOOK_SECRET}}}}'")
    key_header = values.text(parts, "key_header", where)
    made = Webhook(
        port=_number(parts, "port", where, None, 65535),
        host=values.text(parts, "host", where) or "127.0.0.1",
        path=values.text(parts, "path", where) or "/",
        token=values.text(parts, "token", where),
        secret=secret,
        signature_header=(values.text(sign, "header", f"{where}.sign") or "X-Hub-Signature-256").lower(),
        max_body=_number(parts, "max_body", where, DEFAULT_MAX_BODY, MOST_MAX_BODY),
        key_header=None if key_header is None else key_header.lower(),
        headers=tuple(name.lower() for name in values.listed(parts, "headers", where)),
    )
    if not made.path.startswith("/"):
        raise PipelineError(f"{where}.path: it begins with '/', e.g. /orders")
    if not is_loopback(made.host) and made.token is None and made.secret is None:
        raise PipelineError(
            f"{where}: other machines can reach {made.host}, so it needs a 'token' or 'sign: {{secret: ...}}'; or "
            "leave out 'host', and let a proxy with TLS pass requests on"
        )
    return made


def _number(parts: Mapping[str, Any], key: str, where: str, default: int | None, most: int) -> int:
    text = values.text(parts, key, where)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or int(text) > most:
        raise PipelineError(f"{where}.{key}: a whole number up to {most} is expected")
    return int(text)
