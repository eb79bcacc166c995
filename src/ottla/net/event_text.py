"""Events and effects of a machine as one short line of a log.

    event_text(Answered(3, response)) -> "Answered(id=3, response=VoteResponse(topics=[...]))"

A line must be short, and every reader of the logs sees it: bytes (records, snapshots, credentials, metadata of
protocols) are shown as a count, long lists are cut, and values of settings and of fields with the name of a secret are
hidden.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set
from enum import Enum
from itertools import islice

from ottla.wire.message import Struct

HIDDEN = "[hidden]"
SECRET_WORDS = ("password", "secret", "credential", "hmac", "salt", "token")
MAX_TEXT_LENGTH = 80
MAX_ITEM_COUNT = 5
MAX_DEPTH = 8


def event_text(value: object, depth: int = 0) -> str:
    """A value as its constructor's call, with secrets hidden and long parts cut."""
    match value:
        case None | bool() | int() | float():
            return value.name if isinstance(value, Enum) else repr(value)
        case str():
            return repr(value if len(value) <= MAX_TEXT_LENGTH else f"{value[:MAX_TEXT_LENGTH]}...")
        case bytes() | bytearray() | memoryview():
            return f"<{len(value)} bytes>"
        case BaseException():
            return f"{type(value).__name__}({event_text(str(value))})"
    if depth >= MAX_DEPTH:
        return "..."
    fields = _fields(value)
    if fields is not None:
        is_setting = isinstance(value, Struct) and {"name", "value"} <= {name for name, _ in fields}
        shown = [
            f"{name}={HIDDEN if _is_secret(name, of, is_setting) else event_text(of, depth + 1)}" for name, of in fields
        ]
        return f"{type(value).__name__}({', '.join(shown)})"
    if isinstance(value, Mapping):
        shown = [
            f"{event_text(key, depth + 1)}: {event_text(of, depth + 1)}"
            for key, of in islice(value.items(), MAX_ITEM_COUNT)
        ]
        return "{" + _joined(shown, len(value)) + "}"
    if isinstance(value, list | tuple | Set):
        items = [event_text(item, depth + 1) for item in islice(value, MAX_ITEM_COUNT)]
        return "[" + _joined(items, len(value)) + "]"
    return value.name if isinstance(value, Enum) else f"<{type(value).__name__}>"


def _fields(value: object) -> list[tuple[str, object]] | None:
    """The fields by name, a message's only if they differ from their defaults; None for other objects."""
    if isinstance(value, Struct):
        given = [(field, getattr(value, field.name)) for field in type(value).__schema__.fields]
        return [
            (field.name, of.hex() if field.type == "uuid" and isinstance(of, bytes) else of)
            for field, of in given
            if of != field.default
        ]
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.repr]
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)) is not None:
        return list(zip(names, value, strict=True))
    return None


def _is_secret(name: str, value: object, is_setting: bool) -> bool:
    """Whether it may be a secret: values of settings (ConfigRecord, AlterableConfig) may be passwords, and this module
    does not know which.
    """
    return isinstance(value, str) and ((is_setting and name == "value") or any(word in name for word in SECRET_WORDS))


def _joined(shown: list[str], count: int) -> str:
    return ", ".join(shown) + (f", {count - len(shown)} more" if count > len(shown) else "")
