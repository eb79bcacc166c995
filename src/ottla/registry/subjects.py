"""Subjects and contexts: `:.context:name` is the subject `name` in the context `.context`; `.` is the default one."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.registry import faults

DEFAULT_CONTEXT = "."
MAX_SUBJECT_CHARS = 1_000
_PREFIX = ":."
_has_control = re.compile(r"[\x00-\x1f]").search
_RESERVED = ("__GLOBAL", "__EMPTY")


class Subject(NamedTuple):
    """A subject in its context. In settings, an empty name means the context itself."""

    context: str
    name: str

    @property
    def key(self) -> str:
        """As records and answers spell it."""
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    @property
    def scopes(self) -> tuple[str, ...]:
        """Where a setting of this subject is looked for, nearest first; the empty key is global."""
        found = [self.key]
        if self.context != DEFAULT_CONTEXT:
            found.append(Subject(self.context, "").key)
        return (*found, "") if found[-1] else ("",)


def parse(text: str, context: str = DEFAULT_CONTEXT) -> Subject:
    """The subject that a request names; `context` is that of its path, and holds for names without one."""
    if len(text) > MAX_SUBJECT_CHARS or _has_control(text) or text in _RESERVED:
        raise faults.invalid_subject(text[:100])
    if not text.startswith(_PREFIX):
        return Subject(context, text)
    inner, colon, name = text[1:].partition(":")
    return Subject(inner, name if colon else "")


def parse_context(text: str) -> str:
    """The context of a path: `ctx`, `.ctx` and `:.ctx:` are the same."""
    name = text.strip(":")
    if ":" in name or len(name) > MAX_SUBJECT_CHARS or _has_control(name):
        raise faults.invalid_subject(text[:100])
    return name if name.startswith(".") else f".{name}"
