"""Regular expressions that members subscribe with: RE2, matched against whole topic names.

RE2 needs time in proportion to its input, so a client cannot hang the coordinator with a pattern. This is the only file
that knows google-re2.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import re2

from ottla.wire.errors import ErrorCode, KafkaError

MAX_PATTERN_BYTES = 32767
"""A pattern is part of a record's key, where a string has a length of two bytes."""


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched at its last lookup."""

    topics: tuple[str, ...]
    """Sorted."""
    version: int
    """The version of the metadata at the lookup."""
    timestamp: int
    """When it was looked up, in wall clock milliseconds."""


UNRESOLVED = ResolvedRegex((), 0, 0)


def check_regex(pattern: str) -> None:
    """KafkaError with INVALID_REGULAR_EXPRESSION if RE2 refuses the pattern."""
    if len(pattern.encode("utf-8", "replace")) > MAX_PATTERN_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex is longer than the {MAX_PATTERN_BYTES} bytes it may have.",
        )
    try:
        _compile(pattern)
    except (re2.error, UnicodeEncodeError) as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {_reason(error)}.",
        ) from None


def matching_topics(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    """The topics whose whole name matches, sorted. An invalid pattern matches nothing."""
    try:
        matches = _compile(pattern).fullmatch
    except (re2.error, UnicodeEncodeError):
        return ()
    return tuple(sorted(topic for topic in topics if matches(topic)))


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern matches anywhere in a text. An invalid pattern matches nothing."""
    if len(pattern) > MAX_PATTERN_BYTES:
        return False
    try:
        return _compile(pattern).search(text) is not None
    except (re2.error, UnicodeEncodeError):
        return False


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


@lru_cache(maxsize=128)
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)
