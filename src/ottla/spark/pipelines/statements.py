"""The topics that an SQL statement names, found in its text: before there is a Spark that could parse it."""

from __future__ import annotations

import re
from collections.abc import Iterable

STREAM = re.compile(r"\bstream\s*(?:\(\s*(`[^`]+`|[\w.-]+)\s*\)|(`[^`]+`|[\w.-]+))", re.IGNORECASE)
_SKIPPED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Text and comments."""
_READ = re.compile(r"(?<!distinct )\b(?:from|join)\s+(`[^`]+`|[a-z_]\w*\b)(?!\s*[(.`])", re.IGNORECASE)
"""A table after FROM or JOIN: not a function, a list of values or a part of a longer name."""
_NAMED = re.compile(r"(`[^`]+`|\w+)\s*(?:\([^()]*\)\s*)?\bas\s*\(", re.IGNORECASE)
"""A name that a WITH gives to a query."""
_QUERY = re.compile(r"\s*(?:select|with|from)\b", re.IGNORECASE)
_NO_TABLES = frozenset(("lateral", "values", "table", "unnest"))


def topics_of(statement: str, known: Iterable[str]) -> list[str]:
    """The topics that a statement names, plain or in backticks."""
    return [topic for topic in known if re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w.-])", statement)]


def without_stream(statement: str) -> tuple[str, bool]:
    """A statement whose `STREAM topic` or `STREAM(topic)` has become the topic, and whether there was one."""
    plain = STREAM.sub(lambda match: match.group(1) or match.group(2), statement)
    return plain, plain != statement


def unknown_topic(statement: str, known: Iterable[str]) -> str | None:
    """A name that a query reads and that is certainly no topic. None in all cases of doubt, which Spark decides."""
    plain = re.sub(r"\s+", " ", _SKIPPED.sub(" ", statement))
    if not _QUERY.match(plain):
        return None
    names = {name.lower() for name in known} | {match.group(1).strip("`").lower() for match in _NAMED.finditer(plain)}
    for match in _READ.finditer(plain):
        name = match.group(1).strip("`")
        if name.lower() not in names | _NO_TABLES and _is_of_query(plain[: match.start()]):
            return name
    return None


def _is_of_query(before: str) -> bool:
    """Whether a FROM belongs to a query, and not to a function like `extract(year from at)`."""
    depth = 0
    for index in range(len(before) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(before[index], 0)
        if depth < 0:
            return _QUERY.match(before, index + 1) is not None
    return True
