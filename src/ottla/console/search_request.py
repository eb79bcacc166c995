"""The parameters of a search or a tail, parsed and bounded, and the cursor with which a search continues."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.console.expression import Expression, ExpressionError, parse_expression, parse_path
from ottla.console.faults import Fault, invalid

MAX_LIMIT = 1_000
MAX_PARTITIONS = 10_000
MAX_TEXT = 10_000
MAX_CURSOR = 1_000_000
FORMATS = ("auto", "json", "text", "hex")
Ranges = dict[int, tuple[int, int]]
"""By partition the range that is not read yet: the first offset, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in every partition."""

    kind: str
    value: int = 0


EARLIEST, LATEST = Place("earliest"), Place("latest")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records match: all that is given has to hold."""

    key: bytes | None = None
    text: bytes | None = None
    ignores_case: bool = False
    header_name: str | None = None
    header_value: bytes | None = None
    path: tuple[str | int, ...] | None = None
    equals: Any = None
    expression: Expression | None = None

    @property
    def needs_headers(self) -> bool:
        uses = self.expression is not None and "headers" in self.expression.roots
        return self.text is not None or self.header_name is not None or uses

    @property
    def needs_documents(self) -> bool:
        """Whether records have to be decoded to tell."""
        return self.path is not None or self.expression is not None


@dataclass(frozen=True, slots=True)
class SearchRequest:
    topic: str
    partitions: tuple[int, ...] | None = None
    start: Place = EARLIEST
    end: Place | None = None
    filter: Filter = field(default_factory=Filter)
    is_newest_first: bool = True
    limit: int = 100
    cursor: Ranges | None = None
    format: str = "auto"


def parse_search(given: Any, *, default_start: Place = EARLIEST) -> SearchRequest:
    """The search that the body of a request describes. Raises Fault with the first field that is missing or wrong."""
    body = document(given)
    topic = body.get("topic")
    if not isinstance(topic, str) or not topic:
        raise invalid("topic: the name of a topic is missing")
    order = body.get("order") or "newest"
    if order not in ("newest", "oldest"):
        raise invalid("order is newest or oldest")
    format_ = body.get("format") or "auto"
    if format_ not in FORMATS:
        raise invalid(f"format is one of {', '.join(FORMATS)}")
    end = body.get("to")
    return SearchRequest(
        topic,
        _partitions(body.get("partitions")),
        default_start if body.get("from") is None else parse_place(body["from"]),
        None if end is None else parse_place(end),
        parse_filter(body),
        order == "newest",
        integer(body.get("limit"), "limit", 1, MAX_LIMIT, 100),
        None if body.get("cursor") is None else parse_cursor(body["cursor"]),
        format_,
    )


def document(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise invalid("the body is a JSON object")
    return given


def integer(given: Any, name: str, low: int, high: int, default: int | None = None) -> int:
    if given is None and default is not None:
        return default
    if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
        raise invalid(f"{name} is a whole number from {low} to {high}")
    return given


def text(given: Any, name: str, *, is_empty_allowed: bool = False) -> str:
    if not isinstance(given, str) or (not given and not is_empty_allowed) or len(given) > MAX_TEXT:
        raise invalid(f"{name} is a text of at most {MAX_TEXT} characters")
    return given


def _partitions(given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not given or len(given) > MAX_PARTITIONS:
        raise invalid("partitions is a list of numbers, or null for all")
    return tuple(sorted({integer(one, "partitions", 0, 2**31 - 1) for one in given}))


def parse_place(given: Any) -> Place:
    body = document(given)
    match body.get("kind"):
        case "earliest":
            return EARLIEST
        case "latest":
            return LATEST
        case "offset":
            return Place("offset", integer(body.get("offset"), "offset", 0, 2**63 - 1))
        case "time":
            return Place("time", integer(body.get("timestamp"), "timestamp", 0, 2**53))
    raise invalid("a place is earliest, latest, offset or time")


def parse_filter(body: Mapping[str, Any]) -> Filter:
    key = None if body.get("key") is None else text(body["key"], "key", is_empty_allowed=True).encode()
    given = body.get("filter")
    if given is None:
        return Filter(key)
    asked = document(given)
    header, path, expression = asked.get("header"), asked.get("path"), asked.get("expression")
    try:
        return Filter(
            key,
            None if not asked.get("text") else text(asked["text"], "filter.text").encode(),
            asked.get("ignore_case") is True,
            None if header is None else text(document(header).get("name"), "filter.header.name"),
            None if header is None or header.get("value") in (None, "") else str(header["value"])[:MAX_TEXT].encode(),
            None if path is None else parse_path(text(document(path).get("path"), "filter.path.path")),
            None if path is None else path.get("equals"),
            None if not expression else parse_expression(text(expression, "filter.expression")),
        )
    except ExpressionError as error:
        raise invalid(f"filter: {error}") from None


# Cursors


def format_cursor(left: Ranges) -> str | None:
    """None if there is nothing left to read."""
    rows = [[partition, first, end] for partition, (first, end) in sorted(left.items()) if first < end]
    if not rows:
        return None
    return base64.urlsafe_b64encode(json.dumps(rows, separators=(",", ":")).encode()).decode()


def parse_cursor(given: Any) -> Ranges:
    wrong = invalid("cursor is not one that this server gave", "begin the search again")
    if not isinstance(given, str) or len(given) > MAX_CURSOR:
        raise wrong
    try:
        rows = json.loads(base64.urlsafe_b64decode(given.encode()))
        left = {
            integer(partition, "cursor", 0, 2**31 - 1): (
                integer(first, "cursor", 0, 2**63 - 1),
                integer(end, "cursor", 0, 2**63 - 1),
            )
            for partition, first, end in rows
        }
    except (ValueError, TypeError, Fault, RecursionError):
        raise wrong from None
    if len(left) > MAX_PARTITIONS:
        raise wrong
    return left
